# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go) as data: real servers from EndpointSlices."""

from __future__ import annotations

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.cases import (
    ONE,
    V4,
)
from support.kube_proxy.wanted import NODE, cluster, members, servers


def test_endpoint_slice_end_to_end() -> None:
    unnamed = [{"name": "", "protocol": "TCP", "port": 80}]
    endpoints = [
        endpoint("10.0.1.1", NODE, ready=True),
        endpoint("10.0.1.2", "node2", ready=True),
        endpoint("10.0.1.3", "node3", ready=True),
        endpoint("10.0.1.4", "node3", ready=False),
    ]
    built = cluster(
        [service(cluster_ips=["172.20.1.1"], ports=[port(80, "")]), piece(endpoints=endpoints, ports=unnamed)]
    )
    assert members(built.state(), "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]
    assert servers(built.state()) == {"tcp 172.20.1.1:80": ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"]}
    built.remove("EndpointSlice", "ns1", "svc1-4")
    assert members(built.state(), "KUBE-LOOP-BACK") == []
    assert servers(built.state()) == {"tcp 172.20.1.1:80": []}


def test_loop_back_has_local_endpoints_that_are_not_ready() -> None:
    built = cluster([service(), piece(endpoints=[endpoint("10.0.1.1", NODE, ready=False, serving=False)])])
    assert members(built.state(), "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]
    assert servers(built.state()) == {"tcp 10.20.30.41:80": []}


def test_duplicate_endpoints_across_slices_count_once() -> None:
    objects = [
        service(),
        piece(endpoints=[endpoint("10.0.1.1", "node2"), endpoint("10.0.1.2")], name="one"),
        piece(endpoints=[endpoint("10.0.1.1", NODE), endpoint("10.0.1.2")], name="two"),
        piece(endpoints=[endpoint("10.0.1.1")], ports=[{"name": "p80", "protocol": "TCP", "port": 81}], name="three"),
    ]
    state = cluster(objects).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ["10.0.1.1:80", "10.0.1.1:81", "10.0.1.2:80"]}
    # the slice that calls the endpoint local wins
    assert members(state, "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("a", "a")])
def test_new_pod_precedes_old_one_with_its_address(names: tuple[str, str]) -> None:
    """The network reuses an address as soon as a pod has ended; the old endpoint disappears later."""
    old = endpoint("10.0.1.1", NODE, ready=False, serving=False, terminating=True)
    new = endpoint("10.0.1.1", "node2")
    pieces = {name: piece(endpoints=[], name=name) for name in names}
    for name, endpoint_ in zip(names, (old, new), strict=True):
        pieces[name]["endpoints"].append(endpoint_)
    state = cluster([service(), *pieces.values()]).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ["10.0.1.1:80"]}
    assert members(state, "KUBE-LOOP-BACK") == []


def test_a_port_that_no_slice_names_has_no_real_servers() -> None:
    objects = [service(ports=[port(80, "p80"), port(81, "other")]), V4]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": ONE, "tcp 10.20.30.41:81": []}


@pytest.mark.parametrize("number", [None, 0])
def test_a_slice_may_leave_a_port_out(number: int | None) -> None:
    """A slice without a port means all ports, or none; its other ports are used."""
    ports = [{"name": "other", "protocol": "TCP", "port": number}, {"name": "p80", "protocol": "TCP", "port": 80}]
    objects = [service(ports=[port(80), port(81, "other")]), piece(endpoints=[endpoint("10.180.0.1")], ports=ports)]
    built = cluster(objects)
    assert servers(built.state()) == {"tcp 10.20.30.41:80": ONE, "tcp 10.20.30.41:81": []}
    assert built.problems == {}


def test_one_port_with_another_number_in_each_slice() -> None:
    old = piece(
        endpoints=[endpoint("10.180.0.1")], ports=[{"name": "p80", "protocol": "TCP", "port": 8080}], name="old"
    )
    new = piece(
        endpoints=[endpoint("10.180.0.2")], ports=[{"name": "p80", "protocol": "TCP", "port": 9090}], name="new"
    )
    assert servers(cluster([service(), old, new]).state()) == {
        "tcp 10.20.30.41:80": ["10.180.0.1:8080", "10.180.0.2:9090"]
    }


def test_slices_of_another_namespace_are_ignored() -> None:
    objects = [service(), piece(endpoints=[endpoint("10.180.0.1")], namespace="ns2")]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": []}


def test_slices_of_headless_services_are_ignored() -> None:
    objects = [service(), piece(endpoints=[endpoint("10.180.0.1")], labels={"service.kubernetes.io/headless": ""})]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": []}


def test_slices_of_host_names_are_ignored() -> None:
    built = cluster([service(), {**piece(endpoints=[endpoint("db.example.com")]), "addressType": "FQDN"}])
    assert servers(built.state()) == {"tcp 10.20.30.41:80": []}
    assert built.problems == {}
