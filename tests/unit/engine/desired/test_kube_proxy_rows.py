# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of the manual comparison with kube-proxy 1.36.2; the numbers of the tests are those of its rows.

Base: Service ns1/svc1 10.20.30.41, port p80 TCP 80, and one IPv4 slice.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters import objects
from support.clusters.objects import endpoint, piece, service
from support.kube_proxy.wanted import NODE, cluster, members, node, servers

from kubenode.engine.desired.node_addresses import node_addresses, node_port_addresses
from kubenode.engine.desired.settings import Config

BASE = {"tcp 10.20.30.41:80": ["10.180.0.1:80"]}
ENDPOINTS = piece(endpoints=[endpoint("10.180.0.1")])
BALANCER: dict[str, Any] = {"kind": "LoadBalancer", "ingress": [{"ip": "1.2.3.4"}]}
DUAL: dict[str, Any] = {"cluster_ips": ["10.20.30.41", "fd00::41"], "ipFamilies": ["IPv4", "IPv6"]}
SERVICE = ("Service", "ns1/svc1")


def read_as(value: str, meaning: str) -> str:
    return f"has {value!r}, which is read as {meaning} (write it like that)"


def test_o16b_headless_label_of_a_service_is_ignored() -> None:
    built = cluster([service(labels={"service.kubernetes.io/headless": ""}), ENDPOINTS])
    assert servers(built.state()) == BASE
    assert built.problems == {}


def test_o16c_proxy_name_of_a_slice_does_not_count() -> None:
    named = piece(endpoints=[endpoint("10.180.0.1")], labels={"service.kubernetes.io/service-proxy-name": "x"})
    built = cluster([service(), named])
    assert servers(built.state()) == BASE
    assert built.problems == {}


@pytest.mark.parametrize(
    ("primary", "four", "six"),
    [(("10.99.0.11",), ["10.99.0.11"], []), (("fd00:99::11",), [], ["fd00:99::11"]), ((), [], [])],
    ids=["o17b", "o17b-ipv6", "o17h"],
)
def test_o17_primary_without_a_primary_address_serves_none(
    primary: tuple[str, ...], four: list[str], six: list[str]
) -> None:
    """A deliberate difference: kube-proxy serves every address of such a family."""
    facts = node("10.99.0.11", "10.99.0.12", "fd00:99::11")._replace(node_ips=primary)
    ports = [objects.port(node_port=30080)]
    made = service(kind="NodePort", ports=ports, **DUAL)
    state = cluster([made], facts, Config(node_port_addresses=("primary",))).state()
    for family, wanted in ((4, four), (6, six)):
        addresses = {key.address for key in state["virtual_server"] if key.family == family and key.port == 30080}
        assert addresses == set(wanted)


@pytest.mark.parametrize("more", [{}, DUAL], ids=["o21a", "o21h"])
def test_o21_mapped_external_address_is_ipv4(more: dict[str, Any]) -> None:
    built = cluster([service(externalIPs=["::ffff:5.6.7.8"], **more), ENDPOINTS])
    assert servers(built.state()) == {**BASE, "tcp 5.6.7.8:80": ["10.180.0.1:80"]}
    assert "tcp [::ffff:5.6.7.8]:80" not in servers(built.state(), 6)
    assert built.warnings == {SERVICE: (f"Service ns1/svc1: spec.externalIPs {read_as('::ffff:5.6.7.8', '5.6.7.8')}",)}
    assert built.problems == {}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("005.006.007.008", "5.6.7.8"),
        ("010.1.1.1", "10.1.1.1"),
        ("0000000010.1.1.00", "10.1.1.0"),
        ("::ffff:005.6.7.8", "5.6.7.8"),
        ("::FFFF:506:708", "5.6.7.8"),
    ],
)
def test_o21b_padded_external_address_is_decimal(given: str, wanted: str) -> None:
    built = cluster([service(externalIPs=[given]), ENDPOINTS])
    assert servers(built.state()) == {**BASE, f"tcp {wanted}:80": ["10.180.0.1:80"]}
    assert built.warnings == {SERVICE: (f"Service ns1/svc1: spec.externalIPs {read_as(given, wanted)}",)}


@pytest.mark.parametrize("given", ["010.020.030.041", "::ffff:10.20.30.41"])
@pytest.mark.parametrize("families", [{}, {"ipFamilies": ["IPv4"]}], ids=["no-families", "families"])
def test_o21c_padded_cluster_ip_is_served(given: str, families: dict[str, Any]) -> None:
    built = cluster([service(cluster_ips=[given], **families), ENDPOINTS])
    assert servers(built.state()) == BASE
    assert built.warnings == {SERVICE: (f"Service ns1/svc1: spec.clusterIPs {read_as(given, '10.20.30.41')}",)}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("010.001.000.000/16", "10.1.0.0/16"),
        ("10.1.0.0/016", "10.1.0.0/16"),
        ("::ffff:10.1.0.0/112", "10.1.0.0/16"),
        ("::ffff:10.1.2.3/112", "10.1.0.0/16"),
    ],
)
def test_o21d_padded_source_range_is_decimal(given: str, wanted: str) -> None:
    built = cluster([service(**BALANCER, loadBalancerSourceRanges=[given])])
    assert members(built.state(), "KUBE-LOAD-BALANCER-SOURCE-CIDR") == [f"1.2.3.4,tcp:80,{wanted}"]
    assert members(built.state(), "KUBE-LOAD-BALANCER-FW") == ["1.2.3.4,tcp:80"]
    assert built.warnings == {SERVICE: (f"Service ns1/svc1: spec.loadBalancerSourceRanges {read_as(given, wanted)}",)}


@pytest.mark.parametrize("given", ["010.180.000.001", "::ffff:10.180.0.1"], ids=["o21e", "o21f"])
def test_o21_padded_endpoint_is_served(given: str) -> None:
    built = cluster([service(), piece(endpoints=[endpoint(given)])])
    assert servers(built.state()) == BASE
    (warning,) = built.warnings["EndpointSlice", "ns1/svc1-4"]
    assert warning == f"EndpointSlice ns1/svc1-4: endpoints[0].addresses[0] {read_as(given, '10.180.0.1')}"


def test_o21_padded_ipv6_endpoint_is_served() -> None:
    six = piece(endpoints=[endpoint("fd00::00001")], family=6)
    built = cluster([service(cluster_ips=["fd00::41"]), six])
    assert servers(built.state(), 6) == {"tcp [fd00::41]:80": ["[fd00::1]:80"]}


def test_o21_mapped_endpoint_of_an_ipv6_slice_is_left_out() -> None:
    built = cluster([service(cluster_ips=["fd00::41"]), piece(endpoints=[endpoint("::ffff:10.180.0.1")], family=6)])
    assert servers(built.state(), 6) == {"tcp [fd00::41]:80": []}
    (problem,) = built.problems["EndpointSlice", "ns1/svc1-6"]
    assert problem.endswith("endpoints[0].addresses[0] is '::ffff:10.180.0.1', expected an IPv6 address")


def test_o21_padded_load_balancer_address_is_served() -> None:
    built = cluster([service(kind="LoadBalancer", ingress=[{"ip": "001.2.3.4"}, {"ip": " "}]), ENDPOINTS])
    assert servers(built.state()) == {**BASE, "tcp 1.2.3.4:80": ["10.180.0.1:80"]}
    path = "Service ns1/svc1: status.loadBalancer.ingress"
    assert set(built.warnings[SERVICE]) == {
        f"{path} {read_as('001.2.3.4', '1.2.3.4')}",
        f"{path} has 1 blank entry, skipped",
    }


def test_o21g_blank_external_addresses_are_skipped() -> None:
    built = cluster([service(externalIPs=["", "5.6.7.8", " "]), ENDPOINTS])
    assert servers(built.state()) == {**BASE, "tcp 5.6.7.8:80": ["10.180.0.1:80"]}
    assert built.warnings == {SERVICE: ("Service ns1/svc1: spec.externalIPs has 2 blank entries, skipped",)}
    assert built.problems == {}


def test_o21i_blank_source_range_is_skipped() -> None:
    built = cluster([service(**BALANCER, loadBalancerSourceRanges=["", "192.0.2.0/24"])])
    assert members(built.state(), "KUBE-LOAD-BALANCER-SOURCE-CIDR") == ["1.2.3.4,tcp:80,192.0.2.0/24"]
    assert built.warnings == {SERVICE: ("Service ns1/svc1: spec.loadBalancerSourceRanges has 1 blank entry, skipped",)}


@pytest.mark.parametrize(
    "ranges",
    [
        [""],
        [" ", ""],
        ["192.0.2.0"],
        ["192.0.2.0/24", "x"],
        ["192.0.2.0/-1"],
        ["192.0.2.0/24/24"],
        ["0x10.0.0.0/8"],
        [None],
    ],
    ids=["blank", "blanks", "address", "one of two", "negative", "two lengths", "hexadecimal", "null"],
)
def test_unreadable_source_ranges_admit_no_client(ranges: list[Any]) -> None:
    """A Service with unreadable ranges has no load balancer address at all.

    A Service without ranges lets every client in.
    """
    built = cluster([service(**BALANCER, loadBalancerSourceRanges=ranges), ENDPOINTS])
    (problem,) = built.problems[SERVICE]
    assert problem.startswith("Service ns1/svc1: spec.loadBalancerSourceRanges")
    assert servers(built.state()) == {}
    assert members(built.state(), "KUBE-LOAD-BALANCER") == []


def test_blank_cluster_ip_costs_only_its_family() -> None:
    built = cluster([service(cluster_ips=["10.20.30.41", ""], ipFamilies=["IPv4", "IPv6"]), ENDPOINTS])
    assert servers(built.state()) == BASE
    assert servers(built.state(), 6) == {}
    assert built.warnings == {SERVICE: ("Service ns1/svc1: spec.clusterIPs has 1 blank entry, skipped",)}


@pytest.mark.parametrize("given", ["010.099.000.011", "::ffff:10.99.0.11"])
def test_padded_addresses_of_a_node_are_its_primary_ones(given: str) -> None:
    built = cluster([objects.node(addresses=["", given, "fd00:99::11"], pod_cidrs=["010.244.1.0/24"])])
    assert built.node is not None
    assert built.node.addresses == ("10.99.0.11", "fd00:99::11")
    assert built.node.pod_cidrs == ("10.244.1.0/24",)
    assert set(built.warnings["Node", NODE]) == {
        f"Node {NODE}: status.addresses has 1 blank entry, skipped",
        f"Node {NODE}: status.addresses {read_as(given, '10.99.0.11')}",
        f"Node {NODE}: spec.podCIDRs {read_as('010.244.1.0/24', '10.244.1.0/24')}",
    }
    assert built.problems == {}


def test_p42_mapped_address_of_a_link_is_ipv4() -> None:
    addresses = (("eth0", "::ffff:169.254.0.0"), ("eth0", "::ffff:8.8.8.8"))
    assert node_addresses(4, addresses) == ("169.254.0.0", "8.8.8.8")
    assert node_addresses(6, addresses) == ()
    assert node_port_addresses(4, addresses, ("8.8.8.0/24",), ()) == ("8.8.8.8",)
    assert node_port_addresses(6, addresses, ("::/0",), ()) == ()


def test_warnings_end_with_their_object() -> None:
    built = cluster([service(externalIPs=["005.6.7.8"])])
    assert list(built.warnings) == [SERVICE]
    built.put(service(externalIPs=["5.6.7.8"]))
    assert built.warnings == {}
    built.put(service(externalIPs=["005.6.7.8"]))
    built.remove("Service", "ns1", "svc1")
    assert built.warnings == {}


@pytest.mark.parametrize(("local_name", "count"), [("p80", 1), ("other", 0)])
def test_o36_health_check_counts_endpoints_that_serve_the_port(local_name: str, count: int) -> None:
    """A deliberate difference: kube-proxy counts local endpoints of any port name; the node port never leads there."""
    made = service(
        kind="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30000, ingress=[{"ip": "1.2.3.4"}]
    )
    ends = piece(endpoints=[endpoint("10.180.0.1", NODE)], ports=[{"name": local_name, "protocol": "TCP", "port": 80}])
    built = cluster([made, ends])
    assert built.health_checks()[30000].local_endpoints == {4: count}
