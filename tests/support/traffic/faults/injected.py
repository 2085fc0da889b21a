# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fault to inject into node1: a flow that it breaks, and the name that ``kubenode explain`` must give it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..cluster import cluster_ip, node_port
from ..network import BALANCER_IP, HOSTS

GOOD, NO_SLICE, NO_ENDPOINTS, NOT_READY, TERMINATING, PORT_NAME, INTERNAL, EXTERNAL = range(120, 128)
RANGES, WEIGHTLESS, REFUSED, BROKEN_SLICE, OTHER, PROXY, CONFLICT, LOOPBACK = range(128, 136)
FOUR, STICKY, MAGLEV, ITSELF, TAKEN, DEAF, ONE, TUNNEL = range(136, 144)
VIP = cluster_ip(GOOD, 4).address
BALANCER = BALANCER_IP[4].format(GOOD)
CLIENT, P1, P3 = HOSTS["client1"].ip[4], HOSTS["p1"].ip[4], HOSTS["p3"].ip[4]
NFT = (
    "add table inet fw; add chain inet fw {hook} {{ type {kind} hook {hook} priority {priority}; }};"
    " add rule inet fw {hook} {rule}"
)
NO_NFT = ("nft delete table inet fw",)
BOTH = ("iptables", "nftables")


class Injected(NamedTuple):
    """One fault: commands that make it and take it back, the flow, and the names that count as the culprit's.

    ``client`` is a host's name or words; ``words`` are further options. ``phrase`` must be in the sentence.
    """

    title: str
    client: str
    target: str
    names: tuple[str, ...]
    phrase: str = ""
    make: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    back_ends: tuple[str, ...] = BOTH
    words: tuple[str, ...] = ()


def to(number: int, port: int = 80) -> str:
    return f"{cluster_ip(number, 4).address}:{port}"


def nft(hook: str, rule: str, priority: int = -10, kind: str = "filter") -> tuple[str, ...]:
    """Return the command that adds a rule of another program."""
    return (f"nft {NFT.format(hook=hook, rule=rule, priority=priority, kind=kind)}",)


def chain(title: str, words: str, rule: str, name: str = "foreign-rule", **more: Any) -> Injected:
    """Return a foreign rule of iptables: ``words`` are table and chain."""
    table, its_chain = words.split()
    client, target = more.pop("client", "client1"), more.pop("target", f"{VIP}:80")
    phrase = more.pop("phrase", f"rule 1 of chain {its_chain} of table {table}")
    make = (f"iptables -t {table} -I {its_chain} {rule}",)
    return Injected(
        title, client, target, (name,), phrase, make, (f"iptables -t {table} -D {its_chain} {rule}",), **more
    )


def node_target(port: int) -> str:
    target = node_port(port, 4)
    return f"{target.address}:{target.port}"
