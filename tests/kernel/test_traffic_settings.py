# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of settings on traffic, each given to the running agent by a reload.

The tests also check that items of other software stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.agent.process import eventually
from support.traffic.cluster import HOST_PORT, Cluster, balancer_ip, cluster_ip, external_ip, node_port, service
from support.traffic.conversation import FORBIDDEN, REFUSED, SILENCE, Target, ask, asked, ping
from support.traffic.network import APPLIANCE_IP, GATEWAY, HOSTS, NODE

WEB, EMPTY, APPLIANCE, LOCAL = 80, 81, 82, 83
FOREIGN_PORT = 7000


def fill(cluster: Cluster) -> None:
    """Write the Services of this file's tests, and add a virtual server of other software."""
    every = ("tcp", "udp", "sctp")
    cluster.write("web", service(WEB, ["p1", "r1"], protocols=every, node_port=30080, external=True, balancer=True))
    cluster.write("empty", service(EMPTY, [], protocols=["tcp", "udp"], node_port=30081, external=True, balancer=True))
    ingress = [{"ip": APPLIANCE_IP[family].format(1)} for family in (4, 6)]
    cluster.write("appliance", service(APPLIANCE, ["p1"], kind="LoadBalancer", ingress=ingress))
    cluster.write("local", service(LOCAL, ["p1"], node_port=30083, externalTrafficPolicy="Local"))
    for family in (4, 6):
        where, real = node_port(FOREIGN_PORT, family), HOSTS["r2"].ip[family]
        bracket = "{}" if family == 4 else "[{}]"
        virtual, server = (bracket.format(address) for address in (where.address, real))
        cluster.run("ipvsadm", "-A", "-t", f"{virtual}:{FOREIGN_PORT}", "-s", "rr")
        cluster.run("ipvsadm", "-a", "-t", f"{virtual}:{FOREIGN_PORT}", "-r", f"{server}:8080", "-m")


def clear(cluster: Cluster) -> None:
    """Remove the virtual server of other software."""
    for family in (4, 6):
        address = HOSTS[NODE].ip[family]
        cluster.run("ipvsadm", "-D", "-t", f"{address if family == 4 else f'[{address}]'}:{FOREIGN_PORT}")


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Iterator[Cluster]:
    fill(rules_cluster)
    rules_cluster.start()
    yield rules_cluster
    clear(rules_cluster)


def masqueraded(family: int) -> dict[str, int]:
    return {f"p1 sees {GATEWAY[family]}": 2, f"r1 sees {HOSTS[NODE].ip[family]}": 2}


# the defaults


def test_host_ports_are_unreachable_through_virtual_addresses(cluster: Cluster, family: int) -> None:
    client = HOSTS["client1"].ip[family]
    assert ask("client1", Target(HOSTS[NODE].ip[family], HOST_PORT)) == f"host sees {client}"
    target_of = {
        "p3": cluster_ip(WEB, family),
        "client1": external_ip(WEB, family),
        "client2": balancer_ip(WEB, family),
    }
    for where, virtual in target_of.items():
        assert ask(where, virtual._replace(port=HOST_PORT)) == REFUSED, (where, virtual)


def test_a_virtual_address_refuses_echo_requests(cluster: Cluster, family: int) -> None:
    assert ping("client1", HOSTS[NODE].ip[family]) == "pong"
    assert ping("client1", cluster_ip(WEB, family).address) == REFUSED


def test_foreign_virtual_server_keeps_serving(cluster: Cluster, family: int) -> None:
    assert cluster.weights(node_port(FOREIGN_PORT, family)) == {"r2": 1}
    # r2 answers; no rule masquerades this traffic, so only the node itself gets the answer
    assert ask(NODE, node_port(FOREIGN_PORT, family)) == f"r2 sees {HOSTS[NODE].ip[family]}"


def test_a_load_balancer_address_is_taken_by_the_node(cluster: Cluster, family: int) -> None:
    assert ask("p3", Target(APPLIANCE_IP[family].format(1), 80)) == f"p1 sees {GATEWAY[family]}"


# KubeProxyConfiguration


def test_masquerade_all_masquerades_cluster_traffic(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"iptables": {"masqueradeAll": True}})
    assert asked("p3", cluster_ip(WEB, family)) == masqueraded(family)


@pytest.mark.parametrize(
    "detect",
    [
        {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
        {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "cni"}},
    ],
    ids=["bridge", "prefix"],
)
def test_pods_are_detected_by_their_interface(cluster: Cluster, family: int, detect: dict[str, object]) -> None:
    cluster.reconfigure({"clusterCIDR": "", **detect})
    mine = HOSTS["p3"].ip[family]
    assert asked("p3", cluster_ip(WEB, family)) == {f"p1 sees {mine}": 2, f"r1 sees {mine}": 2}
    assert asked("client1", cluster_ip(WEB, family)) == masqueraded(family)
    assert asked(NODE, cluster_ip(WEB, family)) == masqueraded(family)


@pytest.mark.parametrize("selected", [["10.99.0.0/24", "fd00:99::/64"], ["primary"]], ids=["networks", "primary"])
def test_node_port_addresses_limit_node_ports(cluster: Cluster, family: int, selected: list[str]) -> None:
    cluster.reconfigure({"nodePortAddresses": selected})
    for protocol in ("tcp", "sctp"):
        assert asked("client1", node_port(30080, family, protocol)) == masqueraded(family)
    assert ask("p3", Target(GATEWAY[family], 30080)) == REFUSED


def test_excluded_networks_keep_their_virtual_servers(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"ipvs": {"excludeCIDRs": ["10.99.0.0/24", "fd00:99::/64"]}})
    assert ask(NODE, node_port(FOREIGN_PORT, family)) == f"r2 sees {HOSTS[NODE].ip[family]}"
    assert asked("client1", node_port(30080, family)) == masqueraded(family)


def test_masquerade_bit_changes_the_mark(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"iptables": {"masqueradeBit": 20}})
    assert re.search("0x(00)?100000", cluster.rules(family))
    assert asked("client1", node_port(30080, family)) == masqueraded(family)


# AgentConfiguration


def test_vip_ping_answers_echo_requests(cluster: Cluster, family: int) -> None:
    cluster.reconfigure(vipPing=True)
    for where in ("client1", "p3", NODE):
        for target in (cluster_ip(WEB, family), external_ip(WEB, family), balancer_ip(WEB, family)):
            assert ping(where, target.address) == "pong", (where, target)
    # no other port answers
    assert ask("client1", cluster_ip(WEB, family, port=HOST_PORT)) == REFUSED


@pytest.mark.parametrize("where", ["client1", "p3", NODE])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_reject_refuses_connections_without_endpoints(cluster: Cluster, family: int, protocol: str, where: str) -> None:
    cluster.reconfigure(noEndpoints="reject")
    counted = cluster.backend == "iptables"  # rules of nftables count nothing
    before = rejected(cluster, family) if counted else {}
    targets = [cluster_ip(EMPTY, family, protocol=protocol), node_port(30081, family, protocol)]
    # IPVS itself refuses traffic of the node, before any filter
    wanted = FORBIDDEN if (where, protocol) == (NODE, "udp") else REFUSED
    assert {target: ask(where, target) for target in targets} == dict.fromkeys(targets, wanted)
    assert asked("client1", cluster_ip(WEB, family)) == masqueraded(family)
    if counted:
        more = {kind: count - before.get(kind, 0) for kind, count in rejected(cluster, family).items()}
        refusal = "tcp-reset" if protocol == "tcp" else f"icmp{'' if family == 4 else 6}-port-unreachable"
        assert {kind: count > 0 for kind, count in more.items()} == {
            kind: kind == refusal and where != NODE for kind in more
        }
        assert refusal in more


def rejected(cluster: Cluster, family: int) -> dict[str, int]:
    """Return the packets that rules for virtual servers without endpoints have rejected, by kind of refusal."""
    name = "KUBE-NO-ENDPOINTS" if family == 4 else "KUBE-6-NO-ENDPOINTS"
    tool = "iptables-save" if family == 4 else "ip6tables-save"
    lines = cluster.run(tool, "-c", "-t", "filter").splitlines()
    rules = [line for line in lines if f"--match-set {name} " in line and " KUBE-IPVS-FILTER " in line]
    return {line.split()[-1]: int(line[1:].partition(":")[0]) for line in rules}


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("where", ["client1", "p3", NODE])
def test_unbound_load_balancer_address_is_not_taken(cluster: Cluster, family: int, where: str, protocol: str) -> None:
    """Traffic to the load balancer's address leaves the node and keeps its source address."""
    target = Target(APPLIANCE_IP[family].format(1), 80, protocol)
    # the address stays as long as a connection to it does
    cluster.reconfigure(bindLoadBalancerIPs=False, gracefulTermination={"maxDuration": "1s"})
    eventually(lambda: f" {target.address}/" not in cluster.run("ip", "addr", "show", "dev", "kube-ipvs0"))
    assert ask(where, target) == f"appliance sees {HOSTS[where].ip[family]}"
    assert asked("client1", node_port(30080, family)) == masqueraded(family)


def test_localhost_node_ports_are_served(cluster: Cluster) -> None:
    target = Target("127.0.0.1", 30080)
    assert ask(NODE, target) == REFUSED
    cluster.reconfigure(localhostNodePorts=True)
    for protocol in ("tcp", "udp", "sctp"):
        assert asked(NODE, target._replace(protocol=protocol), 16).keys() == masqueraded(4).keys(), protocol
    assert ask(NODE, target._replace(port=30083)) == f"p1 sees {GATEWAY[4]}"  # the policy Local too
    assert asked("client1", node_port(30080, 4)) == masqueraded(4)
    assert asked(NODE, node_port(30080, 4)) == masqueraded(4)


def test_localhost_node_ports_stay_closed_to_others(cluster: Cluster, intruder: str) -> None:
    target = Target("127.0.0.1", HOST_PORT)
    cluster.reconfigure()
    cluster.run("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    assert ask(intruder, target) == f"host sees {HOSTS[intruder].ip[4]}"  # the sysctl alone lets every host in
    cluster.reconfigure(localhostNodePorts=True)
    assert ask(intruder, target, timeout=1) == SILENCE
    assert ask(intruder, target._replace(port=30080), timeout=1) == SILENCE
    assert ask(NODE, target) == "host sees 127.0.0.1"
