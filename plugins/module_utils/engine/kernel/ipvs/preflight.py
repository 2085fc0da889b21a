# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether this node can balance with IPVS and a scheduler: create a virtual server and remove it again.

kube-proxy does the same (pkg/proxy/ipvs, CanUseIPVSProxier), because module lists and kernel versions are unreliable.
"""

from __future__ import annotations

import re

from ...errors import KernelError
from ...model.ipvs import VirtualServer, VirtualServerKey
from ...model.step import Step
from .table import apply, read

PROBE_ADDRESS = "198.51.100.0"  # RFC 5737: reserved for documentation, unused
PROBE_PORTS = range(20000, 20100)  # kube-proxy's port first, then others in case it is in use
MINIMUM_IPSET = (6, 0)
DEFAULT_SCHEDULER = "rr"


def can_use_ipvs(scheduler: str, ipset_version_text: str | None, *, with_sets: bool = True) -> list[str]:
    """Return the unmet prerequisites of the node, one sentence each.

    Args:
        scheduler: its name; "" means rr.
        ipset_version_text: what ``ipset --version`` printed, for example ``ipset v7.17, protocol version: 7``; None if
            it cannot be run.
        with_sets: whether IP sets are needed; nftables has sets of its own.
    """
    of_sets = ipset_problem(ipset_version_text) if with_sets else ""
    return [problem for problem in (of_sets, scheduler_problem(scheduler)) if problem]


def ipset_problem(version_text: str | None) -> str:
    """Return why this ipset cannot be used, or ""."""
    wanted = ".".join(map(str, MINIMUM_IPSET))
    if version_text is None:
        return f"ipset cannot be run: install ipset {wanted} or newer"
    version = re.search(r"(\d+)\.(\d+)", version_text)
    if not version:
        return f"ipset's version cannot be read from {version_text.strip()!r}, expected {wanted} or newer"
    if (int(version[1]), int(version[2])) < MINIMUM_IPSET:
        return f"ipset is version {version[0]}, expected {wanted} or newer"
    return ""


def scheduler_problem(scheduler: str) -> str:
    """Return why the kernel cannot balance with this scheduler, or "".

    Creates a virtual server and removes it at once, unless one with this scheduler exists.
    """
    scheduler = scheduler or DEFAULT_SCHEDULER
    try:
        servers = read_servers()
        if any(value.scheduler == scheduler for value in servers.values()):
            return ""
        probe = next((key for key in _probes() if key not in servers), None)
        if probe is None:
            return f"IPVS cannot be probed: {PROBE_ADDRESS} has virtual servers on all ports that are tried"
        return _try(Step("virtual_server", probe, None, VirtualServer(scheduler)))
    except KernelError as error:
        return str(error)


def _probes() -> list[VirtualServerKey]:
    return [VirtualServerKey("tcp", PROBE_ADDRESS, port, 4) for port in PROBE_PORTS]


def _try(step: Step) -> str:
    created = apply([step])
    if created.failed:
        return created.failed[0].message
    try:
        seen = step.key in read_servers()
    finally:
        removed = apply([step.inverse()])
    if removed.failed:
        return removed.failed[0].message
    return "" if seen else "the kernel took a virtual server but does not list it: its ip_vs does not work"


def read_servers() -> dict[VirtualServerKey, VirtualServer]:
    """Return the virtual servers."""
    return read()["virtual_server"]
