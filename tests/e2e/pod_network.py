# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pod network: bridges made by CNI plugins on each node, and static routes between the nodes."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any

from lab.command import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.state import Lab

    from .settings import Settings

BRIDGE = "cni0"


def cni_configuration(networks: Sequence[str]) -> str:
    """Return the CNI configuration of a node with these pod networks."""
    default = [{"dst": "::/0" if ":" in network else "0.0.0.0/0"} for network in networks]
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": network}] for network in networks],
            "routes": default,
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}, indent=1) + "\n"


def routes(settings: Settings, lab: Lab, but: int = -1) -> list[str]:
    """Return the commands of ``ip`` that route each node's pod networks to it, except to the node ``but``."""
    lines = []
    for node in lab.nodes:
        for network in settings.pod_networks_of(node.index) if node.index != but else ():
            is_ipv6 = ipaddress.ip_network(network).version == 6
            via = node.addresses.ipv6 if is_ipv6 else node.addresses.ipv4
            lines.append(f"{'-6 ' if is_ipv6 else ''}route replace {network} via {via}")
    return lines


def route_machine(settings: Settings, lab: Lab) -> None:
    """Route the pod networks in the lab's namespace, where the control plane runs."""
    for line in routes(settings, lab):
        run(["ip", "-n", lab.namespace, *line.split()])
