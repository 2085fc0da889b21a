# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of iptables, judged for one packet: matches, mismatches, and words that cannot be judged."""

from __future__ import annotations

import pytest

from kubenode.engine.explain.flow import Outcome, Packet
from kubenode.engine.explain.iptables_match import judge, parsed
from kubenode.engine.explain.iptables_walk import walk
from kubenode.engine.explain.view import NodeView, host_of
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.model.iptables import ChainKey

PACKET = Packet("tcp", "10.0.0.9", "10.96.0.1", 40000, 80, in_link="eth0", mark=0x4001)
ITEMS = {
    "set": {"ports": IPSet("hash:ip,port"), "nets": IPSet("hash:net"), "macs": IPSet("hash:mac")},
    "member": {MemberKey("ports", "10.96.0.1,tcp:80"): "", MemberKey("nets", "10.0.0.0/24"): ""},
}
INPUT = ChainKey(4, "filter", "INPUT")


def view(*rules: str, policy: str = "ACCEPT", **chains: tuple[str, ...]) -> NodeView:
    found = {INPUT: rules, **{ChainKey(4, "filter", name): texts for name, texts in chains.items()}}
    policies = {} if policy == "ACCEPT" else {INPUT: policy}
    return NodeView(ITEMS, found, policies, host_of([("eth0", "10.0.0.1", 24), ("kube-ipvs0", "10.96.0.1", 32)]))


MATCHES = {
    "-s 10.0.0.0/24": True,
    "! -s 10.0.0.0/24": False,
    "-d 10.96.0.1/32 -p tcp -m tcp --dport 80": True,
    "-d 10.96.0.2/32": False,
    "-i eth+": True,
    "! -i eth0": False,
    "-o eth0": False,
    "-p udp": False,
    "-p tcp -m tcp --dport 79:81": True,
    "-p tcp -m tcp --dport 81:": False,
    "-p tcp -m multiport --dports 22,80": True,
    "-p tcp -m multiport ! --dports 22,80": False,
    "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN": True,
    "-p tcp -m tcp --tcp-flags RST RST": False,
    "-m mark --mark 0x4000/0x4000": True,
    "-m mark ! --mark 0x1/0x1": False,
    "-m mark --mark 0x1": False,
    "-m conntrack --ctstate NEW,RELATED": True,
    "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT": True,
    "-m state --state ESTABLISHED": False,
    "-m addrtype --dst-type LOCAL": True,
    "-m addrtype ! --dst-type LOCAL": False,
    "-m addrtype --src-type UNICAST": True,
    "-m physdev ! --physdev-is-in": True,
    "-m set --match-set ports dst,dst": True,
    "-m set ! --match-set ports dst,dst": False,
    "-m set --match-set ports src,dst": False,
    "-m set --match-set nets src": True,
    "-m set --match-set nets dst": False,
    '-m comment --comment "a \\"quoted\\" -j DROP" -p tcp': True,
    "-m ipvs --vproto 6 --vaddr 10.96.0.1 --vport 80": False,
    "-m statistic --mode random --probability 0.5": None,
    "-m recent --rcheck --name x": None,
    "-m set --match-set macs src": None,
    "-m u32 --u32 0x0 -p udp": False,  # the known mismatch decides
}


@pytest.mark.parametrize("rule", MATCHES)
def test_rule_is_judged_for_a_packet(rule: str) -> None:
    assert judge(view(), PACKET, parsed(rule)).matches is MATCHES[rule]


def test_unknown_match_is_named_and_chance_is_not() -> None:
    assert (
        judge(view(), PACKET, parsed("-m recent --rcheck --name x")).doubt
        == "-m recent, -m recent --rcheck, -m recent --name"
    )
    assert judge(view(), PACKET, parsed("-m limit --limit 5/sec")).doubt == ""


def verdicts(found: NodeView) -> set[tuple[str, bool]]:
    return {(outcome.verdict, bool(outcome.doubts)) for outcome in walk(found, INPUT, Outcome(PACKET))}


def test_policy_decides_without_a_matching_rule() -> None:
    assert verdicts(view("-p udp -j DROP")) == {("accept", False)}
    assert verdicts(view("-p udp -j ACCEPT", policy="DROP")) == {("drop", False)}


def test_return_of_a_chain_continues_behind_the_jump() -> None:
    assert verdicts(view("-j A", "-j REJECT", A=("-j RETURN", "-j DROP"))) == {("reject", False)}
    assert verdicts(view("-g A", "-j REJECT", A=("-j RETURN",))) == {("accept", False)}


def test_unknown_rule_is_followed_both_ways() -> None:
    assert verdicts(view("-m recent --rcheck -j DROP")) == {("accept", True), ("drop", True)}
    assert verdicts(view("-j NFQUEUE --queue-num 1")) == {("accept", True), ("unknown", True)}


def test_chance_is_followed_both_ways_without_doubt() -> None:
    assert verdicts(view("-m statistic --mode random --probability 0.5 -j DROP")) == {
        ("accept", False),
        ("drop", False),
    }


def test_chains_in_a_circle_end() -> None:
    assert verdicts(view("-j A", A=("-j B",), B=("-j A",)))


@pytest.mark.parametrize(
    "rule", ["", '"', "-j", "-m", "! -s", "-m set --match-set x", "-s x -j DROP", "-p tcp -m tcp --dport x"]
)
def test_broken_rule_never_raises(rule: str) -> None:
    walk(view(rule), INPUT, Outcome(PACKET))
