# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserved addresses in externalIPs and load balancer status.

The engine refuses and names them unless the configuration allows them.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, service
from support.kube_proxy.wanted import NODE, cluster, node, servers

from kubenode.engine.desired.address_policy import AddressPolicy
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.settings import Config
from kubenode.engine.model.net import family

FACTS = node("10.99.0.11", "fd00:99::11")
API = ("192.0.2.10", "2001:db8:a::10")
SPECIAL = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "127.0.0.1": "a loopback address",
    "169.254.169.254": "link-local",
    "224.0.0.251": "multicast",
    "255.255.255.255": "the broadcast address",
    "::": "unspecified",
    "::1": "a loopback address",
    "fe80::1": "link-local",
    "ff02::1": "multicast",
}


def built(field: str, value: str, **config: Any) -> Cluster:
    ips = ["10.0.0.1" if family(value) == 4 else "fd00:96::1"]
    given: dict[str, Any] = {"kind": "LoadBalancer"}
    good = "198.51.100.1" if family(value) == 4 else "2001:db8:b::1"
    if field == "spec.externalIPs":
        given["externalIPs"] = [value, good]
    else:
        given["ingress"] = [{"ip": value}, {"ip": good}]
    result = cluster([service("bad", ips, **given)], FACTS, Config(**config))
    result.use_api_servers(API)
    return result


@pytest.mark.parametrize("field", ["spec.externalIPs", "status.loadBalancer.ingress"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *((value, f"an address that is not {kind} (") for value, kind in SPECIAL.items()),
        ("10.99.0.11", "an address that is not this node's own ("),
        ("fd00:99::11", "an address that is not this node's own ("),
        *((value, "an address that is not this agent's API server's (") for value in API),
    ],
)
def test_reserved_address_is_refused_and_named(field: str, value: str, reason: str) -> None:
    result = built(field, value)
    (text,) = result.problems["Service", "ns1/bad"]
    assert text.startswith(f"Service ns1/bad: {field} is {value!r}, expected {reason}")
    assert len(servers(result.state(), family(value))) == 2  # the agent serves the rest
    assert value not in {key.address for key in result.state()["virtual_server"]}
    assert value not in {key.address for key in result.state()["address"]}
    assert result.refused() == 1


@pytest.mark.parametrize(
    ("value", "allowed", "is_served"),
    [
        ("203.0.113.7", (), True),
        ("203.0.113.7", ("203.0.113.0/24",), True),
        ("203.0.113.7", ("198.51.100.0/24",), False),
        ("169.254.20.1", ("0.0.0.0/0",), False),
        ("169.254.20.1", ("169.254.0.0/15",), False),
        ("169.254.20.1", ("169.254.20.0/24",), True),
        ("10.99.0.11", ("0.0.0.0/0",), False),
        ("10.99.0.11", ("10.99.0.0/24",), True),
        ("192.0.2.10", ("192.0.2.0/24",), False),
        ("192.0.2.10", ("192.0.2.10/32",), True),
        ("::ffff:127.0.0.1", ("::/0",), False),
        ("::ffff:203.0.113.7", ("::/0",), False),
    ],
)
def test_networks_allow_explicit_reserved_addresses(value: str, allowed: tuple[str, ...], is_served: bool) -> None:
    policy = AddressPolicy("allowedExternalIPs", allowed, frozenset({"10.99.0.11"}), frozenset(API))
    assert (policy.refusal(value) == "") is is_served


def test_each_field_has_its_own_networks() -> None:
    assert built("spec.externalIPs", "10.99.0.11", allowed_load_balancer_ips=("10.99.0.11/32",)).problems
    allowed = ("10.99.0.11/32", "198.51.100.0/24")
    assert not built("spec.externalIPs", "10.99.0.11", allowed_external_ips=allowed).problems
    assert not built("status.loadBalancer.ingress", "10.99.0.11", allowed_load_balancer_ips=allowed).problems


def test_api_servers_learnt_later_are_taken_back() -> None:
    built_later = cluster([service("bad", ["10.0.0.1"], externalIPs=["192.0.2.10"])], FACTS)
    built_later.take()
    assert "192.0.2.10" in {key.address for key in built_later.state()["address"]}
    built_later.use_api_servers(API)
    assert {key.address for key, value in built_later.take()["address"].items() if value is None} == {"192.0.2.10"}


def test_endpoints_of_the_kubernetes_service_are_api_servers() -> None:
    """An agent that reaches the API by its cluster IP sees no other address, so the endpoints are the servers."""
    result = cluster([service("bad", ["10.0.0.1"], externalIPs=["192.0.2.99"])], FACTS)
    assert not result.problems
    result.put(piece("kubernetes", [endpoint("192.0.2.99")], namespace="default"))
    (text,) = result.problems["Service", "ns1/bad"]
    assert "192.0.2.99/32" in text
    result.remove("EndpointSlice", "default", "kubernetes-4")
    assert not result.problems
    assert result.facts.name == NODE
