# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables as text: the whole form, the order, and each statement."""

from __future__ import annotations

import pytest

from kubenode.engine.errors import InputError
from kubenode.engine.model import State
from kubenode.engine.model.nftables import (
    Bits,
    ChainKey,
    Compare,
    DestinationNat,
    ElementKey,
    Foreign,
    Hook,
    Lookup,
    Masquerade,
    NftChain,
    NftSet,
    Reject,
    Rule,
    SetKey,
    SetMark,
    Statement,
    TableKey,
    Verdict,
)
from kubenode.engine.render import render
from kubenode.engine.render.nftables import rule_text

IP, IP6 = TableKey("ip", "kubenode"), TableKey("ip6", "kubenode")
TCP = Compare("meta l4proto", "tcp")
TEXT = """\
add table ip kubenode
delete table ip kubenode
table ip kubenode {
\tset addresses {
\t\ttype ipv4_addr
\t\telements = { 10.0.0.9,
\t\t\t     10.0.0.10 }
\t}

\tset ports {
\t\ttype ipv4_addr . inet_proto . inet_service . ipv4_addr
\t\tflags interval
\t\telements = { 10.0.0.1 . tcp . 80 . 10.0.0.0/8,
\t\t\t     10.0.0.1 . tcp . 443 . 10.0.0.0/8 }
\t}

\tchain nat-output {
\t\ttype nat hook output priority -100; policy accept;
\t\tjump a comment "first"
\t}

\tchain nat-postrouting {
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t}

\tchain filter-input {
\t\ttype filter hook input priority filter; policy accept;
\t}

\tchain a {
\t\treturn
\t}

\tchain b {
\t}
}
add table ip6 kubenode
delete table ip6 kubenode
table ip6 kubenode {
}
"""


def test_text_of_tables() -> None:
    ports = NftSet(("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), True)
    elements = [ElementKey(SetKey(IP, "ports"), ("10.0.0.1", "tcp", port, "10.0.0.0/8")) for port in ("443", "80")] + [
        ElementKey(SetKey(IP, "addresses"), (address,)) for address in ("10.0.0.10", "10.0.0.9")
    ]
    state: State = {
        "nft_table": {IP6: 0, IP: 0},
        "nft_set": {SetKey(IP, "ports"): ports, SetKey(IP, "addresses"): NftSet(("ipv4_addr",))},
        "nft_element": dict.fromkeys(elements, ""),
        "nft_chain": {
            ChainKey(IP, "b"): NftChain(None, ()),
            ChainKey(IP, "a"): NftChain(None, (Rule((Verdict("return"),)),)),
            ChainKey(IP, "filter-input"): NftChain(Hook("filter", "input", 0), ()),
            ChainKey(IP, "nat-postrouting"): NftChain(Hook("nat", "postrouting", 100), ()),
            ChainKey(IP, "nat-output"): NftChain(
                Hook("nat", "output", -100), (Rule((Verdict("jump", "a"),), "first"),)
            ),
        },
    }
    assert render(state, "nft") == TEXT


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ((TCP, Compare("th dport", "80"), Verdict("drop")), "tcp dport 80 drop"),
        ((TCP, Verdict("drop")), "meta l4proto tcp drop"),
        ((TCP._replace(negated=True), Compare("th dport", "80")), "meta l4proto != tcp th dport 80"),
        ((TCP._replace(value="icmp"), Compare("icmp type", "echo-request")), "icmp type echo-request"),
        ((TCP, Bits("ct state", 8), Reject("tcp reset")), "ct state new reject with tcp reset"),
        ((Bits("ct state", 8), TCP, Reject("tcp reset")), "ct state new meta l4proto tcp reject with tcp reset"),
        ((TCP._replace(value="udp"), Lookup(("th dport",), "s"), Verdict("accept")), "udp dport @s accept"),
        ((Lookup(("ip daddr", "meta l4proto", "th dport"), "s", True),), "ip daddr . meta l4proto . th dport != @s"),
        ((Bits("ct state", 6, True), Bits("ct status", 32, True)), "ct state ! established,related ct status ! dnat"),
        ((SetMark(0xFFFFFFFF, 0x80000000),), "meta mark set meta mark ^ 0x80000000"),
        ((SetMark(0x7FFFFFFF, 0x80000000),), "meta mark set meta mark | 0x80000000"),
        ((SetMark(0xFFFFFF00, 0xA0),), "meta mark set meta mark & 0xffffff00 ^ 0x000000a0"),
        ((Masquerade(),), "masquerade"),
        ((DestinationNat("fd00::1", 80),), "dnat to [fd00::1]:80"),
    ],
)
def test_statements(statements: tuple[Statement, ...], text: str) -> None:
    assert rule_text(Rule(statements)) == text


def test_statements_of_another_program_are_an_error() -> None:
    with pytest.raises(InputError, match="expected statements that have a text"):
        rule_text(Rule((Foreign("00"),)))


def test_a_state_without_tables_is_empty_text() -> None:
    assert render({}, "nft") == ""
