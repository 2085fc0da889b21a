# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state after any events equals that of a fresh start with the final objects, and the changes add up to it."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters.objects import service
from support.clusters.random_cluster import FACTS, RandomCluster

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import InputError
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.net import contains
from kubenode.engine.plan import plan
from kubenode.engine.render import FORMATS, render

EVERYTHING = ("0.0.0.0/0", "::/0", "127.0.0.0/8", "10.99.0.0/16", "203.0.113.0/24")
CONFIGS = (
    Config(),
    Config(allowed_external_ips=EVERYTHING, allowed_load_balancer_ips=EVERYTHING),
    Config(
        scheduler="mh",
        local_fallback="drop",
        vip_ping=True,
        localhost_node_ports=True,
        bind_load_balancer_ips=False,
        no_endpoints="reject",
    ),
    Config(detect_local_mode="NodeCIDR", node_port_addresses=("10.99.0.0/24",)),
    # the second network sometimes contains addresses of the node
    Config(vip_binding="routes", service_cidrs=("10.96.0.0/16", "203.0.113.0/24", "fd00::/112")),
)
seeds = st.integers(0, 2**32)


def applied(state: State, changes: State) -> None:
    for kind, items in changes.items():
        for key, value in items.items():
            if value is None:
                state.setdefault(kind, {}).pop(key, None)
            else:
                state.setdefault(kind, {})[key] = value


def holders(cluster: Cluster) -> dict[VirtualServerKey, tuple[str, str]]:
    holder_of = {}
    for key in cluster.state()["virtual_server"]:
        namespace, _slash, name = cluster.port_of(key).partition(":")[0].partition("/")
        holder_of[key] = (namespace, name)
    return holder_of


def without_empty(state: State) -> State:
    return {kind: items for kind, items in state.items() if items}


@given(st.sampled_from(CONFIGS), seeds)
@settings(max_examples=300, deadline=None)
def test_any_history_equals_a_fresh_start(config: Config, seed: int) -> None:
    facts = FACTS[0]
    cluster = Cluster(config, facts)
    now: dict[tuple[str, str], dict[str, Any]] = {}
    seen: State = {}
    flows: dict[VirtualServerKey, frozenset[tuple[str, int]]] = {}
    for what, value in RandomCluster(seed).events(40):
        if what == "put":
            cluster.put(value)
            now[value["kind"], value["metadata"]["name"]] = value
        elif what == "remove":
            cluster.remove(*value)
            now.pop((value[0], value[2]), None)
        elif what == "facts":
            facts = value
            cluster.set_facts(facts)
        else:
            applied(seen, cluster.take())
            assert without_empty(seen) == without_empty(cluster.state())
            flows.update(cluster.take_flows())
    fresh = Cluster(config, facts)
    final = list(now.values())
    Random(seed).shuffle(final)
    for obj in final:
        fresh.put(obj)
    fresh.resume(holders(cluster))  # the objects do not contain the order of claims
    assert fresh.state() == cluster.state()
    assert fresh.problems == cluster.problems
    assert fresh.health_checks() == cluster.health_checks()
    assert fresh.no_local_endpoints() == cluster.no_local_endpoints()
    applied(seen, cluster.take())
    assert without_empty(seen) == without_empty(fresh.state())
    assert not any(cluster.take().values())
    flows.update(cluster.take_flows())
    serving = fresh.take_flows()
    assert {key: flows[key] for key in serving} == serving == cluster.take_flows(serving)


@given(st.sampled_from(CONFIGS), seeds)
@settings(max_examples=150, deadline=None)
def test_desired_state_is_consistent(config: Config, seed: int) -> None:
    """Every real server has its virtual server, every member its set, and every rule its sets.

    All of the state can be planned.
    """
    cluster = Cluster(config, FACTS[0])
    for what, value in RandomCluster(seed).events(20):
        if what == "put":
            cluster.put(value)
    state = cluster.state()
    assert {key.server for key in state["real_server"]} <= set(state["virtual_server"])
    assert {key.set for key in state["member"]} <= set(state["set"])
    words = {word for rules in state["chain"].values() for rule in rules for word in rule.split()}
    assert {word for word in words if word.startswith("KUBE-")} <= set(state["set"]) | {
        key.chain for key in state["chain"]
    }
    bound = {key.member for key in state["member"] if key.set in ("KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS")}
    assert bound <= {key.address for key in state["virtual_server"]}
    if config.vip_binding == "addresses":
        assert {key.address for key in state["address"]} == bound
        assert state["route"] == {}
    else:
        assert state["address"] == {}
        networks = {key.network for key in state["route"]} & set(config.service_cidrs)
        single = {ip for ip in bound if not any(contains(net, ip) for net in networks)}
        assert {key.network.partition("/")[0] for key in state["route"] if key.network not in networks} == single
    steps = plan({}, state, {}).steps
    assert len(steps) == sum(len(items) for items in state.values())


def test_random_clusters_cover_all_features() -> None:
    """Conflicts, broken objects and real servers of every kind must occur, or the properties would not test them."""
    seen = {"virtual_server": 0, "real_server": 0, "address": 0, "conflict": 0, "broken": 0, "drop": 0}
    for seed in range(50):
        cluster = Cluster(Config(), FACTS[0])
        for what, value in RandomCluster(seed).events(40):
            if what == "put":
                cluster.put(value)
        state, problems = cluster.state(), [text for texts in cluster.problems.values() for text in texts]
        for kind in ("virtual_server", "real_server", "address"):
            seen[kind] += bool(state[kind])
        seen["conflict"] += any("that no other Service holds" in text for text in problems)
        seen["broken"] += any("that no other Service holds" not in text for text in problems)
        seen["drop"] += any(rules for key, rules in state["chain"].items() if key.chain == "KUBE-IPVS-OUT-FILTER")
    assert min(seen.values()) >= 10, seen


JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 70000, 1.5, 1 << 70),
    *("", "x", "\ud800", "::", "10.0.0.1/8"),
    *([], [None], ["x"], [[]], {}, {"a": {}}, {"name": 5}),
)


def spoiled(value: Any, random: Random) -> Any:
    """Return a copy with junk in one random position, or with one random part left out."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        if random.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: spoiled(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        index = random.randrange(len(value))
        return [*value[:index], spoiled(value[index], random), *value[index + 1 :]]
    return random.choice(JUNK)


@given(seeds)
@settings(max_examples=600, deadline=None)
def test_junk_is_reported_and_changes_nothing(seed: int) -> None:
    """Junk in an object is used or reported; the other Service is served all the same."""
    source = RandomCluster(seed)
    cluster = Cluster(Config(), FACTS[0])
    cluster.put(service("good", ["10.96.9.9"], namespace="other"))
    for make in (source.service, source.piece, source.node):
        obj = spoiled(make(), source.random)
        if isinstance(obj, dict):
            with suppress(InputError):  # an object without a name; test_bad_input checks its message
                cluster.put(obj)
    state = cluster.state()
    assert VirtualServerKey("tcp", "10.96.9.9", 80, 4) in state["virtual_server"]
    for texts in cluster.problems.values():
        assert all(text.isprintable() for text in texts)
    for fmt in FORMATS:
        render(state, fmt)
