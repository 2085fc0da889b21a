# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network of the lab: a bridge in its own namespace, a tap for each node, a veth pair for each client's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import naming, netns
from .command import run

if TYPE_CHECKING:
    from collections.abc import Sequence


def build(lab: str, nodes: int, clients: Sequence[str]) -> None:
    """Make the network. None of its interfaces is ever in the machine's own namespace.

    Args:
        lab: name of the namespace to make.
        nodes: number of taps.
        clients: names of the clients' namespaces to make.
    """
    netns.add(lab)
    bridge = naming.BRIDGE
    lines = [
        # No spanning tree and no snooping: a port forwards at once, and IPv6 neighbours find each other.
        f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        *_addresses(bridge, naming.bridge_addresses()),
        f"link set {bridge} up",
    ]
    for index in range(nodes):
        tap = naming.tap(index)
        lines += [f"tuntap add {tap} mode tap", f"link set {tap} master {bridge} up"]
    _batch(lab, lines)
    for index, client in enumerate(clients):
        netns.add(client)
        cable = naming.client_cable(index)
        _batch(
            lab,
            [
                f"link add {cable} type veth peer name {naming.CLIENT_LINK} netns {client}",
                f"link set {cable} master {bridge} up",
            ],
        )
        link = naming.CLIENT_LINK
        _batch(client, [*_addresses(link, naming.client_addresses(index)), f"link set {link} up"])


def _addresses(link: str, addresses: naming.Addresses) -> list[str]:
    # No other host is on this network: duplicate address detection would only cost time.
    return [
        f"address add {address} dev {link} {'nodad' if ':' in address else ''}" for address in addresses.with_lengths
    ]


def _batch(namespace: str, lines: list[str]) -> None:
    run(["ip", "-n", namespace, "-batch", "-"], text="\n".join(lines) + "\n", what=f"network of {namespace}")


def remove(namespaces: Sequence[str]) -> int:
    """Remove namespaces with their processes; return the number of ended processes."""
    return sum(netns.remove(name) for name in namespaces)
