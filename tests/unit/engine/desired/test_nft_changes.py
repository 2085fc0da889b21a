# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes in items of nftables: the sum of all changes is the whole state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters.random_cluster import FACTS, RandomCluster

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_changes import NftChanges
from kubenode.engine.desired.nft_sets import TABLES
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.settings import Config
from kubenode.engine.model import ReadState, State
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.nftables import ElementKey, SetKey

from .test_cluster_properties import CONFIGS, applied, without_empty

SOURCES = SetKey(TABLES[4], "load-balancer-source-cidr")


def ranges(*nets: str, value: str | None = "") -> ReadState:
    return {"member": {MemberKey("KUBE-LOAD-BALANCER-SOURCE-CIDR", f"192.0.2.7,tcp:80,{net}"): value for net in nets}}


def element(net: str) -> ElementKey:
    return ElementKey(SOURCES, ("192.0.2.7", "tcp", "80", net))


@given(st.sampled_from(CONFIGS), st.integers(0, 10**9))
@settings(max_examples=100, deadline=None)
def test_all_changes_together_make_the_whole_state(config: Config, seed: int) -> None:
    cluster, changes = Cluster(config, FACTS[0]), NftChanges()
    seen: State = {}
    applied(seen, changes.whole(cluster.take()))
    for what, value in RandomCluster(seed).events(40):
        if what == "put":
            cluster.put(value)
        elif what == "remove":
            cluster.remove(*value)
        elif what == "facts":
            cluster.set_facts(value)
        else:
            applied(seen, changes.changed(cluster.take()))
            assert without_empty(seen) == without_empty(nft_state(cluster.state()))


def test_a_larger_source_range_replaces_those_within() -> None:
    changes = NftChanges()
    changes.whole(ranges("10.1.0.0/16", "10.2.0.0/16"))
    assert changes.changed(ranges("10.0.0.0/8"))["nft_element"] == {
        element("10.0.0.0/8"): "",
        element("10.1.0.0/16"): None,
        element("10.2.0.0/16"): None,
    }
    assert changes.changed(ranges("10.0.0.0/8", value=None))["nft_element"] == {
        element("10.0.0.0/8"): None,
        element("10.1.0.0/16"): "",
        element("10.2.0.0/16"): "",
    }


def test_a_change_elsewhere_has_no_items_of_nftables() -> None:
    assert NftChanges().changed({"sysctl": {"a": "1"}, "member": {}}) == {"sysctl": {"a": "1"}}
