# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocation of an address that several Services claim.

Class ranks before age, and an earlier claim before an older Service.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import cluster, node, servers

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.service_vips import Origin
from kubenode.engine.desired.settings import Config
from kubenode.engine.model.ipvs import VirtualServerKey

OLD, NEW, NEWEST = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))
SHARED = "203.0.113.7"
KEY = VirtualServerKey("tcp", SHARED, 80, 4)
PODS = {"attacker": "10.180.0.66", "victim": "10.180.0.1", "third": "10.180.0.3"}
SLICES = [piece(name, [endpoint(ip)]) for name, ip in PODS.items()]
ALLOWED = Config(allowed_external_ips=("0.0.0.0/0", "10.99.0.11/32"))


def attacker(*external_ips: str, created: str = OLD, ports: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return service("attacker", ["10.0.0.66"], ports, externalIPs=list(external_ips), creationTimestamp=created)


def victim(*external_ips: str, created: str = NEW) -> dict[str, Any]:
    return service("victim", ["10.0.0.1"], externalIPs=list(external_ips), creationTimestamp=created)


def balancer(ip: str, created: str = NEW) -> dict[str, Any]:
    return service("victim", ["10.0.0.1"], kind="LoadBalancer", ingress=[{"ip": ip}], creationTimestamp=created)


def answering(built: Cluster, key: str) -> list[str]:
    return servers(built.state())[key]


def test_older_service_with_external_ip_takes_no_cluster_ip() -> None:
    """An attack in which an older Service names another Service's cluster IP."""
    for objects in permutations([attacker("10.0.0.1"), victim()]):
        built = cluster([*objects, *SLICES])
        assert answering(built, "tcp 10.0.0.1:80") == ["10.180.0.1:80"]
        assert built.problems == {
            ("Service", "ns1/attacker"): (
                (
                    "Service ns1/attacker: spec.externalIPs is 'tcp 10.0.0.1:80', expected an address and port that no"
                    " other Service holds (Service ns1/victim does, by spec.clusterIPs)"
                ),
            )
        }
        assert built.contested() == {**dict.fromkeys(Origin, 0), Origin.EXTERNAL_IP: 1}


def test_cluster_ip_takes_an_address_that_an_external_ip_holds() -> None:
    built = cluster([attacker("10.0.0.1"), *SLICES])
    built.take()
    assert answering(built, "tcp 10.0.0.1:80") == ["10.180.0.66:80"]
    built.put(victim())
    assert answering(built, "tcp 10.0.0.1:80") == ["10.180.0.1:80"]
    built.remove("Service", "ns1", "victim")
    assert answering(built, "tcp 10.0.0.1:80") == ["10.180.0.66:80"]


def test_node_port_ranks_before_an_older_external_ip_of_the_node() -> None:
    ports = [port(80, "p80", node_port=30001)]
    taken = attacker("10.99.0.11", ports=[{**port(30001, "p80"), "targetPort": 80}])
    given = service("victim", ["10.0.0.1"], ports, kind="NodePort", creationTimestamp=NEW)
    for objects in permutations([taken, given]):
        built = cluster([*objects, *SLICES], node("10.99.0.11"), ALLOWED)
        assert answering(built, "tcp 10.99.0.11:30001") == ["10.180.0.1:80"]


def test_load_balancer_address_ranks_before_an_older_external_ip() -> None:
    for objects in permutations([attacker(SHARED), balancer(SHARED)]):
        assert answering(cluster([*objects, *SLICES]), f"tcp {SHARED}:80") == ["10.180.0.1:80"]


def test_older_service_that_claims_later_does_not_take_over() -> None:
    built = cluster([attacker(), victim(SHARED), *SLICES])
    built.take()
    built.put(attacker(SHARED))
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.1:80"]
    assert list(built.problems) == [("Service", "ns1/attacker")]
    built.put(victim())  # a Service that gives a claim up and repeats it ranks behind the waiting one
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.66:80"]
    built.put(victim(SHARED))
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.66:80"]


def test_claims_of_one_turn_are_ranked_by_age_in_any_order() -> None:
    claims = [
        attacker(SHARED, created=NEW),
        victim(SHARED, created=OLD),
        service("third", ["10.0.0.3"], externalIPs=[SHARED], creationTimestamp=NEWEST),
    ]
    for objects in permutations(claims):
        built = cluster([*objects, *SLICES])
        assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.1:80"]
        built.take()
        built.remove("Service", "ns1", "victim")
        assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.66:80"]


def test_first_waiting_service_inherits_at_any_age() -> None:
    built = cluster([victim(SHARED), *SLICES])
    built.take()
    built.put(service("third", ["10.0.0.3"], externalIPs=[SHARED], creationTimestamp=NEWEST))
    built.take()
    built.put(attacker(SHARED))
    built.take()
    built.remove("Service", "ns1", "victim")
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.3:80"]


@pytest.mark.parametrize("settled", [False, True])
def test_restarted_agent_leaves_an_address_with_its_holder(settled: bool) -> None:
    """The holders come from the earlier agent's notes, whether or not the state was computed before."""
    before = cluster([attacker(), victim(SHARED), *SLICES])
    before.take()
    assert before.take_holders() == {KEY: ("ns1", "victim")}
    before.put(attacker(SHARED))
    before.take()
    assert before.take_holders() == {}
    after = cluster([attacker(SHARED), victim(SHARED), *SLICES])
    if settled:
        assert answering(after, f"tcp {SHARED}:80") == ["10.180.0.66:80"]
    after.resume({KEY: ("ns1", "victim")})
    assert answering(after, f"tcp {SHARED}:80") == ["10.180.0.1:80"]
    after.take()
    assert after.take_holders() == {}


def test_remembered_holders_follow_and_are_forgotten() -> None:
    built = cluster([attacker(), victim(), *SLICES])
    built.resume({KEY: ("ns1", "gone")})
    built.take()
    assert built.take_holders() == {KEY: None}
    built.put(attacker(SHARED))
    assert built.take_holders() == {KEY: ("ns1", "attacker")}
    built.put(balancer(SHARED))
    assert built.take_holders() == {KEY: ("ns1", "victim")}
    built.put(service("third", [SHARED]))  # a cluster IP needs no saved holder
    assert built.take_holders() == {KEY: None}
    built.remove("Service", "ns1", "third")
    built.remove("Service", "ns1", "victim")
    built.remove("Service", "ns1", "attacker")
    assert built.take_holders() == {}


def test_claim_that_changes_its_class_competes_anew() -> None:
    built = cluster([balancer(SHARED), attacker(SHARED), *SLICES])
    built.take()
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.1:80"]
    built.put(victim(SHARED))  # from load balancer address to external IP of the same holder
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.1:80"] or answering(built, f"tcp {SHARED}:80") == [
        "10.180.0.66:80"
    ]
    built.put(attacker(SHARED, created=OLD))
    built.put({**attacker(SHARED), "status": {"loadBalancer": {"ingress": [{"ip": SHARED}]}}})
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.66:80"]
    built.put(attacker(SHARED))
    built.put(balancer(SHARED))
    assert answering(built, f"tcp {SHARED}:80") == ["10.180.0.1:80"]
