# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happened, the state is that of a fresh start with the final objects, and the changes add up to it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import objects

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.config import Config
from kubenode.engine.desired.facts import NodeFacts
from kubenode.engine.model import State
from kubenode.engine.plan import plan

NAMES = ("a", "b", "c")
IPS = {4: ("10.96.0.1", "10.96.0.2", "10.96.0.3"), 6: ("fd00::1", "fd00::2", "fd00::3")}
EXTERNAL = ("203.0.113.1", "203.0.113.2", "2001:db8::1", "10.99.0.11", "127.0.0.1", "broken")
PODS = {4: ("10.244.1.1", "10.244.1.2", "10.244.2.1", "fd00::bad"), 6: ("fd00:244::1", "fd00:244::2", "10.1.1.1")}
CONFIGS = (
    Config(),
    Config(
        scheduler="mh",
        local_fallback="drop",
        vip_ping=True,
        localhost_node_ports=True,
        bind_load_balancer_ips=False,
        no_endpoints="reject",
    ),
    Config(detect_local_mode="NodeCIDR", node_port_addresses=("10.99.0.0/24",)),
)
FACTS = (
    NodeFacts("n1", (("lo", "127.0.0.1"), ("eth0", "10.99.0.11"), ("eth0", "fd00:99::11")), ("10.99.0.11", "fd00:99::11"), "a"),
    NodeFacts("n1", (("eth0", "10.99.0.11"), ("eth0", "10.99.0.12"), ("eth1", "203.0.113.1")), ("10.99.0.11",)),
    NodeFacts("n1"),
)

number = st.sampled_from((80, 443, 70000, 0))
ports = st.lists(
    st.builds(
        objects.port,
        number,
        st.sampled_from(("p", "q", "")),
        st.sampled_from(("TCP", "UDP", "SCTP", "TCP", "ICMP")),
        st.sampled_from((0, 30001, 30002)),
    ),
    min_size=0,
    max_size=3,
    unique_by=lambda port: port["name"],
)
policy = st.sampled_from(("Cluster", "Local"))
services = st.builds(
    objects.service,
    st.sampled_from(NAMES),
    st.one_of(
        st.tuples(st.sampled_from(IPS[4])).map(list),
        st.tuples(st.sampled_from(IPS[4]), st.sampled_from(IPS[6])).map(list),
        st.sampled_from((["None"], [], ["10.96.0.256"], ["fd00::1"])),
    ),
    ports,
    kind=st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName")),
    created=st.sampled_from(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")),
    labels=st.sampled_from(({}, {}, {}, {"service.kubernetes.io/service-proxy-name": "x"})),
    annotations=st.sampled_from(
        ({}, {}, {"kubenode.ipvs/scheduler": "wrr"}, {"kubenode.ipvs/scheduler-flags": "flag-1"}, {"kubenode.ipvs/scheduler": "?"})
    ),
    ingress=st.lists(
        st.fixed_dictionaries(
            {"ip": st.sampled_from(("198.51.100.1", "198.51.100.2", "2001:db8:b::1")), "ipMode": st.sampled_from(("VIP", "Proxy"))}
        ),
        max_size=2,
    ),
    externalIPs=st.lists(st.sampled_from(EXTERNAL), max_size=2),
    externalTrafficPolicy=policy,
    internalTrafficPolicy=policy,
    sessionAffinity=st.sampled_from(("None", "ClientIP")),
    healthCheckNodePort=st.sampled_from((0, 32000, 32001)),
    loadBalancerSourceRanges=st.sampled_from(([], [], ["192.0.2.0/24"], ["10.99.0.0/16", "fd00:99::/64"], ["10.0.0.1/8"], ["x"])),
)


def endpoints(family: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    flag = st.sampled_from((None, True, False))
    return st.lists(
        st.builds(
            objects.endpoint,
            st.sampled_from(PODS[family]),
            st.sampled_from((None, "n1", "n2")),
            ready=flag,
            serving=flag,
            terminating=flag,
            zones=st.sampled_from((None, ["a"], ["b"], ["a", "b"])),
            nodes=st.sampled_from((None, None, ["n1"], ["n2"])),
        ),
        max_size=4,
    )


slices = st.sampled_from((4, 6)).flatmap(
    lambda family: st.builds(
        objects.piece,
        st.sampled_from(NAMES),
        endpoints(family),
        st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(("p", "q", "")),
                    "protocol": st.sampled_from(("TCP", "UDP", "SCTP")),
                    "port": st.sampled_from((8080, 8081, 8080, 8081, 70000, None)),
                }
            ),
            max_size=3,
        ),
        name=st.sampled_from(("s1", "s2", "s3", "s4")),
        family=st.just(family),
        labels=st.sampled_from(({}, {}, {}, {"service.kubernetes.io/headless": ""}, {"kubernetes.io/service-name": ""})),
        annotations=st.sampled_from(({}, {}, {"kubenode.ipvs/weight": "5"}, {"kubenode.ipvs/weight": "-1"})),
    )
)
nodes = st.builds(
    objects.node,
    st.sampled_from(("n1", "n2")),
    zone=st.sampled_from(("", "a", "b")),
    pod_cidrs=st.sampled_from(([], ["10.244.1.0/24"], ["10.244.1.0/24", "fd00:244::/64"], ["?"])),
    addresses=st.sampled_from(([], ["10.99.0.11"], ["192.0.2.7", "fd00:99::11"])),
)
events = st.lists(
    st.one_of(
        services.map(lambda obj: ("put", obj)),
        slices.map(lambda obj: ("put", obj)),
        nodes.map(lambda obj: ("put", obj)),
        st.tuples(st.just("remove"), st.tuples(st.just("Service"), st.just("ns1"), st.sampled_from(NAMES))),
        st.tuples(st.just("remove"), st.tuples(st.just("EndpointSlice"), st.just("ns1"), st.sampled_from(("s1", "s2", "s3")))),
        st.tuples(st.just("remove"), st.tuples(st.just("Node"), st.just("default"), st.just("n1"))),
        st.sampled_from(FACTS).map(lambda facts: ("facts", facts)),
        st.just(("take", None)),
    ),
    max_size=25,
)


def applied(state: State, changes: State) -> None:
    for kind, items in changes.items():
        for key, value in items.items():
            if value is None:
                state.setdefault(kind, {}).pop(key, None)
            else:
                state.setdefault(kind, {})[key] = value


def without_empty(state: State) -> State:
    return {kind: items for kind, items in state.items() if items}


@given(st.sampled_from(CONFIGS), events, st.randoms(use_true_random=False))
@settings(max_examples=250, deadline=None)
def test_any_history_ends_in_the_state_of_a_fresh_start(config: Config, history: list[tuple[str, Any]], order: Any) -> None:
    facts = FACTS[0]
    cluster = Cluster(config, facts)
    objects_now: dict[tuple[str, str], dict[str, Any]] = {}
    seen: State = {}
    for what, value in history:
        if what == "put":
            cluster.put(value)
            objects_now[value["kind"], value["metadata"]["name"]] = value
        elif what == "remove":
            cluster.remove(*value)
            objects_now.pop((value[0], value[2]), None)
        elif what == "facts":
            facts = value
            cluster.set_facts(facts)
        else:
            applied(seen, cluster.take())
            assert without_empty(seen) == without_empty(cluster.state())
    fresh = Cluster(config, facts)
    final = list(objects_now.values())
    order.shuffle(final)
    for obj in final:
        fresh.put(obj)
    assert fresh.state() == cluster.state()
    assert fresh.problems == cluster.problems
    assert fresh.health_checks() == cluster.health_checks()
    assert fresh.no_local_endpoints() == cluster.no_local_endpoints()
    applied(seen, cluster.take())
    assert without_empty(seen) == without_empty(fresh.state())
    assert not any(cluster.take().values())


@given(st.sampled_from(CONFIGS), events)
@settings(max_examples=100, deadline=None)
def test_the_state_hangs_together(config: Config, history: list[tuple[str, Any]]) -> None:
    """Every real server has its virtual server, every member its set, every rule its sets; and all of it can be planned."""
    cluster = Cluster(config, FACTS[0])
    for what, value in history:
        if what == "put":
            cluster.put(value)
    state = cluster.state()
    assert {key.server for key in state["real_server"]} <= set(state["virtual_server"])
    assert {key.set for key in state["member"]} <= set(state["set"])
    words = {word for rules in state["chain"].values() for rule in rules for word in rule.split()}
    assert {word for word in words if word.startswith("KUBE-")} <= set(state["set"]) | {key.chain for key in state["chain"]}
    bound = {key.address for key in state["address"]}
    assert bound == {key.member for key in state["member"] if key.set in ("KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS")}
    assert bound <= {key.address for key in state["virtual_server"]}
    steps = plan({}, state, {}).steps
    assert len(steps) == sum(len(items) for items in state.values())
