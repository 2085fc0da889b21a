# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints that may answer a UDP flow: all serving endpoints, regardless of traffic policies, hints and readiness."""

from __future__ import annotations

from typing import Any

from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import NODE, cluster, node, servers

from kubenode.engine.model.ipvs import VirtualServerKey

UDP = [{"name": "p80", "protocol": "UDP", "port": 53}]
VIP = "udp 10.20.30.41:80"


def dns(**more: Any) -> dict[str, Any]:
    return service(ports=[port(80, "p80", "UDP", 3001)], kind="LoadBalancer", **more)


def ends(*endpoints: dict[str, Any]) -> dict[str, Any]:
    return piece(endpoints=list(endpoints), ports=UDP)


def told(flows: dict[VirtualServerKey, frozenset[tuple[str, int]]]) -> dict[str, list[str]]:
    return {str(key): sorted(ip for ip, _port in places) for key, places in flows.items()}


def test_every_service_address_has_all_serving_endpoints() -> None:
    local, remote = endpoint("10.0.0.1", NODE), endpoint("10.0.0.2", "other")
    dying = endpoint("10.0.0.3", "other", ready=False, serving=True, terminating=True)
    hinted = endpoint("10.0.0.4", "other", zones=["elsewhere"])
    dead = endpoint("10.0.0.5", NODE, ready=False, serving=False)
    given = {"ingress": [{"ip": "1.2.3.4"}], "externalIPs": ["50.60.70.81"]}
    objects = [dns(externalTrafficPolicy="Local", **given), ends(local, remote, dying, hinted, dead)]
    built = cluster(objects, node("10.99.0.11", zone="here"))
    serving = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]
    places = (VIP, "udp 50.60.70.81:80", "udp 1.2.3.4:80", "udp 10.99.0.11:3001")
    assert told(built.take_flows()) == dict.fromkeys(places, serving)
    assert servers(built.state())["udp 10.99.0.11:3001"] == ["10.0.0.1:53"]
    (all_serving,) = built.take_flows([VirtualServerKey("udp", "10.20.30.41", 80, 4)]).values()
    assert all_serving == frozenset((ip, 53) for ip in serving)


def test_flows_are_reported_only_when_they_change() -> None:
    one, two = endpoint("10.0.0.1", "other"), endpoint("10.0.0.2", NODE)
    built = cluster([dns(internalTrafficPolicy="Local", externalTrafficPolicy="Local"), ends(one, two)])
    assert told(built.take_flows()) == {VIP: ["10.0.0.1", "10.0.0.2"]}
    assert built.take_flows() == {}
    built.put(ends(two, one))
    assert built.take_flows() == {}
    # the endpoint was no real server, so none changes; its flow is stale all the same
    before = built.state()["real_server"]
    built.put(ends(two))
    assert told(built.take_flows()) == {VIP: ["10.0.0.2"]}
    assert built.state()["real_server"] == before


def test_flows_without_serving_endpoints_are_empty() -> None:
    """No other endpoint could answer, so flows stay."""
    built = cluster([dns(), ends(endpoint("10.0.0.1"))])
    built.put(ends(endpoint("10.0.0.1", ready=False, serving=False)))
    assert built.take_flows() == {}
    assert built.take_flows([VirtualServerKey("udp", "10.20.30.41", 80, 4)]) == {}
    built.put(ends(endpoint("10.0.0.2")))
    assert told(built.take_flows()) == {VIP: ["10.0.0.2"]}
    built.remove("Service", "ns1", "svc1")
    assert built.take_flows([VirtualServerKey("udp", "10.20.30.41", 80, 4)]) == {}


def test_other_protocols_have_no_flows() -> None:
    built = cluster([service(), piece(endpoints=[endpoint("10.0.0.1")])])
    assert built.take_flows([VirtualServerKey("tcp", "10.20.30.41", 80, 4)]) == {}


def test_the_service_that_has_the_address_decides() -> None:
    ports = [port(80, "p80", "UDP")]
    older = service("a", ["10.0.1.1"], ports, externalIPs=["50.60.70.81"], creationTimestamp="2026-01-01T00:00:00Z")
    younger = service("b", ["10.0.1.2"], ports, externalIPs=["50.60.70.81"], creationTimestamp="2026-01-02T00:00:00Z")
    slices = [piece(name, [endpoint(ip)], UDP) for name, ip in (("a", "10.0.0.1"), ("b", "10.0.0.2"))]
    built = cluster([younger, *slices])
    built.take_flows()
    built.put(older)
    shared = "udp 50.60.70.81:80"
    assert told(built.take_flows()) == {"udp 10.0.1.1:80": ["10.0.0.1"], shared: ["10.0.0.1"]}
    built.put(piece("b", [endpoint("10.0.0.3")], UDP))
    assert told(built.take_flows()) == {"udp 10.0.1.2:80": ["10.0.0.3"]}
    built.remove("Service", "ns1", "a")
    assert told(built.take_flows()) == {shared: ["10.0.0.3"]}
