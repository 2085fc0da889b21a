# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired states with tables of nftables: recorded, random and empty clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters.random_cluster import FACTS, RandomCluster
from support.kube_proxy import recorded
from support.kube_proxy.wanted import cluster
from support.tables import nft_listing

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_sets import named_set
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import InputError
from kubenode.engine.model import State
from kubenode.engine.model.iptables import JumpKey, RulePosition
from kubenode.engine.model.nftables import ChainKey, Hook, Lookup, TableKey, Verdict
from kubenode.engine.render import render

from .test_cluster_properties import CONFIGS

IP, IP6 = TableKey("ip", "kubenode"), TableKey("ip6", "kubenode")
BASE = {
    "nat-prerouting": (Hook("nat", "prerouting", -100), ["services"]),
    "nat-output": (Hook("nat", "output", -100), ["services"]),
    "nat-postrouting": (Hook("nat", "postrouting", 100), ["postrouting"]),
    "filter-input": (Hook("filter", "input", 0), ["ipvs-filter", "proxy-firewall", "health-check-node-port"]),
    "filter-forward": (Hook("filter", "forward", 0), ["proxy-firewall", "forward"]),
    "filter-output": (Hook("filter", "output", 0), ["ipvs-out-filter"]),
}
REGULAR = {
    *("services", "postrouting", "node-port", "load-balancer", "mark-masq", "forward", "health-check-node-port"),
    *("proxy-firewall", "source-ranges-firewall", "ipvs-filter", "ipvs-out-filter"),
}


def test_a_node_without_services_has_all_chains_and_sets() -> None:
    state = cluster([]).state()
    translated = nft_state(state)
    assert translated["nft_table"] == {IP: 0, IP6: 0}
    assert len(translated["nft_set"]) == len(state["set"]) == 34
    assert {key.name for key in translated["nft_chain"] if key.table == IP6} == {*BASE, *REGULAR}
    for table in (IP, IP6):
        for name, (hook, targets) in BASE.items():
            chain = translated["nft_chain"][ChainKey(table, name)]
            assert (chain.hook, [rule.statements for rule in chain.rules]) == (
                hook,
                [(Verdict("jump", target),) for target in targets],
            )
            assert all(rule.comment.startswith("kube") for rule in chain.rules)
    assert not {"chain", "jump", "set", "member"} & set(translated)
    assert {kind: translated[kind] for kind in ("link", "sysctl", "virtual_server")} == {
        kind: state[kind] for kind in ("link", "sysctl", "virtual_server")
    }


def test_a_state_without_rules_has_no_table() -> None:
    assert {kind: items for kind, items in nft_state({"sysctl": {"a": "1"}}).items() if items} == {"sysctl": {"a": "1"}}


def test_a_jump_from_another_chain_is_an_error() -> None:
    state: State = {"jump": {JumpKey(4, "mangle", "INPUT", "-j KUBE-FORWARD"): RulePosition()}}
    with pytest.raises(InputError, match="chain is 'mangle INPUT'"):
        nft_state(state)


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_elements_are_the_recorded_members(path: Path) -> None:
    recording = recorded.load(path)
    translated = nft_state(recorded.cluster(recording).state())
    headers, members = recorded.sets(recording["state"]["ipset"])
    assert {named_set(name).key for name in headers} == set(translated["nft_set"])
    spelled = {(named_set(name).key, tuple(_split(member))) for name, its in members.items() for member in its}
    assert {(key.set, key.fields) for key in translated["nft_element"]} == spelled
    assert sum(map(len, members.values())) == len(translated["nft_element"])
    texts = [nft_listing.elements(part) for part in render(translated, "nft").split("\ntable ")[1:]]
    assert sum(len(its) for sets in texts for its in sets.values()) == len(spelled)


def _split(member: str) -> list[str]:
    """Split a recorded member by the tool's own punctuation: the port follows the last colon of its part."""
    address, *rest = member.split(",")
    return [address, *rest[0].split(":"), *rest[1:]] if rest else [address]


def check(state: State) -> str:
    """Check that every chain and set that a rule names is there; return the text."""
    translated = nft_state(state)
    for key, chain in translated["nft_chain"].items():
        for rule in chain.rules:
            for statement in rule.statements:
                if isinstance(statement, Lookup):
                    value = next(
                        value for name, value in translated["nft_set"].items() if name == (key.table, statement.set)
                    )
                    assert len(value.types) == len(statement.fields)
                elif isinstance(statement, Verdict) and statement.chain:
                    assert ChainKey(key.table, statement.chain) in translated["nft_chain"]
    for element in translated["nft_element"]:
        assert len(element.fields) == len(translated["nft_set"][element.set].types)
    return render(translated, "nft")


@given(st.sampled_from(CONFIGS), st.integers(0, 2**32))
@settings(max_examples=150)
def test_random_clusters_translate(config: Config, seed: int) -> None:
    texts = []
    for _round in range(2):
        built = Cluster(config, FACTS[0])
        for what, value in RandomCluster(seed).events(25):
            if what == "put":
                built.put(value)
        texts.append(check(built.state()))
    assert texts[0] == texts[1]
    assert "{" in texts[0]
