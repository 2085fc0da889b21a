# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of every plan, for random states.

The tests apply steps to values; tests/kernel applies them to the kernel.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.node import PaperNode

from kubenode.engine.apply import ApplyError, execute
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.model.iptables import WHERE, ChainKey, JumpKey, RulePosition
from kubenode.engine.model.ipvs import RealServer, RealServerKey, SyncDaemon, VirtualServer, VirtualServerKey
from kubenode.engine.model.kinds import KINDS
from kubenode.engine.model.link import AddressKey, Link
from kubenode.engine.plan import plan
from kubenode.engine.plan.planner import HASHED

SERVERS = [VirtualServerKey("tcp", f"10.96.0.{n}", 80, 4) for n in range(1, 4)]
SETS = ["ONE", "TWO"]
HEADERS = [IPSet("hash:ip", (("family", "inet"),)), IPSet("hash:net", (("family", "inet"),))]
CHAINS = [ChainKey(4, "nat", "OURS"), ChainKey(6, "filter", "OURS")]
RULES = ["-j OURS", "-p tcp -j OURS", "-j THEIRS"]


def _sometimes(keys: list[Any], values: Any) -> Any:
    return st.dictionaries(st.sampled_from(keys), values)


@st.composite
def states(draw: Any) -> dict[str, dict[Any, Any]]:
    servers = draw(_sometimes(SERVERS, st.builds(VirtualServer, scheduler=st.sampled_from(["rr", "wrr"]))))
    sets = draw(_sometimes(SETS, st.sampled_from(HEADERS)))
    real_keys = [RealServerKey(server, f"10.244.0.{n}", 8080) for server in servers for n in range(1, 3)]
    member_keys = [MemberKey(name, f"10.0.0.{n}") for name in sets for n in range(1, 4)]
    state: dict[str, dict[Any, Any]] = {
        "virtual_server": servers,
        "set": sets,
        "chain": draw(_sometimes(CHAINS, st.sampled_from([(), ("-j RETURN",)]))),
        "link": draw(_sometimes(["kube-ipvs0"], st.builds(Link))),
        "address": draw(_sometimes([AddressKey("kube-ipvs0", f"10.96.0.{n}", 32) for n in range(3)], st.just(True))),
        "sysctl": draw(_sometimes(["net.ipv4.vs.conntrack"], st.sampled_from("01"))),
        "sync_daemon": draw(
            _sometimes(["master", "backup"], st.builds(SyncDaemon, st.just("eth0"), st.integers(0, 2)))
        ),
        "real_server": draw(_sometimes(real_keys, st.builds(RealServer, weight=st.integers(0, 2))))
        if real_keys
        else {},
        "member": draw(_sometimes(member_keys, st.just(""))) if member_keys else {},
    }
    return state


@st.composite
def chains(draw: Any) -> dict[Any, int]:
    rules = draw(st.lists(st.sampled_from(RULES), unique=True))
    return {JumpKey(4, "nat", "OUTPUT", rule): index for index, rule in enumerate(rules, 1)}


@st.composite
def places(draw: Any) -> dict[Any, RulePosition]:
    rules = draw(st.lists(st.sampled_from(RULES[:2]), unique=True))
    return {
        JumpKey(4, "nat", "OUTPUT", rule): RulePosition(draw(st.sampled_from(WHERE)), index)
        for index, rule in enumerate(rules, 1)
    }


def _all_owned(state: dict[str, dict[Any, Any]]) -> dict[str, set[Any]]:
    return {kind: set(items) for kind, items in state.items()}


def _shuffled(items: dict[Any, Any], random: Random) -> dict[Any, Any]:
    listed = list(items.items())
    random.shuffle(listed)
    return dict(listed)


@given(states())
def test_converged_state_has_an_empty_plan(state: dict[str, dict[Any, Any]]) -> None:
    assert plan(state, state, _all_owned(state)).steps == []
    assert plan(state, state, {}) == ([], [], {})


@given(states(), states(), st.randoms(use_true_random=False))
def test_order_of_hash_tables_does_not_matter(
    have: dict[str, dict[Any, Any]], want: dict[str, dict[Any, Any]], random: Random
) -> None:
    again = {kind: _shuffled(items, random) if kind in HASHED else items for kind, items in have.items()}
    assert plan(again, want, _all_owned(have)) == plan(have, want, _all_owned(have))


@given(states(), states())
def test_applied_plan_gives_the_desired_state(have: dict[str, dict[Any, Any]], want: dict[str, dict[Any, Any]]) -> None:
    made = plan(have, want, _all_owned(have))
    node = PaperNode(have)
    assert not made.conflicts
    node.apply(made.steps, False)
    assert {kind: items for kind, items in node.state.items() if items} == {
        kind: items for kind, items in want.items() if items
    }
    assert plan(node.state, want, _all_owned(node.state)).steps == []


@given(states(), states())
def test_inverse_steps_in_reverse_order_undo(have: dict[str, dict[Any, Any]], want: dict[str, dict[Any, Any]]) -> None:
    made = plan(have, want, _all_owned(have))
    node = PaperNode(have)
    node.apply(made.steps, False)
    node.apply([step.inverse() for step in reversed(made.steps)], False)
    assert {kind: items for kind, items in node.state.items() if items} == {
        kind: items for kind, items in have.items() if items
    }


@given(have=states(), want=states(), data=st.data())
def test_failed_step_leaves_the_state_unchanged(
    have: dict[str, dict[Any, Any]],
    want: dict[str, dict[Any, Any]],
    data: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    made = plan(have, want, _all_owned(have))
    if not made.steps:
        return
    node = PaperNode(have)
    ledger = Ledger(str(tmp_path_factory.mktemp("ledger")))
    items = [(kind, key) for kind, keys in have.items() for key in keys if KINDS[kind].parent is None]
    ledger.claim("me", items)
    before = ledger.owned("me")
    node.refuse = {data.draw(st.sampled_from(made.steps)).key}
    with pytest.raises(ApplyError, match="refused"):
        execute(made, node.tables, ledger, "me")
    assert {kind: items for kind, items in node.state.items() if items} == {
        kind: items for kind, items in have.items() if items
    }
    assert ledger.owned("me") == before
    ledger.close()


@given(states(), states())
def test_foreign_items_are_never_touched(have: dict[str, dict[Any, Any]], want: dict[str, dict[Any, Any]]) -> None:
    node = PaperNode(have)
    made = plan(have, want, {})
    assert all(step.before is None for step in made.steps)
    node.apply(made.steps, False)
    for kind, items in have.items():
        for key, value in items.items():
            assert node.state[kind][key] == value


@given(chains(), places(), st.sets(st.sampled_from(RULES[:2])), st.booleans())
def test_jumps_reach_their_position_and_stay(
    have: dict[Any, int], want: dict[Any, RulePosition], ours: set[str], claimed: bool
) -> None:
    owned = {"jump": {JumpKey(4, "nat", "OUTPUT", rule) for rule in ours} | set(want)}
    others = {"jump": {JumpKey(4, "nat", "OUTPUT", "-j THEIRS"): "somebody"}} if claimed else {}
    node = PaperNode({"jump": have})
    node.apply(plan(node.state, {"jump": want}, owned, others=others).steps, False)
    assert plan(node.state, {"jump": want}, owned, others=others).steps == []
    held = _rules(node)
    assert ("-j THEIRS" in held) == any(key.rule == "-j THEIRS" for key in have)
    wanted = [key.rule for key in sorted(want, key=lambda key: want[key].order)]
    left = [key.rule for key in have if key.rule != "-j THEIRS" and key not in owned["jump"]]
    assert sorted(rule for rule in held if rule != "-j THEIRS") == sorted(wanted + left)


def test_two_owners_of_the_top_do_not_fight() -> None:
    mine, yours = JumpKey(4, "nat", "OUTPUT", "-j MINE"), JumpKey(4, "nat", "OUTPUT", "-j YOURS")
    node = PaperNode({})
    for key, other in ((mine, yours), (yours, mine), (mine, yours), (yours, mine)):
        made = plan(node.state, {"jump": {key: RulePosition()}}, {"jump": {key}}, others={"jump": {other: "other"}})
        node.apply(made.steps, False)
    assert len(node.log) == 2


def test_prepended_jump_stays_where_other_rules_push_it() -> None:
    ours = [JumpKey(4, "nat", "OUTPUT", f"-j OURS-{number}") for number in (1, 2, 3)]
    want = {"jump": {key: RulePosition("prepended", order) for order, key in enumerate(ours, 1)}}
    owned = {"jump": set(ours)}
    node = PaperNode({"jump": {JumpKey(4, "nat", "OUTPUT", "-j THEIRS"): 1}})
    node.apply(plan(node.state, want, owned).steps, False)
    assert _rules(node) == ["-j OURS-1", "-j OURS-2", "-j OURS-3", "-j THEIRS"]
    for pushed in (
        ["-j THEIRS", *(key.rule for key in ours)],
        ["-j OURS-1", "-j THEIRS", "-j OURS-2", "-j ALSO", "-j OURS-3"],
    ):
        node = PaperNode({"jump": {JumpKey(4, "nat", "OUTPUT", rule): index for index, rule in enumerate(pushed, 1)}})
        assert plan(node.state, want, owned).steps == []
    for wrong in (["-j THEIRS", "-j OURS-1", "-j OURS-3"], ["-j THEIRS", "-j OURS-2", "-j OURS-1", "-j OURS-3"]):
        node = PaperNode({"jump": {JumpKey(4, "nat", "OUTPUT", rule): index for index, rule in enumerate(wrong, 1)}})
        node.apply(plan(node.state, want, owned).steps, False)
        assert _rules(node) == ["-j OURS-1", "-j OURS-2", "-j OURS-3", "-j THEIRS"]


def _rules(node: PaperNode) -> list[str]:
    return [key.rule for key in sorted(node.state["jump"], key=lambda key: node.state["jump"][key])]
