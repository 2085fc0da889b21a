# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic under policies: Local and Cluster, source ranges, terminating endpoints, topology hints."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters import objects
from support.clusters.objects import Object
from support.traffic.cluster import (
    HOST_PORT,
    PROTOCOLS,
    Cluster,
    balancer_ip,
    cluster_ip,
    external_ip,
    node_port,
    pod,
    service,
)
from support.traffic.conversation import REFUSED, SILENCE, Target, ask, asked
from support.traffic.network import GATEWAY, HOSTS, NODE

LOCAL, NO_LOCAL, INTERNAL, INTERNAL_EMPTY, BOTH = 20, 21, 22, 23, 24
CLIENT_ONLY, CLIENT_AND_NODE, EVERYBODY, OTHER_FAMILY, ON_THE_NODE = 30, 31, 32, 33, 34
TERMINATING, LAST_RESORT, LOCAL_TERMINATING, NOT_READY = 40, 41, 42, 43
ZONES, OTHER_ZONE, HALF_ZONES, NODES = 50, 51, 52, 53
QUICK = 0.7  # seconds to wait for silence; answers come within milliseconds


def fill(cluster: Cluster) -> None:
    """Write the objects of this file's tests."""
    local = {"external": True, "balancer": True, "externalTrafficPolicy": "Local"}
    only = [f"{HOSTS['client1'].ip[4]}/32", f"{HOSTS['client1'].ip[6]}/128"]
    node = [f"{HOSTS[NODE].ip[4]}/32", f"{HOSTS[NODE].ip[6]}/128"]
    dying = {"ready": False, "serving": True, "terminating": True}
    here, there = {"zones": ["zone-a"]}, {"zones": ["zone-b"]}
    things = [
        objects.node(NODE, zone="zone-a"),
        *service(LOCAL, ["p1", "r1"], protocols=PROTOCOLS, node_port=30020, **local),
        *service(NO_LOCAL, ["r1"], node_port=30021, **local),
        *service(INTERNAL, ["p1", "r1"], node_port=30022, internalTrafficPolicy="Local"),
        *service(INTERNAL_EMPTY, ["r1"], internalTrafficPolicy="Local"),
        *service(BOTH, ["p1", "r1"], node_port=30024, internalTrafficPolicy="Local", **local),
        *service(
            CLIENT_ONLY,
            ["p1"],
            protocols=PROTOCOLS,
            node_port=30030,
            balancer=True,
            external=True,
            loadBalancerSourceRanges=only,
        ),
        *service(CLIENT_AND_NODE, ["p1"], node_port=30031, balancer=True, loadBalancerSourceRanges=[*only, *node]),
        *service(EVERYBODY, ["p1"], balancer=True, loadBalancerSourceRanges=["0.0.0.0/0", "::/0"]),
        *service(OTHER_FAMILY, ["p1"], balancer=True, loadBalancerSourceRanges=only[:1]),
        *on_the_node(loadBalancerSourceRanges=only, externalTrafficPolicy="Local", balancer=True),
        *service(TERMINATING, [pod("p1", **dying), "p2"]),
        *service(LAST_RESORT, [pod("p1", **dying), pod("p2", ready=False, serving=False)]),
        *service(LOCAL_TERMINATING, [pod("p1", **dying), "r1"], node_port=30042, externalTrafficPolicy="Local"),
        *service(NOT_READY, [pod("p1", ready=False, serving=False), pod("r1", ready=False)]),
        *service(ZONES, [pod("p1", **here), pod("p2", **there), pod("r1", **there)]),
        *service(OTHER_ZONE, [pod("p1", **there), pod("p2", **there)]),
        *service(HALF_ZONES, [pod("p1", **here), "p2"]),
        *service(NODES, [pod("p1", nodes=["node9"], **here), pod("r1", nodes=[NODE], **there)]),
    ]
    cluster.write("policies", things)


def on_the_node(**fields: Any) -> list[Object]:
    """Return a Service whose endpoint is the server on node1 itself, as a pod with the host's network."""
    things = service(ON_THE_NODE, [], **fields)
    for family, piece in zip((4, 6), things[1:], strict=True):
        piece["endpoints"] = [objects.endpoint(HOSTS[NODE].ip[family], NODE)]
        piece["ports"][0]["port"] = HOST_PORT
    return things


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    fill(rules_cluster)
    rules_cluster.start()
    return rules_cluster


# externalTrafficPolicy


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("where", ["client1", "p3"])
def test_external_policy_local_keeps_client_address_and_node(
    cluster: Cluster, family: int, where: str, protocol: str
) -> None:
    for target in (
        node_port(30020, family, protocol),
        external_ip(LOCAL, family, protocol=protocol),
        balancer_ip(LOCAL, family, protocol=protocol),
    ):
        assert asked(where, target) == {f"p1 sees {HOSTS[where].ip[family]}": 4}, target


def test_external_policy_local_from_the_node_itself(cluster: Cluster, family: int) -> None:
    # traffic from the node to one of its addresses has that very address as its source
    for target in (node_port(30020, family), external_ip(LOCAL, family), balancer_ip(LOCAL, family)):
        assert asked(NODE, target, 2) == {f"p1 sees {target.address}": 2}


def test_external_policy_local_keeps_all_at_the_cluster_ip(cluster: Cluster, family: int) -> None:
    mine = HOSTS["p3"].ip[family]
    assert asked("p3", cluster_ip(LOCAL, family)) == {f"p1 sees {mine}": 2, f"r1 sees {mine}": 2}


def without_local(family: int) -> list[Target]:
    return [node_port(30021, family), external_ip(NO_LOCAL, family), balancer_ip(NO_LOCAL, family)]


def test_external_policy_local_without_local_endpoints(cluster: Cluster, family: int) -> None:
    """As with kube-proxy, pods of the node and clients outside reach the cluster's endpoints.

    The answers to clients outside are lost.
    """
    for target in without_local(family):
        assert ask("p3", target) == f"r1 sees {HOSTS['p3'].ip[family]}", target
        assert ask("client1", target, timeout=QUICK) == SILENCE, target


# internalTrafficPolicy


@pytest.mark.parametrize("where", ["p3", NODE])
def test_internal_policy_local_stays_on_the_node(cluster: Cluster, family: int, where: str) -> None:
    seen = HOSTS["p3"].ip[family] if where == "p3" else GATEWAY[family]
    assert asked(where, cluster_ip(INTERNAL, family)) == {f"p1 sees {seen}": 4}


def test_internal_policy_local_keeps_all_at_the_node_port(cluster: Cluster, family: int) -> None:
    seen = {f"p1 sees {GATEWAY[family]}": 2, f"r1 sees {HOSTS[NODE].ip[family]}": 2}
    assert asked("client1", node_port(30022, family)) == seen


def test_internal_policy_local_without_local_endpoints_refuses(cluster: Cluster, family: int) -> None:
    assert ask("p3", cluster_ip(INTERNAL_EMPTY, family)) == REFUSED


def test_both_policies_local_use_local_endpoints(cluster: Cluster, family: int) -> None:
    assert asked("p3", cluster_ip(BOTH, family)) == {f"p1 sees {HOSTS['p3'].ip[family]}": 4}
    assert asked("client1", node_port(30024, family)) == {f"p1 sees {HOSTS['client1'].ip[family]}": 4}


# loadBalancerSourceRanges


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_source_ranges_admit_listed_clients_only(cluster: Cluster, family: int, protocol: str) -> None:
    target = balancer_ip(CLIENT_ONLY, family, protocol=protocol)
    assert ask("client1", target) == f"p1 sees {GATEWAY[family]}"
    assert ask("client2", target, timeout=QUICK) == SILENCE
    assert ask("p3", target, timeout=QUICK) == SILENCE


@pytest.mark.parametrize("where", ["client2", "p3", NODE])
def test_source_ranges_of_all_addresses_admit_everyone(cluster: Cluster, family: int, where: str) -> None:
    assert ask(where, balancer_ip(EVERYBODY, family)) == f"p1 sees {GATEWAY[family]}"


def test_source_ranges_of_one_family_leave_the_other_open(cluster: Cluster, family: int) -> None:
    wanted = SILENCE if family == 4 else f"p1 sees {GATEWAY[6]}"
    assert ask("client2", balancer_ip(OTHER_FAMILY, family), timeout=QUICK) == wanted
    assert ask("client1", balancer_ip(OTHER_FAMILY, family)) == f"p1 sees {GATEWAY[family]}"


def test_source_ranges_admit_the_node_itself(cluster: Cluster, family: int) -> None:
    assert ask(NODE, balancer_ip(CLIENT_ONLY, family), timeout=QUICK) == SILENCE
    assert ask(NODE, balancer_ip(CLIENT_AND_NODE, family)) == f"p1 sees {GATEWAY[family]}"
    assert ask("client2", balancer_ip(CLIENT_AND_NODE, family), timeout=QUICK) == SILENCE


def test_source_ranges_let_the_node_s_own_answers_out(cluster: Cluster, family: int) -> None:
    target = balancer_ip(ON_THE_NODE, family)
    assert ask("client1", target) == f"host sees {HOSTS['client1'].ip[family]}"
    for where in ("client2", NODE):
        assert ask(where, target, timeout=QUICK) == SILENCE, where


def test_source_ranges_are_for_the_load_balancer_only(cluster: Cluster, family: int) -> None:
    for target in (cluster_ip(CLIENT_ONLY, family), external_ip(CLIENT_ONLY, family), node_port(30030, family)):
        assert ask("client2", target) == f"p1 sees {GATEWAY[family]}", target


# conditions of endpoints


def test_terminating_endpoint_beside_ready_one_gets_nothing(cluster: Cluster, family: int) -> None:
    assert asked("client1", cluster_ip(TERMINATING, family)) == {f"p2 sees {GATEWAY[family]}": 4}


def test_serving_terminating_endpoint_is_the_last_resort(cluster: Cluster, family: int) -> None:
    assert asked("client1", cluster_ip(LAST_RESORT, family)) == {f"p1 sees {GATEWAY[family]}": 4}


def test_local_terminating_endpoints_serve_a_local_policy(cluster: Cluster, family: int) -> None:
    client = HOSTS["client1"].ip[family]
    assert asked("client1", node_port(30042, family)) == {f"p1 sees {client}": 4}
    assert asked("client1", cluster_ip(LOCAL_TERMINATING, family)) == {f"r1 sees {HOSTS[NODE].ip[family]}": 4}


def test_endpoints_that_are_not_ready_get_nothing(cluster: Cluster, family: int) -> None:
    assert ask("client1", cluster_ip(NOT_READY, family)) == REFUSED


# topology


@pytest.mark.parametrize(
    ("number", "names"),
    [(ZONES, ["p1"]), (OTHER_ZONE, ["p1", "p2"]), (HALF_ZONES, ["p1", "p2"]), (NODES, ["r1"])],
    ids=["our zone", "no endpoint in our zone", "an endpoint without hint", "our node"],
)
def test_topology_hints_select_endpoints(cluster: Cluster, family: int, number: int, names: list[str]) -> None:
    mine = HOSTS["p3"].ip[family]
    assert asked("p3", cluster_ip(number, family)) == {f"{name} sees {mine}": 4 // len(names) for name in names}


# the last test: it changes the configuration


def test_local_policy_without_fallback_or_endpoint_refuses(cluster: Cluster, family: int) -> None:
    if cluster.weights(node_port(30021, family)):
        cluster.reconfigure(localFallback="drop")
    for where, target in zip(("client1", "p3", "client1"), without_local(family), strict=True):
        assert ask(where, target) == REFUSED, (where, target)
    assert ask("p3", cluster_ip(NO_LOCAL, family)) == f"r1 sees {HOSTS['p3'].ip[family]}"
