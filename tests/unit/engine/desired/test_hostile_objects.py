# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of an attacker: each affects only itself, is named, and its message is short."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters import objects
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import NODE, cluster, servers

from kubenode.engine.errors import InputError
from kubenode.engine.kubernetes.endpoint_slice import parse_slice
from kubenode.engine.kubernetes.node import parse_node
from kubenode.engine.kubernetes.service import parse_service

GOOD = (service("good", ["10.20.30.99"]), piece("good", [endpoint("10.180.0.9")]))
GOOD_SERVER = {"tcp 10.20.30.99:80": ["10.180.0.9:80"]}
LONGEST_MESSAGE = 700  # characters
DIGITS = "9" * 5000
NUMBER = 10**5000  # Python refuses to print it
PRINTABLE = 10**4200
WEIGHT, SCHEDULER, FLAGS = (f"kubenode.ipvs/{name}" for name in ("weight", "scheduler", "scheduler-flags"))
BALANCER: dict[str, Any] = {"kind": "LoadBalancer", "ingress": [{"ip": "1.2.3.4"}]}


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def with_metadata(obj: dict[str, Any], **change: Any) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], **change}}


SERVICES = {
    "cluster IP": service(cluster_ips=["1" * 200_000]),
    "cluster IP of a number": service(clusterIPs=[NUMBER]),
    "digits": service(ports=[{**port(), "port": NUMBER}]),
    "nested": service(ports=[{**port(), "port": deep(50_000)}]),
    "nested mapping": service(externalIPs=deep(50_000)),
    "port name": service(ports=[port(name="x" * 200_000)]),
    "protocol": service(ports=[port(protocol="T" * 200_000)]),
    "external address": service(externalIPs=["0" * 200_000 + "1.2.3.4"]),
    "balancer address": service(kind="LoadBalancer", ingress=[{"ip": ["1.2.3.4"]}]),
    "ip mode": service(kind="LoadBalancer", ingress=[{"ip": "1.2.3.4", "ipMode": ["VIP"]}]),
    "range": service(**BALANCER, loadBalancerSourceRanges=["10.0.0.0/" + DIGITS]),
    "range of zeros": service(**BALANCER, loadBalancerSourceRanges=["10.0.0.0/" + "0" * 5000 + "8"]),
    "scheduler": with_metadata(service(), annotations={SCHEDULER: ["rr"]}),
    "long scheduler": service(annotations={SCHEDULER: "r" * 200_000}),
    "flags": service(annotations={FLAGS: "," * 200_000}),
    "affinity": service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": NUMBER}}),
    "many addresses": service(externalIPs=["1.2.3.4"] * 10_001),
    "created": with_metadata(service(), creationTimestamp=NUMBER),
    "type": service(kind="C" * 200_000),
    "family": service(ipFamilies=["IPv4" * 50_000]),
}


@pytest.mark.parametrize("obj", SERVICES.values(), ids=SERVICES.keys())
def test_hostile_service_costs_only_itself(obj: dict[str, Any]) -> None:
    built = cluster([obj, *GOOD])
    (problem,) = built.problems["Service", "ns1/svc1"]
    assert problem.startswith("Service ns1/svc1: ")
    assert len(problem) < LONGEST_MESSAGE
    assert servers(built.state()) == GOOD_SERVER


SLICES = {
    "digits": piece(annotations={WEIGHT: DIGITS}),
    "number": with_metadata(piece(), annotations={WEIGHT: NUMBER}),
    "zeros": piece(annotations={WEIGHT: "0" * 5000}),
    "port": piece(ports=[{"name": "p80", "port": NUMBER}]),
    "nested port": piece(ports=[{"name": "p80", "port": deep(50_000)}]),
    "family": {**piece(), "addressType": ["IPv4"]},
    "service": piece(labels={"kubernetes.io/service-name": "s" * 200_000}),
    "ports": {**piece(), "ports": {"p80": 80}},
}


@pytest.mark.parametrize("obj", SLICES.values(), ids=SLICES.keys())
def test_hostile_slice_costs_only_itself(obj: dict[str, Any]) -> None:
    built = cluster([service(), obj, *GOOD])
    (problem,) = built.problems["EndpointSlice", "ns1/svc1-4"]
    assert problem.startswith("EndpointSlice ns1/svc1-4: ")
    assert len(problem) < LONGEST_MESSAGE
    assert servers(built.state()) == {"tcp 10.20.30.41:80": [], **GOOD_SERVER}


ENDPOINTS = {
    "address": endpoint("1" * 200_000),
    "nested": endpoint(deep(50_000)),
    "node": endpoint("10.180.0.2", "n" * 200_000),
    "number of a node": {**endpoint("10.180.0.2"), "nodeName": NUMBER},
    "hints": endpoint("10.180.0.2", zones=["z"] * 101),
    "zone": endpoint("10.180.0.2", zones=["z" * 200_000]),
    "conditions": {**endpoint("10.180.0.2"), "conditions": "ready"},
}


@pytest.mark.parametrize("broken", ENDPOINTS.values(), ids=ENDPOINTS.keys())
def test_hostile_endpoint_costs_only_itself(broken: dict[str, Any]) -> None:
    built = cluster([service(), piece(endpoints=[endpoint("10.180.0.1"), broken])])
    (problem,) = built.problems["EndpointSlice", "ns1/svc1-4"]
    assert problem.startswith("EndpointSlice ns1/svc1-4: endpoints[1]")
    assert len(problem) < LONGEST_MESSAGE
    assert servers(built.state()) == {"tcp 10.20.30.41:80": ["10.180.0.1:80"]}


NODES = {
    "network": {"spec": {"podCIDRs": ["10.0.0.0/" + DIGITS]}},
    "address": {"status": {"addresses": [{"type": "InternalIP", "address": NUMBER}]}},
    "label": {"metadata": {"name": NODE, "labels": {"x": NUMBER}}},
}


@pytest.mark.parametrize("change", NODES.values(), ids=NODES.keys())
def test_hostile_node_costs_only_itself(change: dict[str, Any]) -> None:
    built = cluster([{**objects.node(), **change}, *GOOD])
    (problem,) = built.problems["Node", NODE]
    assert problem.startswith(f"Node {NODE}: ")
    assert len(problem) < LONGEST_MESSAGE
    assert servers(built.state()) == GOOD_SERVER


def test_known_service_that_breaks_counts_as_absent() -> None:
    built = cluster([service(), *GOOD])
    built.put(service(annotations={SCHEDULER: DIGITS}))
    assert servers(built.state()) == GOOD_SERVER
    built.put(service())
    assert built.problems == {}
    assert servers(built.state()) == {"tcp 10.20.30.41:80": [], **GOOD_SERVER}


def test_unforeseen_exception_is_named() -> None:
    class Odd(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "spec":
                raise MemoryError("no room")
            return super().get(key, default)

    built = cluster([Odd(service()), *GOOD])
    (problem,) = built.problems["Service", "ns1/svc1"]
    assert problem.startswith("Service ns1/svc1: the object is 'MemoryError: no room', expected fields")
    assert servers(built.state()) == GOOD_SERVER


@pytest.mark.parametrize("name", ["n" * 254, "n" * 200_000])
def test_name_that_is_too_long_is_refused_in_short(name: str) -> None:
    with pytest.raises(InputError, match=r"a Service: metadata.name is 'nnn") as caught:
        cluster([]).put(service(name))
    assert len(str(caught.value)) < LONGEST_MESSAGE


def test_many_broken_endpoints_have_few_lines() -> None:
    built = cluster([service(), piece(endpoints=[endpoint("x")] * 1000)])
    problems = built.problems["EndpointSlice", "ns1/svc1-4"]
    assert problems[0] == "EndpointSlice ns1/svc1-4: endpoints[0].addresses[0] is 'x', expected an IPv4 address"
    assert problems[10:] == ("EndpointSlice ns1/svc1-4: and 990 more of this kind",)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just(PRINTABLE)
    | st.just(DIGITS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["Service", "EndpointSlice", "Node"]), st.data())
@settings(max_examples=300, deadline=None)
def test_parsers_raise_input_errors_only(kind: str, data: st.DataObject) -> None:
    """The test replaces any field of a valid object, at any depth, by any value."""
    good: dict[str, Any] = {
        "Service": service(
            **BALANCER, externalIPs=["5.6.7.8"], loadBalancerSourceRanges=["10.0.0.0/8"], ipFamilies=["IPv4"]
        ),
        "EndpointSlice": piece(
            endpoints=[endpoint("10.0.0.1", "n1", ready=True, zones=["a"])], annotations={WEIGHT: "5"}
        ),
        "Node": objects.node(zone="a", pod_cidrs=["10.244.0.0/24"], addresses=["192.0.2.1"]),
    }[kind]
    parse: Any = {"Service": parse_service, "EndpointSlice": parse_slice, "Node": parse_node}[kind]
    obj = replaced(good, data)
    try:
        _value, remarks = parse(obj)
        texts = [remark.text for remark in remarks]
    except InputError as error:
        texts = [str(error)]
    assert all(len(text) < LONGEST_MESSAGE for text in texts)


def replaced(value: Any, data: st.DataObject) -> Any:
    """Return the value with one random part replaced."""
    if isinstance(value, (dict, list)) and value and data.draw(st.integers(0, 5)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        inner = replaced(value[key], data)
        return {**value, key: inner} if isinstance(value, dict) else [*value[:key], inner, *value[key + 1 :]]
    return data.draw(JSON)
