# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Example of a state in tables of nftables, its text for nft, and helpers that write and read such states."""

from __future__ import annotations

from collections.abc import Iterable

from support.processes.namespace import sh

from kubenode.engine.kernel import nftables
from kubenode.engine.model import State
from kubenode.engine.model.nftables import (
    Bits,
    ChainKey,
    Compare,
    DestinationNat,
    ElementKey,
    Hook,
    Lookup,
    Masquerade,
    NftChain,
    NftSet,
    Random,
    Reject,
    Rule,
    SetKey,
    SetMark,
    TableKey,
    Verdict,
)
from kubenode.engine.model.step import Step
from kubenode.engine.plan import plan

TABLE, TABLE6 = TableKey("ip", "kubenode"), TableKey("ip6", "kubenode")
OWNED = {"nft_table": [TABLE, TABLE6]}
SERVICE = ("ip daddr", "meta l4proto", "th dport")
KINDS = ("nft_table", "nft_set", "nft_element", "nft_chain")
# Text for nft, and the state that it describes.
TEXT = """\
table ip kubenode {
	set cluster_ips {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.96.0.1 . tcp . 443 }
	}

	set node_ports {
		type inet_proto . inet_service
	}

	set sources {
		type ipv4_addr . inet_proto . inet_service . ipv4_addr
		flags interval
		elements = { 10.96.0.1 . tcp . 80 . 10.0.0.0/8 }
	}

	set vips {
		type ipv4_addr
		elements = { 10.96.0.1 }
	}

	set networks {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8, 11.0.0.0/8 }
	}

	chain services {
		ip saddr != 10.244.0.0/16 ip daddr . meta l4proto . th dport @cluster_ips meta mark set meta mark | 0x00004000
		fib daddr type local meta l4proto . th dport @node_ports return comment "node ports"
		ct state established,new ct status ! dnat iifname != "lo" drop
		ct original ip daddr 10.96.0.0/12 meta l4proto tcp ct original proto-dst 80 accept
		numgen random mod 2 0 ip daddr @networks goto others
	}

	chain others {
		meta mark & 0x00004000 == 0x00000000 return
		icmp type echo-request reject
		reject with tcp reset
	}

	chain prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		jump services
		tcp dport 80 dnat to 10.0.0.1:8080
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		meta mark set meta mark ^ 0x00004000
		masquerade fully-random
	}
}
"""
CLUSTER_IPS, VIPS = SetKey(TABLE, "cluster_ips"), SetKey(TABLE, "vips")
SOURCES, NETWORKS = SetKey(TABLE, "sources"), SetKey(TABLE, "networks")
SERVICES, OTHERS = ChainKey(TABLE, "services"), ChainKey(TABLE, "others")
TCP = Compare("meta l4proto", "tcp")
STATE: State = {
    "nft_table": {TABLE: 0},
    "nft_set": {
        CLUSTER_IPS: NftSet(("ipv4_addr", "inet_proto", "inet_service")),
        SetKey(TABLE, "node_ports"): NftSet(("inet_proto", "inet_service")),
        SOURCES: NftSet(("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), True),
        VIPS: NftSet(("ipv4_addr",)),
        NETWORKS: NftSet(("ipv4_addr",), True),
    },
    "nft_element": {
        ElementKey(CLUSTER_IPS, ("10.96.0.1", "tcp", "443")): "",
        ElementKey(SOURCES, ("10.96.0.1", "tcp", "80", "10.0.0.0/8")): "",
        ElementKey(VIPS, ("10.96.0.1",)): "",
        ElementKey(NETWORKS, ("10.0.0.0/8",)): "",
        ElementKey(NETWORKS, ("11.0.0.0/8",)): "",
    },
    "nft_chain": {
        SERVICES: NftChain(
            None,
            (
                Rule(
                    (
                        Compare("ip saddr", "10.244.0.0/16", True),
                        Lookup(SERVICE, "cluster_ips"),
                        SetMark(0xFFFFBFFF, 0x4000),
                    )
                ),
                Rule(
                    (Compare("fib daddr type", "local"), Lookup(SERVICE[1:], "node_ports"), Verdict("return")),
                    "node ports",
                ),
                Rule(
                    (
                        Bits("ct state", 10),
                        Bits("ct status", 0x20, True),
                        Compare("iifname", "lo", True),
                        Verdict("drop"),
                    )
                ),
                Rule(
                    (
                        Compare("ct original ip daddr", "10.96.0.0/12"),
                        TCP,
                        Compare("ct original proto-dst", "80"),
                        Verdict("accept"),
                    )
                ),
                Rule((Random(2), Lookup(("ip daddr",), "networks"), Verdict("goto", "others"))),
            ),
        ),
        OTHERS: NftChain(
            None,
            (
                Rule((Bits("meta mark", 0x4000, True), Verdict("return"))),
                Rule(
                    (
                        Compare("meta l4proto", "icmp"),
                        Compare("icmp type", "echo-request"),
                        Reject("port-unreachable"),
                    )
                ),
                Rule((TCP, Reject("tcp reset"))),
            ),
        ),
        ChainKey(TABLE, "prerouting"): NftChain(
            Hook("nat", "prerouting", -100),
            (
                Rule((Verdict("jump", "services"),)),
                Rule((TCP, Compare("th dport", "80"), DestinationNat("10.0.0.1", 8080))),
            ),
        ),
        ChainKey(TABLE, "postrouting"): NftChain(
            Hook("nat", "postrouting", 100),
            (Rule((SetMark(0xFFFFFFFF, 0x4000),)), Rule((Masquerade(True),))),
        ),
    },
}


def applied(want: State) -> State:
    """Bring the kernel to a state; return what it has then."""
    outcome = nftables.apply(plan(nftables.read(), want, OWNED).steps)
    assert outcome.failed == []
    return nftables.read()


def changed(*changes: tuple[str, object, object]) -> State:
    """Return STATE with other values; None removes an item."""
    state = {kind: dict(items) for kind, items in STATE.items()}
    for kind, key, value in changes:
        state[kind][key] = value
        if value is None:
            del state[kind][key]
    return state


def elements(name: SetKey, members: Iterable[tuple[str, ...]]) -> list[Step]:
    return [Step("nft_element", ElementKey(name, fields), None, "") for fields in members]


def listed() -> str:
    return sh("nft", "list", "ruleset")
