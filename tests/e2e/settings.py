# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a run: what the caller chooses, and the names and addresses of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lab import naming
from lab.kernel_kinds import KERNELS
from lab.paths import ROOT

from .errors import E2eError

CACHE = ROOT / ".cache/e2e"  # packages and images, kept for the next run
WORK = CACHE / "run"  # certificates, etcd's data, logs; removed at the end of a run
RESULTS = ROOT / ".cache/results/e2e"
LAB = "e2e"  # name of the lab
MEMORY = "3G"  # of each node
RELEASE = "bookworm"  # Debian of the nodes and of the images

FOCUS = r"\[sig-network\] Services"
SKIP = r"\[Slow\]|\[Disruptive\]|\[Serial\]|LoadBalancer|\[Feature:"
SIZES = (2, 3)  # numbers of nodes; three are dual-stack, each in a zone of its own

DOMAIN = "cluster.local"
DNS = "10.96.0.10"
API_SERVICE = "10.96.0.1"
HOST = naming.bridge_addresses()  # of the control plane, on the lab's bridge
_SERVICES = ("10.96.0.0/16", "fd00:10:96::/112")
_PODS = ("10.244.0.0/16", "fd00:10:244::/48")


class Settings(NamedTuple):
    """Choices of the caller."""

    programs: Path
    nodes: int = 2
    kernel: str = "uml"
    focus: str = FOCUS
    skip: str = SKIP

    @property
    def dual_stack(self) -> bool:
        """Return true if the cluster has both families."""
        return self.nodes == max(SIZES)

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [f"node{number}" for number in range(1, self.nodes + 1)]

    @property
    def service_networks(self) -> str:
        """Networks of cluster IPs, as the API server takes them."""
        return ",".join(_SERVICES[: self.families])

    @property
    def pod_networks(self) -> str:
        """Networks of all pods, as a service proxy takes them."""
        return ",".join(_PODS[: self.families])

    @property
    def families(self) -> int:
        """Return the number of IP families."""
        return 2 if self.dual_stack else 1

    def pod_networks_of(self, index: int) -> list[str]:
        """Return the pod networks of a node, counted from 0."""
        return [f"10.244.{index + 1}.0/24", f"fd00:10:244:{index + 1}::/64"][: self.families]

    def zone(self, index: int) -> str:
        """Return the zone of a node, empty if nodes have none."""
        return f"zone-{'abc'[index]}" if self.dual_stack else ""

    @property
    def cluster(self) -> str:
        """Describe the nodes in the table of results."""
        return f"{self.nodes}{', dual-stack, three zones' if self.dual_stack else ''}"


def read(environment: Mapping[str, str]) -> Settings:
    """Return the settings in the variables KUBERNETES, NODES, KERNEL, FOCUS and SKIP; empty ones have the default.

    Raises:
        E2eError: a value is wrong.
    """
    given = {name: environment.get(name, "") for name in ("KUBERNETES", "NODES", "KERNEL", "FOCUS", "SKIP")}
    if not given["KUBERNETES"]:
        raise E2eError("KUBERNETES is empty: expected the directory with the programs, make e2e KUBERNETES=dir")
    nodes = given["NODES"] or "2"
    if nodes not in map(str, SIZES):
        raise E2eError(f"NODES={nodes}: expected {' or '.join(map(str, SIZES))}")
    kernel = given["KERNEL"] or "uml"
    if kernel not in KERNELS:
        raise E2eError(f"KERNEL={kernel}: expected {' or '.join(KERNELS)}")
    programs = Path(given["KUBERNETES"]).resolve()
    return Settings(programs, int(nodes), kernel, given["FOCUS"] or FOCUS, given["SKIP"] or SKIP)
