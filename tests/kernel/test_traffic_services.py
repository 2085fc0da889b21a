# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic through every kind of Service, by every protocol, in both families: who answers, and which client it sees.

A pod on the node sees masqueraded traffic from the pod bridge's address (GATEWAY); a pod elsewhere sees node1's.
"""

from __future__ import annotations

import pytest
from support.agent.process import eventually
from support.clusters import objects
from support.traffic.cluster import (
    POD_PORT,
    PROTOCOLS,
    Cluster,
    balancer_ip,
    cluster_ip,
    external_ip,
    node_port,
    service,
)
from support.traffic.conversation import FORBIDDEN, REFUSED, UNREACHABLE, Target, ask, asked
from support.traffic.network import APPLIANCE_IP, GATEWAY, HOSTS, NODE

EVERY, HAIRPIN, EMPTY, OTHER_PROXY, APPLIANCE, GONE = 10, 11, 12, 13, 14, 15
OLDER, YOUNGER, OWN, SHARED = 16, 17, 18, 19
HAIRPIN_LOCAL = 9
NODE_PORT = 30010


# The node's own addresses, and those of external IPs.
ALLOWED = [f"{HOSTS[NODE].ip[4]}/32", f"{HOSTS[NODE].ip[6]}/128", "198.51.100.0/24", "2001:db8:51::/64"]


def fill(cluster: Cluster) -> None:
    """Write the Services of this file's tests."""
    cluster.write(
        "every", service(EVERY, ["p1", "r1"], protocols=PROTOCOLS, node_port=NODE_PORT, external=True, balancer=True)
    )
    every = {"protocols": PROTOCOLS, "external": True, "balancer": True}
    cluster.write("hairpin", service(HAIRPIN, ["p1"], node_port=30011, **every))
    cluster.write(
        "hairpin-local", service(HAIRPIN_LOCAL, ["p1"], node_port=30009, externalTrafficPolicy="Local", **every)
    )
    cluster.write("empty", service(EMPTY, [], protocols=PROTOCOLS, node_port=30012, external=True, balancer=True))
    other = {"service.kubernetes.io/service-proxy-name": "another"}
    cluster.write("other", service(OTHER_PROXY, ["p1"], labels=other))
    ingress = [{"ip": APPLIANCE_IP[family].format(1), "ipMode": "Proxy"} for family in (4, 6)]
    cluster.write("appliance", service(APPLIANCE, ["p1"], node_port=30014, kind="LoadBalancer", ingress=ingress))


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    cluster = rules_cluster
    fill(cluster)
    cluster.configure(allowedExternalIPs=ALLOWED)
    cluster.start()
    return cluster


def masqueraded(family: int) -> dict[str, int]:
    """Return four answers of the Service EVERY to a client whose traffic is masqueraded."""
    return {f"p1 sees {GATEWAY[family]}": 2, f"r1 sees {HOSTS[NODE].ip[family]}": 2}


def targets(number: int, port: int, family: int, protocol: str) -> dict[str, Target]:
    return {
        "cluster IP": cluster_ip(number, family, protocol=protocol),
        "external IP": external_ip(number, family, protocol=protocol),
        "balancer IP": balancer_ip(number, family, protocol=protocol),
        "node port": node_port(port, family, protocol),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pod_keeps_its_address_at_a_cluster_ip(cluster: Cluster, family: int, protocol: str) -> None:
    mine = HOSTS["p3"].ip[family]
    assert asked("p3", cluster_ip(EVERY, family, protocol=protocol)) == {f"p1 sees {mine}": 2, f"r1 sees {mine}": 2}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("what", ["external IP", "balancer IP", "node port"])
def test_pod_at_an_external_address_is_masqueraded(cluster: Cluster, family: int, protocol: str, what: str) -> None:
    assert asked("p3", targets(EVERY, NODE_PORT, family, protocol)[what]) == masqueraded(family)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("what", ["cluster IP", "external IP", "balancer IP", "node port"])
def test_node_itself_reaches_services(cluster: Cluster, family: int, protocol: str, what: str) -> None:
    assert asked(NODE, targets(EVERY, NODE_PORT, family, protocol)[what]) == masqueraded(family)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("what", ["cluster IP", "external IP", "balancer IP", "node port"])
def test_client_outside_is_masqueraded(cluster: Cluster, family: int, protocol: str, what: str) -> None:
    assert asked("client1", targets(EVERY, NODE_PORT, family, protocol)[what]) == masqueraded(family)


def test_a_node_port_is_on_every_address_of_the_node(cluster: Cluster, family: int) -> None:
    assert asked("p3", Target(GATEWAY[family], NODE_PORT)) == masqueraded(family)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("number", "port"), [(HAIRPIN, 30011), (HAIRPIN_LOCAL, 30009)], ids=["Cluster", "Local"])
def test_pod_reaches_itself_through_its_service(
    cluster: Cluster, family: int, protocol: str, number: int, port: int
) -> None:
    answers = {what: ask("p1", target) for what, target in targets(number, port, family, protocol).items()}
    assert answers == dict.fromkeys(answers, f"p1 sees {GATEWAY[family]}")


@pytest.mark.parametrize("where", ["p3", NODE, "client1"])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_without_endpoints_the_kernel_refuses(cluster: Cluster, family: int, protocol: str, where: str) -> None:
    chosen = [cluster_ip(EMPTY, family, protocol=protocol), node_port(30012, family, protocol)]
    answers = {target: ask(where, target) for target in chosen}
    assert answers == dict.fromkeys(chosen, FORBIDDEN if (where, protocol) == (NODE, "udp") else REFUSED)


def test_service_of_another_proxy_is_not_served(cluster: Cluster, family: int) -> None:
    target = cluster_ip(OTHER_PROXY, family)
    assert target.address not in cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    assert ask("client1", target) == UNREACHABLE


@pytest.mark.parametrize("where", ["p3", NODE, "client1"])
def test_proxy_mode_load_balancer_gets_its_traffic(cluster: Cluster, family: int, where: str) -> None:
    target = Target(APPLIANCE_IP[family].format(1), 80)
    assert ask(where, target) == f"appliance sees {HOSTS[where].ip[family]}"
    assert ask(where, node_port(30014, family)) == f"p1 sees {GATEWAY[family]}"


def test_a_service_follows_its_manifest(cluster: Cluster, family: int) -> None:
    target = cluster_ip(GONE, family)
    cluster.write("gone", service(GONE, ["p1"]))
    cluster.becomes(target, {"p1": 1})
    assert ask("client1", target) == f"p1 sees {GATEWAY[family]}"
    cluster.write("gone", service(GONE, ["p2", "r2"]))
    cluster.becomes(target, {"p1": 0, "p2": 1, "r2": 1})
    assert asked("client1", target) == {f"p2 sees {GATEWAY[family]}": 2, f"r2 sees {HOSTS[NODE].ip[family]}": 2}
    # numeric target port: the Service's port changes, the pods' stays
    things = service(GONE, ["p2"])
    things[0]["spec"]["ports"] = [objects.port(81, "p-tcp")]
    cluster.write("gone", things)
    cluster.becomes(target._replace(port=81), {"p2": 1})
    assert ask("client1", target._replace(port=81)) == f"p2 sees {GATEWAY[family]}"
    cluster.remove("gone", target._replace(port=81))


def test_services_may_share_an_external_address(cluster: Cluster, family: int) -> None:
    shared = external_ip(SHARED, family)
    for port, pod in ((80, "p1"), (81, "p2")):
        things = service(SHARED + port, [pod], externalIPs=[shared.address])
        things[0]["spec"]["ports"][0]["port"] = port
        cluster.write(f"shared-{port}", things)
        cluster.becomes(shared._replace(port=port), {pod: 1})
    assert ask("client1", shared) == f"p1 sees {GATEWAY[family]}"
    assert ask("client1", shared._replace(port=81)) == f"p2 sees {GATEWAY[family]}"
    cluster.remove("shared-80", shared)
    assert ask("client1", shared._replace(port=81)) == f"p2 sees {GATEWAY[family]}"
    cluster.remove("shared-81", shared._replace(port=81))


def test_older_of_two_services_gets_a_node_port(cluster: Cluster, family: int) -> None:
    target = node_port(30018, family)
    cluster.write("older", service(OLDER, ["p1"], node_port=30018, creationTimestamp="2026-01-01T00:00:00Z"))
    cluster.write("younger", service(YOUNGER, ["p2"], node_port=30018, creationTimestamp="2026-01-02T00:00:00Z"))
    cluster.becomes(cluster_ip(YOUNGER, family), {"p2": 1})
    assert asked("client1", target) == {f"p1 sees {GATEWAY[family]}": 4}
    (problem,) = cluster.agent.ask("status")["problems"]
    assert (problem["name"], f"svc{OLDER}" in problem["text"]) == (f"ns1/svc{YOUNGER}", True)
    cluster.remove("older", cluster_ip(OLDER, family))
    eventually(lambda: ask("client1", target) == f"p2 sees {GATEWAY[family]}")
    eventually(lambda: cluster.agent.ask("status")["problems"] == [])
    cluster.remove("younger", target)


def test_external_address_of_the_node_is_served(cluster: Cluster, family: int) -> None:
    mine = HOSTS[NODE].ip[family]
    target = Target(mine, 8888)
    things = service(OWN, ["p1"], externalIPs=[mine])
    things[0]["spec"]["ports"][0]["port"] = 8888
    cluster.write("own", things)
    cluster.becomes(target, {"p1": 1})
    assert ask("client1", target) == f"p1 sees {GATEWAY[family]}"
    assert f" {mine}/" not in cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    cluster.remove("own", target)
    loopback = {4: "127.0.0.2", 6: "::1"}[family]
    cluster.write("own", service(OWN, ["p1"], externalIPs=[loopback]))
    cluster.becomes(cluster_ip(OWN, family), {"p1": 1})
    (problem,) = cluster.agent.ask("status")["problems"]
    assert f"spec.externalIPs is '{loopback}', expected an address in one of the networks" in problem["text"]
    cluster.remove("own", cluster_ip(OWN, family))
    assert f" {mine}/" in cluster.run("ip", "addr", "show", "dev", "eth0")


def test_pods_are_reached_directly(cluster: Cluster, family: int) -> None:
    pod = Target(HOSTS["p1"].ip[family], POD_PORT)
    assert ask("client1", pod) == f"p1 sees {HOSTS['client1'].ip[family]}"
