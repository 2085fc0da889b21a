# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load balancer: which Services it serves, their addresses, and their routes."""

from __future__ import annotations

from typing import Any

from e2e.load_balancer import Balanced, balanced, free_addresses, route
from lab import naming

NODES = [naming.node_addresses(0), naming.node_addresses(1)]


def service(name: str, *ingress: str, **spec: Any) -> dict[str, Any]:
    """Return a Service of this type with addresses."""
    entries = [{"ip": address} for address in ingress]
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"type": "LoadBalancer", **spec},
        "status": {"loadBalancer": {"ingress": entries} if entries else {}},
    }


def test_only_load_balancers_without_a_class_are_served() -> None:
    listed = [
        service("a", ipFamilies=["IPv4", "IPv6"], healthCheckNodePort=30001),
        service("b", "172.31.255.1", ipFamilies=["IPv4"]),
        service("c", loadBalancerClass="other"),
        service("d", type="ClusterIP"),
    ]
    path = "/api/v1/namespaces/default/services/"
    assert balanced(listed) == [
        Balanced(f"{path}a", ("IPv4", "IPv6"), 30001, ()),
        Balanced(f"{path}b", ("IPv4",), 0, ("172.31.255.1",)),
    ]


def test_address_is_unused() -> None:
    assert free_addresses(("IPv4", "IPv6"), {"172.31.255.1"}) == ("172.31.255.2", "fd00:172:31::1")


def test_address_is_routed_to_all_healthy_nodes() -> None:
    assert route("172.31.255.1", NODES) == ("route replace 172.31.255.1 nexthop via 10.77.0.11 nexthop via 10.77.0.12")
    assert route("fd00:172:31::1", NODES[:1]) == "-6 route replace fd00:172:31::1 nexthop via fd77:6b6e::11"


def test_packets_are_dropped_without_a_healthy_node() -> None:
    assert route("172.31.255.1", []) == "route replace blackhole 172.31.255.1"
