# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go) as data: health check node ports of load balancers."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.cases import (
    local_balancer,
)
from support.kube_proxy.wanted import NODE, cluster, members, node


def test_health_check_node_port() -> None:
    built = cluster([local_balancer(30000)])
    for number in (30000, 30001):
        built.put(local_balancer(number))
        assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == [str(number)]
        assert members(built.state(), "KUBE-6-HEALTH-CHECK-NODE-PORT") == []
    built.remove("Service", "ns1", "svc1")
    assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []


@pytest.mark.parametrize(
    "change",
    [{"kind": "NodePort"}, {"externalTrafficPolicy": "Cluster"}, {"healthCheckNodePort": 0}],
    ids=["no load balancer", "not local", "no port"],
)
def test_health_check_node_port_only_where_it_is_honoured(change: dict[str, Any]) -> None:
    given = {"kind": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000, **change}
    built = cluster([service(**given)])
    assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []
    assert built.health_checks() == {}


def test_no_health_check_entry_when_a_node_port_finds_no_address() -> None:
    """kube-proxy, too, skips to the next service port there."""
    obj = service(
        ports=[port(node_port=3001)], kind="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30000
    )
    assert members(cluster([obj]).state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []
    assert members(cluster([obj], node("100.101.102.103")).state(), "KUBE-HEALTH-CHECK-NODE-PORT") == ["30000"]


def test_health_check_counts_local_ready_endpoints() -> None:
    unnamed = [{"name": "", "protocol": "TCP", "port": 80}]
    before = [
        endpoint("10.0.1.1", NODE, ready=True),
        endpoint("10.0.1.2", NODE, ready=True),
        endpoint("10.0.1.3", ready=True),
        endpoint("10.0.1.4", NODE, ready=False),
    ]
    after = [
        endpoint("10.0.1.1", NODE, ready=False, serving=True, terminating=False),
        endpoint("10.0.1.2", NODE, ready=False, serving=True, terminating=True),
        endpoint("10.0.1.3", NODE, ready=False, serving=True, terminating=True),
        endpoint("10.0.1.4", NODE, ready=False, serving=False, terminating=True),
    ]
    built = cluster([local_balancer(30000), piece(endpoints=before, ports=unnamed)])
    assert built.health_checks()[30000].local_endpoints == {4: 2}
    built.put(piece(endpoints=after, ports=unnamed))
    assert built.health_checks()[30000].local_endpoints == {4: 0}
