# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of an event: the work of one Service, for any number of Services.

The tests count calls, and measure no time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import cluster, node

from kubenode.engine.desired.cluster import Cluster


def built(size: int) -> Cluster:
    objects: list[dict[str, Any]] = []
    for index in range(size):
        name = f"s{index}"
        objects.append(
            service(
                name,
                [f"10.96.{index >> 8}.{index & 255}"],
                [port(80, node_port=20000 + index)],
                kind="NodePort" if index == 7 or index % 2 else "LoadBalancer",
                externalIPs=["203.0.113.1"] if index == 7 else [],
                externalTrafficPolicy="Cluster" if index == 7 else "Local",
                healthCheckNodePort=10000 + index,
            )
        )
        objects.append(piece(name, [endpoint(f"10.244.{index >> 8}.{index & 255}")]))
    result = cluster(objects, node("10.99.0.11"))
    result.take()
    assert len(result.health_checks()) == size // 2
    assert result.no_local_endpoints()[4, "external"] == size - 1
    return result


def add_endpoint(target: Cluster) -> None:
    target.put(piece("s7", [endpoint("10.244.0.7"), endpoint("10.245.0.1")]))


def claim(target: Cluster) -> None:
    target.put(service("new", ["10.97.0.1"], [port(80, node_port=20007)], kind="NodePort", externalIPs=["203.0.113.1"]))


def remove(target: Cluster) -> None:
    target.remove("Service", "ns1", "s7")


def become_balancer(target: Cluster) -> None:
    given = {"ingress": [{"ip": "1.2.3.4"}], "loadBalancerSourceRanges": ["192.0.2.0/24"], "kind": "LoadBalancer"}
    target.put(service("s7", ["10.96.0.7"], [port(80, node_port=20007)], **given))


def nothing(target: Cluster) -> None:
    target.put(piece("s7", [endpoint("10.244.0.7")]))


def calls(target: Cluster, event: Callable[[Cluster], None]) -> tuple[int, dict[str, int]]:
    """Return the calls (of Python and C functions) of an event with its result, and the size of the result."""
    count = 0

    def profile(_frame: Any, what: str, _argument: Any) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    sys.setprofile(profile)
    try:
        event(target)
        changes = target.take()
        target.health_checks()
        target.no_local_endpoints()
    finally:
        sys.setprofile(None)
    return count, {kind: len(items) for kind, items in changes.items()}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (add_endpoint, {"real_server": 3}),
        (claim, {"virtual_server": 1, "address": 1, "member": 2}),
        (remove, {"virtual_server": 3, "real_server": 3, "address": 2, "member": 5, "chain": 1}),
        (become_balancer, {"virtual_server": 2, "real_server": 2, "address": 2, "member": 6, "chain": 4}),
        (nothing, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_event_costs_the_same_in_a_large_cluster(event: Callable[[Cluster], None], wanted: dict[str, int]) -> None:
    small, answer = calls(built(20), event)
    large, same = calls(built(1000), event)
    assert answer == same
    assert large == small
    assert {kind: answer.get(kind, 0) for kind in wanted} == wanted
