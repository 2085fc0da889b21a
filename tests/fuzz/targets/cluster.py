# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sequences of object changes.

The state must depend on the last version of each object only, not on earlier events.
"""

from __future__ import annotations

from typing import Any

from fuzz.choices import Choices
from fuzz.target import Target
from fuzz.targets.objects import seeds, spoilt

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import EngineError
from kubenode.engine.kernel.ipv6 import possible
from kubenode.engine.kubernetes.fields import identity
from kubenode.engine.plan.planner import plan

_KINDS = ("Service", "Service", "EndpointSlice", "EndpointSlice", "Node")
_ADDRESSES = (("lo", "127.0.0.1"), ("eth0", "10.99.0.11"), ("eth0", "fd00:99::11"))
_FACTS = (
    NodeFacts("n1", _ADDRESSES, ("10.99.0.11", "fd00:99::11"), "z1"),
    NodeFacts("n1", (("eth0", "10.99.0.11"), ("eth1", "203.0.113.1")), ("10.99.0.11",)),
    NodeFacts("n1"),
)
_CONFIGS = (
    Config(),
    Config(local_fallback="drop", no_endpoints="reject", vip_ping=True, localhost_node_ports=True, masquerade_all=True),
    Config(vip_binding="routes", service_cidrs=("10.96.0.0/16", "fd00::/112"), bind_load_balancer_ips=False),
    Config(
        node_port_addresses=("primary",), scheduler="mh", detect_local_mode="NodeCIDR", cluster_cidrs=("10.244.0.0/16",)
    ),
)
_MOST_CHANGES = 6


def _sequence(data: bytes) -> None:
    choices = Choices(data)
    config, facts = choices.pick(_CONFIGS), choices.pick(_FACTS)
    cluster = Cluster(config, facts)
    objects: dict[tuple[str, str, str], dict[str, Any]] = {}
    mirrored: dict[str, dict[Any, Any]] = {}
    while choices.left and len(objects) < _MOST_CHANGES:
        act = choices.below(8)
        if act == 7:
            facts = choices.pick(_FACTS)
            cluster.set_facts(facts)
        elif act == 6 and objects:
            key = choices.pick(list(objects))
            cluster.remove(*key)
            del objects[key]
        else:
            _put(cluster, objects, spoilt(choices, choices.pick(_KINDS), most=1))
        if choices.chance(2):
            _mirror(mirrored, cluster)
    _mirror(mirrored, cluster)
    state = cluster.state()
    assert {kind: items for kind, items in mirrored.items() if items} == {
        k: items for k, items in state.items() if items
    }
    fresh = Cluster(config, facts)
    for item in objects.values():
        fresh.put(item)
    _resume(fresh, cluster)
    assert fresh.state() == state, "the state depends on what came before"
    assert fresh.problems == cluster.problems, "the problems depend on what came before"
    assert dict(fresh.health_checks()) == dict(cluster.health_checks())
    assert dict(fresh.no_local_endpoints()) == dict(cluster.no_local_endpoints())
    wanted = possible(state)
    assert not plan(wanted, wanted, {kind: set(items) for kind, items in wanted.items() if kind != "jump"}).steps
    servers = list(wanted.get("virtual_server", ()))
    cluster.whose([(kind, key) for kind, items in wanted.items() for key in items])
    for server in servers:
        assert cluster.port_of(server)
    cluster.take_flows(servers)


def _resume(fresh: Cluster, cluster: Cluster) -> None:
    """Give the holders of the virtual servers to a fresh cluster.

    Of equal claims, the one seen first keeps the virtual server, which the objects alone do not tell.
    """
    servers = [("virtual_server", server) for server in cluster.state().get("virtual_server", ())]
    holders = {server: tuple(name.split("/")) for (_kind, server), name in cluster.whose(servers).items()}
    fresh.resume(holders)


def _put(cluster: Cluster, objects: dict[tuple[str, str, str], dict[str, Any]], item: dict[str, Any]) -> None:
    kind = item["kind"]
    try:
        cluster.put(item)
    except EngineError:
        return  # the object has no name
    namespace, name = identity(kind, item)
    objects[kind, "" if kind == "Node" else namespace, name] = item


def _mirror(mirrored: dict[str, dict[Any, Any]], cluster: Cluster) -> None:
    """Apply the cluster's changes to a copy of the state, as the agent does."""
    for kind, items in cluster.take().items():
        for key, value in items.items():
            if value is None:
                mirrored.get(kind, {}).pop(key, None)
            else:
                mirrored.setdefault(kind, {})[key] = value


TARGETS = {"cluster": Target(_sequence, seeds(60, 500, 4), longest=1024)}
