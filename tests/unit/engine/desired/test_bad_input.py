# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A broken object is reported once, by name, field, value and expectation; all others are served."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters import objects
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import NODE, cluster, members, node, servers

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import InputError

GOOD = (service("good", ["10.20.30.99"]), piece("good", [endpoint("10.180.0.9")]))
GOOD_SERVER = {"tcp 10.20.30.99:80": ["10.180.0.9:80"]}


def bad_ports(**change: Any) -> dict[str, Any]:
    return service(ports=[{**port(), **change}])


@pytest.mark.parametrize(
    ("obj", "field", "value", "expected"),
    [
        (service(cluster_ips=["10.20.30.256"]), "spec.clusterIPs", "10.20.30.256", "an IPv4 or IPv6 address"),
        (service(cluster_ips=["10.1.1.1e"]), "spec.clusterIPs", "10.1.1.1e", "an IPv4 or IPv6 address"),
        (service(cluster_ips=[]), "spec.clusterIP", "", "an address (the API server assigns it), or None"),
        (
            service(cluster_ips=["10.0.0.1", "10.0.0.2"]),
            "spec.clusterIPs",
            ["10.0.0.1", "10.0.0.2"],
            "at most one address of each",
        ),
        (service(ipFamilies=["IPv6"]), "spec.clusterIPs[0]", "10.20.30.41", "an address of IPv6 as in spec.ipFamilies"),
        (service(ports=[]), "spec.ports", [], "at least one port"),
        (service(ports=7), "spec.ports", 7, "a list"),
        (service(ports=["http"]), "spec.ports[0]", "http", "a mapping"),
        (bad_ports(port=70000), "spec.ports[0].port", 70000, "a port from 1 to 65535"),
        (bad_ports(port=0), "spec.ports[0].port", 0, "a port from 1 to 65535"),
        (bad_ports(port="80"), "spec.ports[0].port", "80", "a port from 1 to 65535"),
        (bad_ports(port=True), "spec.ports[0].port", True, "a port from 1 to 65535"),
        (bad_ports(nodePort=65536), "spec.ports[0].nodePort", 65536, "a port from 0 to 65535"),
        (bad_ports(protocol="ICMP"), "spec.ports[0].protocol", "ICMP", "TCP, UDP or SCTP"),
        (bad_ports(name=5), "spec.ports[0].name", 5, "text"),
        (service(ports=[port(80), port(81)]), "spec.ports[1].name", "p80", "a name that no other port"),
        (service(kind="NodePorts"), "spec.type", "NodePorts", "ClusterIP, NodePort, LoadBalancer or ExternalName"),
        (service(externalIPs=["x"]), "spec.externalIPs", "x", "an IPv4 or IPv6 address"),
        (service(externalIPs=[5]), "spec.externalIPs[0]", 5, "text"),
        (service(ingress=[{"ip": "1.2.3"}]), "status.loadBalancer.ingress", "1.2.3", "an IPv4 or IPv6 address"),
        (
            service(ingress=[{"ip": "1.2.3.4", "ipMode": "Via"}]),
            "status.loadBalancer.ingress.ipMode",
            "Via",
            "VIP or Proxy",
        ),
        (
            service(loadBalancerSourceRanges=["10.0.0.0"]),
            "spec.loadBalancerSourceRanges",
            "10.0.0.0",
            "networks such as",
        ),
        (
            service(loadBalancerSourceRanges=["10.0.0.0/33"]),
            "spec.loadBalancerSourceRanges",
            "10.0.0.0/33",
            "networks such as",
        ),
        (service(sessionAffinity="Cookie"), "spec.sessionAffinity", "Cookie", "None or ClientIP"),
        (
            service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}}),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            86401,
            "seconds from 1 to 86400",
        ),
        (service(externalTrafficPolicy="Node"), "spec.externalTrafficPolicy", "Node", "Cluster or Local"),
        (service(internalTrafficPolicy=1), "spec.internalTrafficPolicy", 1, "text"),
        (service(healthCheckNodePort=70000), "spec.healthCheckNodePort", 70000, "a port from 0 to 65535"),
        (
            service(annotations={"kubenode.ipvs/scheduler": "fastest"}),
            "annotation kubenode.ipvs/scheduler",
            "fastest",
            "one of rr, wrr, lc",
        ),
        (
            service(annotations={"kubenode.ipvs/scheduler-flags": "fast"}),
            "annotation kubenode.ipvs/scheduler-flags",
            "fast",
            "a list of flag-1",
        ),
    ],
)
def test_broken_services(obj: dict[str, Any], field: str, value: object, expected: str) -> None:
    built = cluster([obj, *GOOD])
    (problem,) = built.problems["Service", "ns1/svc1"]
    assert problem.startswith(f"Service ns1/svc1: {field} is {value!r}, expected {expected}")
    assert servers(built.state()) == GOOD_SERVER
    built.put(service())
    assert built.problems == {}
    assert len(servers(built.state())) == 2


def slice_with(**change: Any) -> dict[str, Any]:
    return {**piece(endpoints=[endpoint("10.180.0.1")]), **change}


@pytest.mark.parametrize(
    ("obj", "field", "value", "expected"),
    [
        (slice_with(addressType="IPv5"), "addressType", "IPv5", "IPv4 or IPv6"),
        (slice_with(addressType=None), "addressType", None, "IPv4 or IPv6"),
        (slice_with(ports=[{"port": 70000}]), "ports[0].port", 70000, "a port from 1 to 65535"),
        (slice_with(ports=[{"port": 80, "protocol": "tcp"}]), "ports[0].protocol", "tcp", "TCP, UDP or SCTP"),
        (slice_with(ports=[{"port": 80, "name": 1}]), "ports[0].name", 1, "text"),
        (slice_with(ports=["80"]), "ports[0]", "80", "a mapping"),
        (slice_with(endpoints={}), "endpoints", {}, "a list"),
        (
            piece(endpoints=[endpoint("10.0.0.1")] * 70000),
            "endpoints",
            "70000 endpoints",
            "at most 1000; use several slices",
        ),
        (
            piece(labels={"kubernetes.io/service-name": ""}),
            "label kubernetes.io/service-name",
            "",
            "the name of the Service that the slice belongs to",
        ),
        (
            piece(annotations={"kubenode.ipvs/weight": "-1"}),
            "annotation kubenode.ipvs/weight",
            "-1",
            "a number from 0 to 65535",
        ),
        (
            piece(annotations={"kubenode.ipvs/weight": "65536"}),
            "annotation kubenode.ipvs/weight",
            "65536",
            "a number from 0",
        ),
    ],
)
def test_broken_slices(obj: dict[str, Any], field: str, value: object, expected: str) -> None:
    built = cluster([service(), obj, *GOOD])
    (problem,) = built.problems["EndpointSlice", "ns1/svc1-4"]
    assert problem.startswith(f"EndpointSlice ns1/svc1-4: {field} is {value!r}, expected {expected}")
    assert servers(built.state()) == {"tcp 10.20.30.41:80": [], **GOOD_SERVER}
    built.put(slice_with())
    assert built.problems == {}
    assert servers(built.state()) == {"tcp 10.20.30.41:80": ["10.180.0.1:80"], **GOOD_SERVER}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (endpoint("2001:db8::1"), "endpoints[1].addresses[0] is '2001:db8::1', expected an IPv4 address"),
        (endpoint("10.0.0.300"), "endpoints[1].addresses[0] is '10.0.0.300', expected an IPv4 address"),
        ({}, "endpoints[1] is {}, expected an endpoint with an address"),
        ({"addresses": []}, "endpoints[1] is {'addresses': []}, expected an endpoint with an address"),
        ({"addresses": [7]}, "endpoints[1] is {'addresses': [7]}, expected an endpoint with an address"),
        (None, "endpoints[1] is None, expected an endpoint with an address"),
    ],
)
def test_one_broken_endpoint_costs_only_itself(broken: Any, message: str) -> None:
    built = cluster([service(), piece(endpoints=[endpoint("10.180.0.1"), broken, endpoint("10.180.0.2")])])
    assert built.problems == {("EndpointSlice", "ns1/svc1-4"): (f"EndpointSlice ns1/svc1-4: {message}",)}
    assert servers(built.state()) == {"tcp 10.20.30.41:80": ["10.180.0.1:80", "10.180.0.2:80"]}


def test_host_bits_are_cleared_with_a_warning() -> None:
    obj = service(kind="LoadBalancer", ingress=[{"ip": "1.2.3.4"}], loadBalancerSourceRanges=["10.1.2.3/8"])
    built = cluster([obj])
    assert built.problems == {
        ("Service", "ns1/svc1"): (
            "Service ns1/svc1: spec.loadBalancerSourceRanges has '10.1.2.3/8' with host bits set; 10.0.0.0/8 is used",
        )
    }
    assert members(built.state(), "KUBE-LOAD-BALANCER-SOURCE-CIDR") == ["1.2.3.4,tcp:80,10.0.0.0/8"]


@pytest.mark.parametrize("kind", ["Service", "EndpointSlice", "Node"])
@pytest.mark.parametrize("metadata", [None, {}, {"name": ""}, {"name": 5}, {"name": "a\nb"}, "x"])
def test_an_object_without_a_name_is_refused(kind: str, metadata: Any) -> None:
    with pytest.raises(InputError, match=f"a {kind}: metadata.name is .*, expected a name of letters"):
        cluster([]).put({"kind": kind, "metadata": metadata})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"spec": {"podCIDRs": ["10.244.0.0/99"]}},
            "spec.podCIDRs is '10.244.0.0/99', expected networks such as 10.244.1.0/24",
        ),
        (
            {"status": {"addresses": [{"type": "InternalIP", "address": "n1"}]}},
            "status.addresses is 'n1', expected an IPv4 or IPv6 address",
        ),
    ],
)
def test_a_broken_node(change: dict[str, Any], message: str) -> None:
    built = cluster([{**objects.node(), **change}, *GOOD])
    assert built.problems == {("Node", NODE): (f"Node {NODE}: {message}",)}
    assert servers(built.state()) == GOOD_SERVER
    built.put(objects.node())
    assert built.problems == {}


def test_other_nodes_are_ignored() -> None:
    built = cluster([{**objects.node("other"), "spec": {"podCIDRs": ["?"]}}])
    assert built.problems == {}
    assert built.node is None


def test_node_cidr_without_pod_cidrs_is_a_problem() -> None:
    built = cluster([], config=Config(detect_local_mode="NodeCIDR"))
    ((message,),) = built.problems.values()
    assert message.startswith(f"Node {NODE}: spec.podCIDRs is [], expected the node's networks")
    built.put(objects.node(pod_cidrs=["10.244.1.0/24"]))
    assert built.problems == {}


OLD, NEW, NEWEST = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))


def claimant(name: str, ip: str, created: str, node_port: int = 3001) -> dict[str, Any]:
    return service(name, [ip], [port(node_port=node_port)], kind="NodePort", creationTimestamp=created)


def owners(built: Cluster) -> dict[str, list[str]]:
    return {key: reals for key, reals in servers(built.state()).items() if key.endswith(":3001")}


def test_two_services_want_one_node_port() -> None:
    """The older Service is the holder. The other is reported once, for any number of addresses, and inherits."""
    slices = [piece(name, [endpoint(f"10.180.0.{n}")]) for n, name in enumerate(("a", "b", "c"), 1)]
    new, old, newest = (
        claimant("a", "10.0.0.1", NEW),
        claimant("b", "10.0.0.2", OLD),
        claimant("c", "10.0.0.3", NEWEST),
    )
    built = cluster([new, *slices], node("10.99.0.11", "10.99.0.12"))
    assert set(map(tuple, owners(built).values())) == {("10.180.0.1:80",)}
    built.put(newest)
    built.put(old)
    assert set(map(tuple, owners(built).values())) == {("10.180.0.2:80",)}
    assert built.problems == {
        ("Service", f"ns1/{name}"): (
            f"Service ns1/{name}: spec.ports[0].nodePort is 'tcp 3001', "
            "expected a node port that no other Service holds (Service ns1/b does, by spec.ports[0].nodePort)",
        )
        for name in ("a", "c")
    }
    assert len(servers(built.state())) == 5
    assert members(built.state(), "KUBE-NODE-PORT-TCP") == ["3001"]
    built.remove("Service", "ns1", "b")
    assert set(map(tuple, owners(built).values())) == {("10.180.0.1:80",)}
    assert list(built.problems) == [("Service", "ns1/c")]
    built.put(claimant("a", "10.0.0.1", NEW, 3002))
    assert set(map(tuple, owners(built).values())) == {("10.180.0.3:80",)}
    assert built.problems == {}
    assert members(built.state(), "KUBE-NODE-PORT-TCP") == ["3001", "3002"]


def test_name_decides_between_services_of_one_age() -> None:
    built = cluster([claimant("b", "10.0.0.2", OLD), claimant("a", "10.0.0.1", OLD)], node("10.99.0.11"))
    assert list(built.problems) == [("Service", "ns1/b")]


def test_recreated_service_is_the_youngest() -> None:
    built = cluster([claimant("a", "10.0.0.1", OLD), claimant("b", "10.0.0.2", NEW)], node("10.99.0.11"))
    assert list(built.problems) == [("Service", "ns1/b")]
    built.put(claimant("a", "10.0.0.1", NEWEST))
    assert list(built.problems) == [("Service", "ns1/a")]


def test_two_services_want_one_external_address_and_port() -> None:
    objects = [
        service("a", ["10.0.0.1"], externalIPs=["50.60.70.81"], externalTrafficPolicy="Local", creationTimestamp=NEW),
        service("b", ["10.0.0.2"], externalIPs=["50.60.70.81"], creationTimestamp=OLD),
    ]
    built = cluster(objects)
    assert built.problems == {
        ("Service", "ns1/a"): (
            "Service ns1/a: spec.externalIPs is 'tcp 50.60.70.81:80', "
            "expected an address and port that no other Service holds (Service ns1/b does, by spec.externalIPs)",
        )
    }
    assert members(built.state(), "KUBE-EXTERNAL-IP") == ["50.60.70.81,tcp:80"]
    assert members(built.state(), "KUBE-EXTERNAL-IP-LOCAL") == []
    built.remove("Service", "ns1", "b")
    assert members(built.state(), "KUBE-EXTERNAL-IP") == []
    assert members(built.state(), "KUBE-EXTERNAL-IP-LOCAL") == ["50.60.70.81,tcp:80"]


def test_one_health_check_port_for_two_services() -> None:
    given = {"kind": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000}
    built = cluster(
        [
            service("a", ["10.0.0.1"], creationTimestamp=NEW, **given),
            service("b", ["10.0.0.2"], creationTimestamp=OLD, **given),
        ]
    )
    assert built.health_checks()[30000].name == "b"
    built.remove("Service", "ns1", "b")
    assert built.health_checks()[30000].name == "a"
    assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == ["30000"]
