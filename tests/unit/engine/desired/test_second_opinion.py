# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters: the desired state equals :mod:`support.kube_proxy.proxier`, a reading of kube-proxy's sources."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.clusters import plain_cluster
from support.kube_proxy import proxier, recorded

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.sets import set_name
from kubenode.engine.desired.settings import parse


def compare(things: list[dict[str, Any]], config: dict[str, Any], facts: NodeFacts) -> Cluster:
    cluster = Cluster(parse([config, plain_cluster.ALLOWED])[0], facts)
    for item in things:
        cluster.put(item)
    state = cluster.state()
    (node,) = [item for item in things if item["kind"] == "Node" and item["metadata"]["name"] == facts.name]
    for family in (4, 6):
        wanted = proxier.Pass(family, things, config, node, [ip for _link, ip in facts.addresses])
        prefix = 32 if family == 4 else 128
        servers = {
            (key.protocol, key.address, key.port): (value.scheduler, value.flags, value.timeout)
            for key, value in state["virtual_server"].items()
            if key.family == family and value.netmask == prefix
        }
        assert servers == wanted.servers
        reals = {
            ((key.server.protocol, key.server.address, key.server.port), key.address, key.port)
            for key, value in state["real_server"].items()
            if key.server.family == family and value.weight == 1
        }
        assert reals == wanted.reals
        for name, members in wanted.sets.items():
            mine = set_name(family, f"KUBE-{name}")
            assert {key.member for key in state["member"] if key.set == mine} == members, mine
        assert {key.address for key in state["address"] if (":" in key.address) is (family == 6)} == wanted.bound
        counts = {policy: cluster.no_local_endpoints()[family, policy] for policy in wanted.no_local}
        assert counts == {policy: len(names) for policy, names in wanted.no_local.items()}
        rules = {
            f"{key.table} {key.chain}": list(value) for key, value in state["chain"].items() if key.family == family
        }
        out = "filter KUBE-IPVS-OUT-FILTER"
        assert {**rules, out: sorted(rules[out])} == {**wanted.rules, out: sorted(wanted.rules[out])}
    return cluster


@given(st.integers(0, 2**32))
@example(4413)  # an address that terminates in two slices, in one of them on this node
@settings(max_examples=250, deadline=None)
def test_random_clusters_match_the_second_proxier(seed: int) -> None:
    things, config = plain_cluster.a_cluster(Random(seed))
    compare(things, config, NodeFacts(plain_cluster.NODE, plain_cluster.ADDRESSES))


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_second_proxier_matches_kube_proxy(path: Any) -> None:
    """The second reading reproduces the recordings of kube-proxy, so the engine's agreement with it counts."""
    recording = recorded.load(path)
    compare(recording["objects"], recording["config"], recorded.facts(recording))
