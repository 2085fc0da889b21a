# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs' tables of nftables, from nft's JSON, and packets through them."""

from __future__ import annotations

from typing import Any

import pytest

from kubenode.engine.explain.flow import Outcome, Packet
from kubenode.engine.explain.foreign_nft import foreign_tables
from kubenode.engine.explain.nft_walk import hooked, walk
from kubenode.engine.explain.view import NodeView, host_of
from kubenode.engine.model.nftables import ChainKey, TableKey

PACKET = Packet("tcp", "10.0.0.9", "10.96.0.1", 40000, 80, in_link="eth0")
BASE = {"family": "inet", "table": "fw", "name": "in", "type": "filter", "hook": "input", "prio": 0, "policy": "accept"}


def match(left: Any, right: Any, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def field(protocol: str, name: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": name}}


def verdicts(*expressions: Any, policy: str = "accept", others: tuple[Any, ...] = ()) -> set[tuple[str, bool]]:
    """Return the verdicts of one rule, with whether each carries a doubt."""
    rule = {"family": "inet", "table": "fw", "chain": "in", "expr": list(expressions)}
    items = foreign_tables([{"chain": {**BASE, "policy": policy}}, {"rule": rule}, *others], [])
    view = NodeView(items, {}, {}, host_of([("eth0", "10.96.0.1", 32)]))
    ((_priority, key, chain),) = hooked(view, "input", 4)
    return {(outcome.verdict, bool(outcome.doubts)) for outcome in walk(view, key, chain, Outcome(PACKET))}


DROP = {"drop": None}
MATCHES = [
    (match(field("tcp", "dport"), 80), True),
    (match(field("tcp", "dport"), {"set": [22, 80]}), True),
    (match(field("tcp", "dport"), {"range": [79, 81]}), True),
    (match(field("tcp", "dport"), 80, "!="), False),
    (match(field("udp", "dport"), 80), False),
    (match(field("ip", "saddr"), {"prefix": {"addr": "10.0.0.0", "len": 24}}), True),
    (match(field("ip", "saddr"), "10.0.0.8"), False),
    (match(field("ip6", "saddr"), "fd00::1"), False),
    (match({"meta": {"key": "iifname"}}, "eth*"), True),
    (match({"meta": {"key": "nfproto"}}, "ipv6"), False),
    (match({"meta": {"key": "l4proto"}}, {"set": ["tcp", "udp"]}), True),
    (match({"ct": {"key": "state"}}, ["established", "related"], "in"), False),
    (match({"ct": {"key": "state"}}, "new"), True),
    (match({"fib": {"result": "type", "flags": "daddr"}}, "local"), True),
    (match({"osf": {"key": "name"}}, "Linux"), None),
    (match({"meta": {"key": "cpu"}}, 1), None),
    ({"counter": None}, True),
]


@pytest.mark.parametrize(("expression", "wanted"), MATCHES, ids=[str(item[0]) for item in MATCHES])
def test_match_of_a_foreign_rule_is_judged(expression: Any, wanted: bool | None) -> None:
    expected = {True: {("drop", False)}, False: {("accept", False)}, None: {("drop", True), ("accept", True)}}
    assert verdicts(expression, DROP) == expected[wanted]


def test_policy_drop_decides_without_a_rule() -> None:
    assert verdicts(match(field("tcp", "dport"), 22), {"accept": None}, policy="drop") == {("drop", False)}


def test_named_set_is_looked_up() -> None:
    def named(*elements: Any) -> tuple[Any, ...]:
        return ({"set": {"family": "inet", "table": "fw", "name": "bad", "type": "ipv4_addr", "elem": list(elements)}},)

    lookup = match(field("ip", "saddr"), "@bad")
    assert verdicts(lookup, DROP, others=named({"prefix": {"addr": "10.0.0.0", "len": 8}})) == {("drop", False)}
    assert verdicts(lookup, DROP, others=named("10.0.0.8")) == {("accept", False)}


def test_unknown_statement_may_end_the_way() -> None:
    assert verdicts({"queue": {"num": 1}}) == {("accept", True), ("unknown", True)}


def test_known_tables_are_left_out() -> None:
    items = foreign_tables([{"chain": BASE}], [TableKey("inet", "fw")])
    assert items["nft_chain"] == {}
    assert list(foreign_tables([{"chain": BASE}], [])["nft_chain"]) == [ChainKey(TableKey("inet", "fw"), "in")]
