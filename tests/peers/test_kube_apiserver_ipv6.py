# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real kube-apiserver that is reached by IPv6, in a cluster whose first family that is.

Run as test_kube_apiserver.py is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.agent.served import SLOW, address_port, problems, real_servers, start, virtual_servers
from support.clusters.cluster import Cluster, node, piece, service
from support.clusters.kube_apiserver import ROLE

from kubenode.manifests.documents import ObjectKey

pytestmark = pytest.mark.parametrize("only_api", ["::1"], indirect=True, scope="session")
FOUR, SIX = ["192.0.2.77:8080"], ["[2001:db8::77]:8080"]


def serve(cluster: Cluster, name: str, **spec: object) -> list[str]:
    """Make a Service with an endpoint in each family; return its addresses."""
    given = service(name)
    addresses: list[str] = cluster.create({**given, "spec": {**given["spec"], **spec}})["spec"]["clusterIPs"]
    for family, address in (("IPv4", "192.0.2.77"), ("IPv6", "2001:db8::77")):
        made = piece(name)
        made["metadata"]["name"] = f"{name}-{family.lower()}"
        cluster.create({**made, "addressType": family, "endpoints": [{"addresses": [address]}]})
    return addresses


def test_api_over_ipv6_and_dual_stack_is_followed(
    agent: AgentProcess, cluster: Cluster, users: dict[str, Path]
) -> None:
    six, four, both = cluster.names(3)
    (address6,) = serve(cluster, six)
    (address4,) = serve(cluster, four, ipFamilies=["IPv4"])
    dual6, dual4 = serve(cluster, both, ipFamilyPolicy="RequireDualStack")
    start(agent, users[ROLE])
    agent.converged(SLOW)
    assert [real_servers(address) for address in (address6, dual6, address4, dual4)] == [SIX, SIX, FOUR, FOUR]

    key = ObjectKey("Service", "default", six)
    kept, added = cluster.change(key, ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    assert kept == address6
    eventually(lambda: real_servers(added) == FOUR, SLOW)
    assert cluster.change(key, ipFamilyPolicy="SingleStack")["clusterIPs"] == [address6]
    eventually(lambda: address_port(added) not in virtual_servers(), SLOW)
    assert real_servers(address6) == SIX

    cluster.create(node(NODE))
    eventually(lambda: not problems(agent), SLOW)
    eventually(lambda: [event["reason"] for event in cluster.events("default", NODE)] == ["Starting"], SLOW)
