# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of other programs, as ``kubenode explain`` reads and follows them: of iptables, and of nftables as JSON."""

from __future__ import annotations

import json
from typing import Any

from fuzz.choices import Choices
from fuzz.target import Target

from kubenode.engine.explain import iptables_walk, nft_walk
from kubenode.engine.explain.flow import Outcome, Packet
from kubenode.engine.explain.foreign_nft import foreign_tables
from kubenode.engine.explain.view import NodeView, host_of
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.model.iptables import ChainKey

_VERDICTS = {"accept", "drop", "reject", "unknown"}
_ADDRESSES = [("eth0", "10.96.0.1", 32), ("eth0", "fd00:96::1", 128)]
_PACKETS = (
    Packet("tcp", "10.0.0.9", "10.96.0.1", 40000, 80, in_link="eth0", mark=0x4001),
    Packet("udp", "fd00::9", "fd00:96::1", 40000, 53, out_link="eth0", state="ESTABLISHED"),
)
_SETS = {
    "set": {"A": IPSet("hash:ip,port"), "B": IPSet("hash:net"), "C": IPSet("list:set")},
    "member": {MemberKey("A", "10.96.0.1,tcp:80"): "", MemberKey("B", "10.0.0.0/24"): "", MemberKey("B", "x"): ""},
}
_RULES = (
    "-s 10.0.0.0/24 -p tcp -m tcp --dport 79:81 -j DROP",
    '-m comment --comment "a \\" b" -m set --match-set A dst,dst -j MARK --set-xmark 0x4000/0x4000',
    "-m set ! --match-set B src -m multiport --dports 22,80:90 -j REJECT --reject-with tcp-reset",
    "-m conntrack ! --ctstate NEW,RELATED,DNAT -j OTHER",
    "-m addrtype --dst-type LOCAL -m mark ! --mark 0x1/0x1 -g OTHER",
    "-p tcp -m tcp --tcp-flags FIN,SYN SYN -j DNAT --to-destination 10.0.0.1:80",
    "-m ipvs --vproto 6 --vaddr fd00::1/128 --vport 80 -j SNAT --to-source 10.0.0.2-10.0.0.3",
    "-m statistic --mode random --probability 0.5 -m recent --rcheck -j REDIRECT --to-ports 80",
    "-m physdev --physdev-is-in -i eth+ ! -o lo -j CT --notrack",
)
_LEFT = (
    {"payload": {"protocol": "ip", "field": "saddr"}},
    {"payload": {"protocol": "ip6", "field": "daddr"}},
    {"payload": {"protocol": "tcp", "field": "dport"}},
    {"payload": {"base": "th", "offset": 1}},
    {"meta": {"key": "iifname"}},
    {"meta": {"key": "l4proto"}},
    {"meta": {"key": "mark"}},
    {"ct": {"key": "state"}},
    {"fib": {"result": "type", "flags": "daddr"}},
    {"&": [{"meta": {"key": "mark"}}, 1]},
)
_RIGHT = (
    80,
    "10.0.0.9",
    "10.0.0.1-10.0.0.20",
    "fd00::9",
    "@named",
    "new",
    ["new", "established"],
    {"prefix": {"addr": "10.0.0.0", "len": 24}},
    {"prefix": {"addr": "fd00::", "len": 999}},
    {"range": [79, 81]},
    {"range": ["10.0.0.1", "10.0.0.20"]},
    {"set": [80, {"elem": {"val": 81}}, {"prefix": {"addr": "10.0.0.0", "len": 8}}]},
)
_STATEMENTS = (
    {"accept": None},
    {"drop": None},
    {"return": None},
    {"reject": {"type": "tcp reset"}},
    {"jump": {"target": "other"}},
    {"goto": {"target": "base"}},
    {"masquerade": None},
    {"dnat": {"addr": "10.0.0.1", "port": 80}},
    {"redirect": None},
    {"counter": {"packets": 1, "bytes": 1}},
    {"limit": {"rate": 5}},
    {"queue": {"num": 1}},
)


def _rules(data: bytes) -> None:
    choices = Choices(data)
    packet = choices.pick(_PACKETS)
    texts = choices.rest().decode("utf-8", "surrogateescape").split("\n")[:8]
    chains = {
        ChainKey(packet.family, "filter", "INPUT"): tuple(texts[::2]),
        ChainKey(packet.family, "filter", "OTHER"): tuple(texts[1::2]),
    }
    view = NodeView(_SETS, chains, {}, host_of(_ADDRESSES))
    for outcome in iptables_walk.walk(view, ChainKey(packet.family, "filter", "INPUT"), Outcome(packet)):
        assert outcome.verdict in _VERDICTS, outcome.verdict


def _match(choices: Choices) -> dict[str, Any]:
    left = choices.odd() if choices.chance(8) else choices.pick(_LEFT)
    right = choices.odd() if choices.chance(8) else choices.pick(_RIGHT)
    return {"match": {"op": choices.pick(("==", "!=", "in", "<")), "left": left, "right": right}}


def _ruleset(choices: Choices) -> list[Any]:
    table = {"family": choices.pick(("inet", "ip", "ip6")), "table": "fw"}
    hook = {"type": "filter", "hook": "input", "prio": 0, "policy": choices.pick(("accept", "drop"))}
    named = {**table, "name": "named", "type": choices.pick(("ipv4_addr", "inet_service", ["a", "b"]))}
    elements = [choices.odd() if choices.chance(4) else choices.pick(_RIGHT) for _ in range(choices.below(4))]
    entries: list[Any] = [
        {"metainfo": {"version": "1.0.6"}},
        {"set": {**named, "elem": elements}},
        {"chain": {**table, "name": "base", **hook}},
        {"chain": {**table, "name": "other"}},
    ]
    for _ in range(choices.below(6)):
        expressions = [_match(choices) for _ in range(choices.below(3))]
        expressions.append({choices.text(): choices.odd()} if choices.chance(8) else choices.pick(_STATEMENTS))
        entries.append({"rule": {**table, "chain": choices.pick(("base", "other")), "expr": expressions}})
    if choices.chance(6):
        entries.append(choices.odd())
    return entries


def _nftables(data: bytes) -> None:
    choices = Choices(data)
    packet = choices.pick(_PACKETS)
    entries = json.loads(choices.rest()) if choices.chance(4) else _ruleset(choices)
    items = foreign_tables(entries, [])
    view = NodeView(items, {}, {}, host_of(_ADDRESSES))
    for _priority, key, chain in nft_walk.hooked(view, "input", packet.family):
        for outcome in nft_walk.walk(view, key, chain, Outcome(packet)):
            assert outcome.verdict in _VERDICTS, outcome.verdict


TARGETS = {
    "explain_rules": Target(
        _rules,
        [bytes((which,)) + "\n".join(_RULES[at:] + _RULES[:at]).encode() for which in (0, 1) for at in range(9)],
        words=tuple(sorted({word for rule in _RULES for word in rule.split()} | {"! ", "\n"})),
        longest=1024,
    ),
    "explain_nftables": Target(
        _nftables,
        [bytes((number * step) & 255 for number in range(60)) for step in (1, 3, 7, 11, 29, 37)],
        # the reader of the node names these, and goes on without other programs' tables
        expected=(ValueError, LookupError, TypeError, AttributeError),
        longest=512,
    ),
}
