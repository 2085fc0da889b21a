# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Items as JSON: all that an agent can want comes back the same, and nothing else is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.clusters.random_cluster import FACTS, RandomCluster
from support.nftables import statements
from support.properties import settings

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import EngineError
from kubenode.engine.model.nftables import ChainKey, Hook, NftChain, Rule, TableKey
from kubenode.history.items import KINDS, Item, decode, encode


def through_json(item: Item) -> Any:
    return json.loads(json.dumps(encode(*item)))


def typed(value: Any) -> Any:
    """Return a value with the types of all its parts: tuples of other types are equal."""
    return (type(value), *map(typed, value)) if isinstance(value, tuple) else (type(value), value)


def assert_same(item: Item) -> None:
    assert typed(decode(through_json(item))) == typed(item)


@pytest.mark.parametrize("binding", ["addresses", "routes"])
@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_every_desired_item_comes_back(binding: str, backend: str) -> None:
    config = Config(vip_binding=binding, service_cidrs=("10.96.0.0/16", "fd00::/108"), localhost_node_ports=True)
    config = config._replace(no_endpoints="reject")
    kinds = set()
    for seed in range(6):
        cluster = Cluster(config, FACTS[0])
        for what, event in RandomCluster(seed).events(60):
            if what == "put":
                try:
                    cluster.put(event)
                except EngineError:
                    continue
        state = cluster.state()
        for kind, values in (state if backend == "iptables" else nft_state(state)).items():
            for key, value in values.items():
                assert_same(Item(kind, key, value))
                assert_same(Item(kind, key, None))
                kinds.add(kind)
    assert kinds >= ({"chain", "jump", "set", "member"} if backend == "iptables" else {"nft_chain", "nft_element"})
    assert kinds <= KINDS.keys()
    assert ("route" in kinds) == (binding == "routes")


@settings(max_examples=60)
@given(st.one_of(statements("ip"), statements("ip6")))
def test_statements_of_nftables_come_back(each: Any) -> None:
    assume(all(text.isprintable() for text in each if isinstance(text, str)))
    chain = NftChain(Hook("nat", "prerouting", -100), (Rule((each,), "a comment"),))
    assert_same(Item("nft_chain", ChainKey(TableKey("ip", "kubenode"), "a"), chain))


SERVER = ["tcp", "10.96.0.1", 80, 4]
REAL = [1, "masquerade", 0, 0, "ipip", 0, 0]


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        ["virtual_server", SERVER],
        ["file", "/etc/shadow", "root::0:0"],
        ["kernel_module", "a", "loaded"],
        ["nft_text", ["inet", "a"], "chain b {}\n"],
        [["link"], "a", None],
        ["virtual_server", ["tcp", "10.96.0.1", "80", 4], None],
        ["virtual_server", ["tcp", "10.96.0.1", True, 4], None],
        ["virtual_server", ["tcp", "10.96.0.1", -1, 4], None],
        ["virtual_server", ["tcp", "10.96.0.1", 80, 6], None],
        ["virtual_server", ["tcp", "10.96.0.01", 80, 4], None],
        ["virtual_server", ["tcp", "", 80, 4], None],
        ["virtual_server", ["icmp", "10.96.0.1", 80, 4], None],
        ["virtual_server", ["fwmark", "10.96.0.1", 80, 4], None],
        ["virtual_server", [*SERVER, 1], None],
        ["virtual_server", dict.fromkeys(SERVER), None],
        ["real_server", [SERVER, "a", 80], REAL],
        ["real_server", [SERVER, "10.0.0.1", 80], [1, "elsewhere", 0, 0, "ipip", 0, 0]],
        ["real_server", [SERVER, "10.0.0.1", 80], REAL[:-1]],
        ["address", ["kube-ipvs0", "10.96.0.1", 32], 1],
        ["route", ["lo", "10.96.0.1/16"], [4, 0]],
        ["member", ["a", "b\x1b[2J"], ""],
        ["sysctl", "a", "\ud800\n"],
        ["sysctl", "a" * 70000, "1"],
        ["chain", [4, "nat", "A"], "text"],
        ["chain", [4, "nat", "A"], ["x"] * 70000],
        ["nft_chain", [["ip", "a"], "b"], [None, [[[["Popen", "a"]], ""]]]],
        ["nft_chain", [["ip", "a"], "b"], [None, [[[[]], ""]]]],
        ["nft_chain", [["inet", "a"], "b"], [None, []]],
        ["jump", [4, "nat", "A", "-j B"], ["anywhere", 1]],
    ],
)
def test_foreign_item_is_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"expected|is not|has"):
        decode(raw)
