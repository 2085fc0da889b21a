# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go) as data: which Services are served, and how.

Services appear, change and disappear during the tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.cases import (
    ONE,
    V4,
    balancer,
)
from support.kube_proxy.wanted import NODE, cluster, members, node, servers

from kubenode.engine.desired.settings import Config


def test_a_service_in_each_family() -> None:
    state = cluster(
        [
            service("svc1"),
            service("svc2", ["1002:ab8::2:1"], [port(8080, "p8080")], namespace="ns2"),
            V4,
            piece(
                "svc2",
                [endpoint("1009:ab8::5:6")],
                [{"name": "p8080", "protocol": "TCP", "port": 8080}],
                namespace="ns2",
                family=6,
            ),
        ]
    ).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ONE}
    assert servers(state, 6) == {"tcp [1002:ab8::2:1]:8080": ["[1009:ab8::5:6]:8080"]}


SOMEWHERE = [
    service(
        "cluster-ip",
        ["172.16.55.4"],
        [port(1234, "something", "UDP"), port(1235, "somethingelse", "UDP"), port(1236, "somesctp", "SCTP")],
        namespace="somewhere-else",
    ),
    service(
        "node-port",
        ["172.16.55.10"],
        [port(345, "blahblah", "UDP", 678), port(344, "moreblahblah", "TCP", 677), port(343, "sctpblah", "SCTP", 676)],
        namespace="somewhere-else",
        kind="NodePort",
    ),
    service(
        "load-balancer",
        ["172.16.55.11"],
        [port(8675, "foobar", "UDP", 30061), port(8676, "baz", "UDP", 30062), port(8677, "sctpfoo", "SCTP", 30063)],
        namespace="somewhere",
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.4"}],
    ),
    service(
        "only-local-load-balancer",
        ["172.16.55.12"],
        [port(8677, "foobar2", "UDP", 30063), port(8678, "baz", "UDP", 30064), port(8679, "sctpbaz", "SCTP", 30065)],
        namespace="somewhere",
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.3"}],
        externalTrafficPolicy="Local",
        healthCheckNodePort=345,
    ),
]


def test_services_are_added_and_removed() -> None:
    built = cluster(SOMEWHERE)
    assert len(members(built.state(), "KUBE-CLUSTER-IP")) == 12
    (check,) = built.health_checks().values()
    assert (check.namespace, check.name, check.port) == ("somewhere", "only-local-load-balancer", 345)
    built.put(service("cluster-ip", ["172.16.55.4"], [port(1235, "somethingelse", "UDP")], namespace="somewhere-else"))
    for namespace, name in (
        ("somewhere-else", "node-port"),
        ("somewhere", "load-balancer"),
        ("somewhere", "only-local-load-balancer"),
    ):
        built.remove("Service", namespace, name)
    assert servers(built.state()) == {"udp 172.16.55.4:1235": []}
    assert built.health_checks() == {}
    built.remove("Service", "somewhere-else", "cluster-ip")
    empty = cluster([]).state()
    assert built.state() == empty


@pytest.mark.parametrize(
    "obj",
    [
        service(cluster_ips=["None"], ports=[port(1234, "rpc", "UDP")]),
        service(cluster_ips=["None"], ports=[]),
        service(cluster_ips=["None"], ports=[port(1235, "sip", "SCTP")]),
        service(
            cluster_ips=["172.16.55.4"],
            kind="ExternalName",
            ports=[port(1235, protocol="UDP")],
            externalName="foo2.bar.com",
        ),
        service(labels={"service.kubernetes.io/service-proxy-name": "other"}),
        service(labels={"service.kubernetes.io/service-proxy-name": ""}),
    ],
    ids=[
        "headless",
        "headless without ports",
        "headless SCTP",
        "ExternalName",
        "another proxy's",
        "label without value",
    ],
)
def test_services_of_other_proxies_are_ignored(obj: dict[str, Any]) -> None:
    built = cluster([obj, V4], node("100.101.102.103"))
    assert built.state() == cluster([], node("100.101.102.103")).state()
    assert built.problems == {}


def test_service_changes_type_to_load_balancer_and_back() -> None:
    two = [port(1234, "something", "UDP"), port(1235, "somethingelse", "TCP")]
    plain = service(cluster_ips=["172.16.55.4"], ports=two)
    local = service(
        cluster_ips=["172.16.55.4"],
        ports=two,
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.3"}],
        externalTrafficPolicy="Local",
        healthCheckNodePort=345,
    )
    built = cluster([])
    for obj, checks in ((plain, []), (local, [345]), (local, [345]), (plain, [])):
        built.put(obj)
        assert len(members(built.state(), "KUBE-CLUSTER-IP")) == 2
        assert list(built.health_checks()) == checks
        assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == [str(number) for number in checks]


def test_one_address_for_all_ports() -> None:
    one = [port(1234, "a")]
    two = [*one, port(1235, "b")]
    three = [*two, port(1236, "c", "UDP")]
    built = cluster([])
    for wanted in (two, one, three):
        built.put(service(cluster_ips=["172.16.55.4"], ports=wanted))
        assert [key.address for key in built.state()["address"]] == ["172.16.55.4"]
    built.remove("Service", "ns1", "svc1")
    assert built.state()["address"] == {}


@pytest.mark.parametrize(("seconds", "wanted"), [(None, 10800), (60, 60)])
def test_affinity_sets_the_persistence_timeout(seconds: int | None, wanted: int) -> None:
    config = {} if seconds is None else {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}
    obj = balancer(sessionAffinity="ClientIP", externalIPs=["50.60.70.81"], **config)
    state = cluster([obj], node("100.101.102.103")).state()
    assert len(state["virtual_server"]) == 4
    assert {(value.flags, value.timeout, value.netmask) for value in state["virtual_server"].values()} == {
        (1, wanted, 32)
    }


@pytest.mark.parametrize(("scheduler", "flags"), [("mh", 0x10), ("sh", 0), ("wrr", 0)])
def test_scheduler_follows_the_settings(scheduler: str, flags: int) -> None:
    six = service("svc6", ["2020::1"], sessionAffinity="ClientIP")
    state = cluster([service(), six], config=Config(scheduler=scheduler)).state()
    servers = {key.family: value for key, value in state["virtual_server"].items()}
    assert (servers[4].scheduler, servers[4].flags, servers[4].netmask) == (scheduler, flags, 32)
    assert (servers[6].scheduler, servers[6].flags, servers[6].netmask) == (scheduler, flags | 1, 128)


def test_addresses_are_canonical() -> None:
    objects = [
        service(cluster_ips=["FD00:0:0::00AB"], externalIPs=["2001:0DB8:0000:0000:0202:B3FF:FE1E:8329"]),
        piece(endpoints=[endpoint("FD00:0:0::0001", NODE)], family=6),
    ]
    state = cluster(objects).state()
    assert servers(state, 6) == {
        "tcp [fd00::ab]:80": ["[fd00::1]:80"],
        "tcp [2001:db8::202:b3ff:fe1e:8329]:80": ["[fd00::1]:80"],
    }
    assert members(state, "KUBE-6-LOOP-BACK") == ["fd00::1,tcp:80,fd00::1"]
    assert members(state, "KUBE-6-EXTERNAL-IP") == ["2001:db8::202:b3ff:fe1e:8329,tcp:80"]
