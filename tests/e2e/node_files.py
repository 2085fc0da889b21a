# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a node: configuration and unit of the kubelet, configuration of containerd."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from . import node_packages, pod_network
from .settings import DNS, DOMAIN

if TYPE_CHECKING:
    from lab.state import Node

    from .settings import Settings

DIRECTORY = "/etc/e2e"
KUBELET = "/usr/local/bin/kubelet"
UNIT = "e2e-kubelet.service"
_SOCKET = "/run/containerd/containerd.sock"
# The kubelet wants a processor's frequency, which user-mode Linux does not have.
PREPARE = f"""\
#!/bin/sh
set -e
modprobe -a overlay br_netfilter
mount --make-rshared /
grep -q '^cpu MHz' /proc/cpuinfo || {{
    sed '/^model name/a cpu MHz\\t\\t: 2000.000' /proc/cpuinfo > /run/cpuinfo
    mount --bind /run/cpuinfo /proc/cpuinfo
}}
mkdir -p {DIRECTORY}/manifests
"""


def containerd(sandbox_image: str) -> str:
    """Return containerd's configuration; ``sandbox_image`` is the name of the pause image."""
    runtime = "io.containerd.grpc.v1.cri"
    return f"""\
version = 2
[plugins."{runtime}"]
  sandbox_image = "{sandbox_image}"
  disable_apparmor = true
  [plugins."{runtime}".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."{runtime}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{runtime}".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def kubelet_configuration() -> str:
    """Return the KubeletConfiguration."""
    little = dict.fromkeys(("nodefs.available", "imagefs.available", "nodefs.inodesFree"), "1%")
    fields = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{DIRECTORY}/ca.pem"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": ["none"],
        "failSwapOn": False,
        "resolvConf": "",
        "clusterDNS": [DNS],
        "clusterDomain": DOMAIN,
        "nodeStatusUpdateFrequency": "20s",
        "runtimeRequestTimeout": "15m",
        "imageGCHighThresholdPercent": 100,  # a lab's disk is small, and images cannot be pulled again
        "evictionHard": {"memory.available": "50Mi", **little},
    }
    return json.dumps(fields, indent=1) + "\n"


def kubelet_unit(settings: Settings, node: Node) -> str:
    """Return the unit of a node's kubelet."""
    zone = settings.zone(node.index)
    words = [
        KUBELET,
        f"--config={DIRECTORY}/kubelet.json",
        f"--kubeconfig={DIRECTORY}/kubeconfig",
        f"--hostname-override={node.name}",
        f"--node-ip={','.join(node.addresses[: settings.families])}",
        *([f"--node-labels=topology.kubernetes.io/zone={zone}"] if zone else []),
    ]
    return f"""\
[Unit]
Description=Kubelet
After=containerd.service
Wants=containerd.service
[Service]
ExecStartPre={DIRECTORY}/prepare
ExecStart={" ".join(words)}
Restart=on-failure
RestartSec=5
KillMode=process
"""


def files(
    settings: Settings, node: Node, authority: str, kubeconfig: str, sandbox_image: str
) -> dict[str, tuple[int, str]]:
    """Return a node's files: path without leading slash to mode and text."""
    directory = DIRECTORY.lstrip("/")
    networks = settings.pod_networks_of(node.index)
    return {
        "etc/apt/sources.list.d/e2e.list": (0o644, node_packages.SOURCE),
        "etc/cni/net.d/10-pods.conflist": (0o644, pod_network.cni_configuration(networks)),
        "etc/containerd/e2e.toml": (0o644, containerd(sandbox_image)),
        "etc/systemd/system/containerd.service.d/e2e.conf": (
            0o644,
            "[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config /etc/containerd/e2e.toml\n",
        ),
        f"etc/systemd/system/{UNIT}": (0o644, kubelet_unit(settings, node)),
        f"{directory}/ca.pem": (0o644, authority),
        f"{directory}/kubeconfig": (0o600, kubeconfig),
        f"{directory}/kubelet.json": (0o644, kubelet_configuration()),
        f"{directory}/prepare": (0o755, PREPARE),
    }
