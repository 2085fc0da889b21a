# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service of an item, and the node's eligibility for traffic."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, node, piece, port, service
from support.kube_proxy.wanted import NODE, cluster
from support.kube_proxy.wanted import node as facts

from kubenode.engine.desired.settings import Config
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.link import AddressKey

OLD = {"creationTimestamp": "2026-01-01T00:00:00Z"}
NEW = {"creationTimestamp": "2026-01-02T00:00:00Z"}
FIRST = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
SHARED = VirtualServerKey("tcp", "198.51.100.7", 80, 4)


def objects() -> list[dict[str, Any]]:
    one = service(
        "one", ["10.96.0.10"], [port(80, "web", node_port=30080)], kind="NodePort", externalIPs=["198.51.100.7"]
    )
    two = service("two", ["10.96.0.11"], [port(80, "")], externalIPs=["198.51.100.7"])
    three = service("three", ["10.96.0.12"], [port(81, "")], externalIPs=["198.51.100.7"])
    for obj, age in ((one, OLD), (two, NEW), (three, NEW)):
        obj["metadata"].update(age)
    return [one, two, three, piece("one", [endpoint("10.244.1.1", NODE)], [port(8080, "web")])]


@pytest.mark.parametrize("vip_binding", ["addresses", "routes"])
def test_every_item_of_a_service_names_it(vip_binding: str) -> None:
    built = cluster(objects(), facts("192.0.2.1"), Config(vip_binding=vip_binding))
    state = built.state()
    items = [
        (kind, key)
        for kind in ("virtual_server", "real_server", "member", "address", "route")
        for key in state.get(kind, {})
    ]
    names = built.whose(items)
    assert sorted(names) == sorted(items)
    assert set(names.values()) == {"ns1/one", "ns1/two", "ns1/three", "ns1/one,ns1/three"}
    for kind, key in items:
        if "198.51.100.7" in str(key):
            wanted = {
                "virtual_server": {80: "ns1/one", 81: "ns1/three"}.get(getattr(key, "port", 0), ""),
                "real_server": "ns1/one",
            }
            both = "ns1/one,ns1/three"  # without the Service that waits for the holder to go
            single = "ns1/three" if ",tcp:81" in str(key) else "ns1/one" if ",tcp:80" in str(key) else both
            assert names[kind, key] == wanted.get(kind, single)
    assert names["member", MemberKey("KUBE-NODE-PORT-TCP", "30080")] == "ns1/one"
    assert names["member", MemberKey("KUBE-LOOP-BACK", "10.244.1.1,tcp:8080,10.244.1.1")] == "ns1/one"


def test_unwanted_item_belongs_to_no_service() -> None:
    built = cluster(objects())
    built.remove("Service", "ns1", "one")
    items = [
        ("virtual_server", FIRST),
        ("address", AddressKey("kube-ipvs0", "10.96.0.10", 32)),
        ("set", "KUBE-CLUSTER-IP"),
    ]
    assert built.whose(items) == {}
    assert built.port_of(FIRST) == ""
    assert built.whose([("virtual_server", SHARED)]) == {("virtual_server", SHARED): "ns1/two"}


def test_item_names_the_port_of_its_service() -> None:
    built = cluster(objects(), facts("192.0.2.1"))
    assert built.port_of(FIRST) == "ns1/one:web"
    assert built.port_of(VirtualServerKey("tcp", "192.0.2.1", 30080, 4)) == "ns1/one:web"
    assert built.port_of(VirtualServerKey("tcp", "10.96.0.11", 80, 4)) == "ns1/two:80"
    assert built.port_of(SHARED) == "ns1/one:web"


def test_leaving_or_deleted_node_is_not_eligible() -> None:
    built = cluster([])
    assert built.eligible  # no known fact makes the node ineligible
    plain, tainted, deleted = node(NODE), node(NODE), node(NODE)
    tainted["spec"] = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    built.remove("Node", "", NODE)
    assert built.eligible  # the node never had it
    for obj, eligible in ((plain, True), (tainted, False), (plain, True), (deleted, False), (plain, True)):
        built.put(obj)
        assert built.eligible is eligible
    for leaving in (tainted, plain):
        built.put(leaving)
        built.remove("Node", "", "another")
        assert built.eligible is (leaving is plain)
        built.remove("Node", "", NODE)
        assert not built.eligible
    built.put(plain)
    assert built.eligible
