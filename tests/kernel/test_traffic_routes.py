# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``vipBinding: routes`` with packets: virtual addresses that are not addresses of the node."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from support.agent.process import eventually
from support.processes.namespace import inside
from support.traffic.cluster import HOST_PORT, Cluster, balancer_ip, cluster_ip, external_ip, node_port, pod, service
from support.traffic.conversation import REFUSED, Servers, Talk, Target, ask, asked, ping
from support.traffic.network import GATEWAY, HOSTS, NODE

WEB, LOCAL, HOSTED, UNUSED, DRAINED = 80, 81, 82, 99, 83
NETWORKS = {4: "10.96.0.0/16", 6: "fd00:96::/112"}
ROUTES = {"vipBinding": "routes", "serviceCIDRs": list(NETWORKS.values())}
FOREIGN = {4: "192.0.2.128/25", 6: "2001:db8:77::/64"}


def local_routes(cluster: Cluster) -> set[str]:
    """Return the local routes on lo without the kernel's."""
    lines = [
        line
        for option in ("-4", "-6")
        for line in cluster.run("ip", option, "route", "show", "table", "local").splitlines()
    ]
    return {
        line.split()[1]
        for line in lines
        if line.startswith("local ") and " dev lo " in line and "proto kernel" not in line
    }


def planned(cluster: Cluster) -> list[str]:
    with inside(NODE):
        return cluster.agent.plan()


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Iterator[Cluster]:
    cluster = rules_cluster
    for family, net in FOREIGN.items():
        cluster.run("ip", f"-{family}", "route", "add", "local", net, "dev", "lo")
    every = ("tcp", "udp", "sctp")
    cluster.write("web", service(WEB, ["p1", "r1"], protocols=every, node_port=30080, external=True, balancer=True))
    cluster.write("local", service(LOCAL, ["p1"], node_port=30081, external=True, externalTrafficPolicy="Local"))
    cluster.configure(**ROUTES)
    cluster.start()
    yield cluster
    cluster.close()  # stops the agent and cleans up
    assert local_routes(cluster) == set(FOREIGN.values())
    for family, net in FOREIGN.items():
        cluster.run("ip", f"-{family}", "route", "del", "local", net, "dev", "lo")


@pytest.fixture(autouse=True)
def _routes(cluster: Cluster) -> None:
    cluster.reconfigure(**ROUTES)


def masqueraded(family: int) -> dict[str, int]:
    return {f"p1 sees {GATEWAY[family]}": 2, f"r1 sees {HOSTS[NODE].ip[family]}": 2}


def test_routes_cover_networks_and_single_virtual_addresses(cluster: Cluster) -> None:
    wanted = {*NETWORKS.values(), *FOREIGN.values()}
    for family in (4, 6):
        wanted |= {
            target.address
            for target in (external_ip(WEB, family), external_ip(LOCAL, family), balancer_ip(WEB, family))
        }
    assert local_routes(cluster) == wanted
    link = cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    assert "inet" not in link
    assert "state DOWN" in link
    assert planned(cluster) == []


@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_routed_vips_are_reached_by_all_clients(cluster: Cluster, family: int, protocol: str) -> None:
    mine = HOSTS["p3"].ip[family]
    inside_pods = {f"p1 sees {mine}": 2, f"r1 sees {mine}": 2}
    assert asked("p3", cluster_ip(WEB, family, protocol=protocol)) == inside_pods
    assert asked("client1", cluster_ip(WEB, family, protocol=protocol)) == masqueraded(family)
    assert asked(NODE, cluster_ip(WEB, family, protocol=protocol)) == masqueraded(family)
    for where in ("client1", NODE):
        for target in (external_ip(WEB, family, protocol=protocol), balancer_ip(WEB, family, protocol=protocol)):
            assert asked(where, target) == masqueraded(family), (where, target)
    assert asked("client1", node_port(30080, family, protocol)) == masqueraded(family)
    assert asked(NODE, node_port(30080, family, protocol)) == masqueraded(family)


def test_routed_vip_lets_a_pod_reach_itself(cluster: Cluster, family: int) -> None:
    assert asked("p1", cluster_ip(LOCAL, family), 2) == {f"p1 sees {GATEWAY[family]}": 2}


def test_routed_vip_with_policy_local_keeps_the_client(cluster: Cluster, family: int) -> None:
    client = HOSTS["client1"].ip[family]
    assert asked("client1", external_ip(LOCAL, family), 2) == {f"p1 sees {client}": 2}


def test_node_traffic_without_pod_detection_is_masqueraded(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"clusterCIDR": ""}, **ROUTES)
    assert asked(NODE, cluster_ip(WEB, family)) == masqueraded(family)
    mine = HOSTS["p3"].ip[family]
    assert asked("p3", cluster_ip(WEB, family)) == {f"p1 sees {mine}": 2, f"r1 sees {mine}": 2}


@pytest.fixture(scope="module")
def hosted(servers: Servers) -> None:
    """Start a server on the node itself."""
    for family in (4, 6):
        servers.add("hosted", NODE, Target(HOSTS[NODE].ip[family], 8080))


def test_routed_vip_reaches_an_endpoint_on_the_node(cluster: Cluster, hosted: None, family: int) -> None:
    """An example is the API server's Service on a control plane."""
    cluster.write("hosted", service(HOSTED, [pod(NODE)]))
    eventually(lambda: cluster.weights(cluster_ip(HOSTED, family)))
    for where in (NODE, "p3", "client1"):
        assert ask(where, cluster_ip(HOSTED, family)).startswith("hosted sees "), where


@pytest.mark.parametrize("where", ["client1", "p3", NODE])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_an_unused_service_address_is_refused_at_once(cluster: Cluster, family: int, protocol: str, where: str) -> None:
    for port in (80, HOST_PORT, 30080):  # no server; a port on which the node listens everywhere; a node port
        assert ask(where, cluster_ip(UNUSED, family, port, protocol)) == REFUSED, port
    assert ping(where, cluster_ip(UNUSED, family).address) == REFUSED


@pytest.mark.parametrize("where", ["client1", "p3", NODE])
def test_host_ports_are_unreachable_through_virtual_addresses(cluster: Cluster, family: int, where: str) -> None:
    for virtual in (cluster_ip(WEB, family), external_ip(WEB, family), balancer_ip(WEB, family)):
        for protocol in ("tcp", "udp"):
            assert ask(where, Target(virtual.address, HOST_PORT, protocol)) == REFUSED, (where, virtual)
    assert ask("client1", Target(HOSTS[NODE].ip[family], HOST_PORT)) == f"host sees {HOSTS['client1'].ip[family]}"


def test_routed_vip_answers_ping_as_configured(cluster: Cluster, family: int) -> None:
    cluster.reconfigure(vipPing=True, **ROUTES)
    for where in ("client1", "p3", NODE):
        assert ping(where, cluster_ip(WEB, family).address) == "pong", where
        assert ping(where, external_ip(WEB, family).address) == "pong", where
        assert ping(where, cluster_ip(UNUSED, family).address) == REFUSED, where


def test_a_connection_of_a_deleted_service_keeps_its_route(cluster: Cluster) -> None:
    cluster.write("drained", service(DRAINED, ["p1"], external=True))
    targets = [make(DRAINED, family) for make in (cluster_ip, external_ip) for family in (4, 6)]
    for target in targets:
        cluster.becomes(target, {"p1": 1})
    talks = [Talk("client1", target) for target in targets]
    cluster.write("drained", [])
    for target in targets:
        cluster.becomes(target, {"p1": 0})
    time.sleep(1.5)
    assert [talk.say().name for talk in talks] == ["p1"] * len(talks)
    mine = {external_ip(DRAINED, family).address for family in (4, 6)}
    assert mine <= local_routes(cluster)
    for talk in talks:
        talk.abort()
    eventually(lambda: not mine & local_routes(cluster))
    for target in targets:
        cluster.becomes(target, {})


def test_removed_route_is_restored_at_once(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"ipvs": {"syncPeriod": "1h"}}, **ROUTES)
    healed = f"local route {NETWORKS[family]} on lo"
    counted = cluster.agent.log.read_text().count("drift healed")
    cluster.agent.kill(signal.SIGSTOP)  # the agent must not repair the harm before the test sees it
    try:
        cluster.run("ip", f"-{family}", "route", "del", "local", NETWORKS[family], "dev", "lo", "table", "local")
        assert [line for line in planned(cluster) if healed in line]
    finally:
        cluster.agent.kill(signal.SIGCONT)
    eventually(lambda: NETWORKS[family] in local_routes(cluster))
    eventually(lambda: ask(NODE, cluster_ip(LOCAL, family)) == f"p1 sees {GATEWAY[family]}")
    eventually(lambda: cluster.agent.log.read_text().count("drift healed") > counted)


def covered(lines: list[str], virtual: str, nets: tuple[str, ...], at_first: int) -> list[int]:
    """Return the number of local routes to a virtual address after each event of ``ip monitor route``."""
    count, counts = at_first, []
    for line in lines:
        event = re.match(r"(Deleted )?local (\S+) ", line)
        if event and event[2] in (virtual, *nets):
            count += -1 if event[1] else 1
            counts.append(count)
    return counts


def test_vip_binding_changes_lose_no_traffic(cluster: Cluster, family: int) -> None:
    cluster.reconfigure()
    assert local_routes(cluster) == set(FOREIGN.values())
    targets = [cluster_ip(WEB, family), external_ip(WEB, family), balancer_ip(WEB, family)]
    link = cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    for target in targets:
        assert f" {target.address}/" in link
    talks = [Talk("client1", target) for target in targets] + [Talk("p3", targets[0])]
    talks += [Talk(NODE, target) for target in targets]  # their source, the virtual address, stops being the node's
    with inside(NODE):
        monitor = subprocess.Popen(["ip", f"-{family}", "monitor", "route"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    there = [len([talk.say() for talk in talks])]
    cluster.reconfigure(**ROUTES)
    there.append(len([talk.say() for talk in talks]))
    assert "inet" not in cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    assert asked("client1", targets[0]) == masqueraded(family)
    cluster.reconfigure()
    there.append(len([talk.say() for talk in talks]))
    assert local_routes(cluster) == set(FOREIGN.values())
    assert asked("client1", targets[0]) == masqueraded(family)
    time.sleep(0.3)
    monitor.terminate()
    lines = monitor.communicate()[0].splitlines()
    assert there == [len(talks)] * 3
    for target in targets:
        nets = (NETWORKS[family],) if target is targets[0] else ()
        assert covered(lines, target.address, nets, 1) == [2, 1, 2, 1], (target, lines)
    for talk in talks:
        talk.abort()
