# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pod network in the layout of flannel's host-gw mode, without flannel.

Each node N has the pod CIDR 10.244.N.0/24 on a bridge ``cni0``, and a route to the pod CIDR of each other node. A pod
is a network namespace with a veth pair to the bridge, in which ``onnode/server.py`` runs as the transient unit
``pod-NAME``. The collection makes none of this: a cluster has a pod network before it has a service proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import namespaces
from .namespaces import DIRECTORY, NODES, ON_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cluster import Pod
    from .namespaces import Lab

BRIDGE = "cni0"


def gateway(node: str) -> str:
    """Return the address of a node's bridge, the gateway of its pods."""
    return f"10.244.{NODES.index(node) + 1}.1"


def _network(node: str) -> str:
    return gateway(node)[: -len(".1")] + ".0/24"


def script(lab: Lab, node: str, pods: Sequence[Pod], port: int) -> str:
    """Return the shell script that makes the pod network on a node and starts its pods."""
    others = [other for other in NODES if other != node]
    lines = [
        "set -e",
        f"mkdir -p {DIRECTORY}",
        *(f"cat > {DIRECTORY}/{path.name} <<'END'\n{path.read_text()}END" for path in sorted(ON_NODE.glob("*.py"))),
        "ip -batch - <<END",
        f"link add {BRIDGE} type bridge",
        f"address add {gateway(node)}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        *(f"route add {_network(other)} via {lab.address(other)}" for other in others),
        *(f"netns add {pod.name}" for pod in pods),
        "END",
    ]
    for index, pod in enumerate(pods):
        cable = f"veth{index}"
        lines += [
            "ip -batch - <<END",
            f"link add {cable} type veth peer name eth0 netns {pod.name}",
            f"link set {cable} master {BRIDGE} up",
            # as flannel does: a pod may reach itself through a service
            f"link set {cable} type bridge_slave hairpin on",
            "END",
            f"ip -n {pod.name} -batch - <<END",
            "link set lo up",
            f"address add {pod.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {gateway(node)}",
            "END",
            f"systemd-run --quiet --unit pod-{pod.name} --property NetworkNamespacePath=/run/netns/{pod.name} "
            f"/usr/bin/python3 {DIRECTORY}/server.py {pod.name} {port}",
        ]
    return "\n".join(lines) + "\n"


def start(lab: Lab, pods: Sequence[Pod], port: int) -> None:
    """Make the pod network on all nodes and start all pods.

    Raises:
        DemoError: the script failed on a node.
    """

    def one(node: str) -> str:
        return lab.run(namespaces.node(node), "sh", script(lab, node, [pod for pod in pods if pod.node == node], port))

    namespaces.at_once(one, NODES)
