# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go) as data: external IPs, load balancers, and their allowed clients."""

from __future__ import annotations

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.cases import (
    CA,
    CM,
    EA,
    EM,
    LO,
    MM,
    NPJ,
    ONE,
    S_ALL,
    S_LB,
    V4,
    balancer,
    ports,
)
from support.kube_proxy.wanted import NODE, chain, cluster, members, node, servers

from kubenode.engine.desired.settings import Config

ALLOWED = Config(allowed_external_ips=("50.60.70.0/24", "127.0.0.0/8", "100.101.102.103/32"))
EXTERNAL = ["50.60.70.81", "2012::51", "127.0.0.1"]


def test_external_ips() -> None:
    built = cluster([service(externalIPs=EXTERNAL), V4], config=ALLOWED)
    state = built.state()
    assert servers(state) == {f"tcp {ip}:80": ONE for ip in ("10.20.30.41", "50.60.70.81", "127.0.0.1")}
    assert members(state, "KUBE-EXTERNAL-IP") == ["127.0.0.1,tcp:80", "50.60.70.81,tcp:80"]
    assert members(state, "KUBE-EXTERNAL-IP-LOCAL") == []
    assert chain(state, "KUBE-SERVICES") == [LO, CM, EM, EA, EA, NPJ, CA]
    (message,) = built.problems["Service", "ns1/svc1"]
    assert "spec.externalIPs has '2012::51'" in message


def test_external_ips_without_endpoints() -> None:
    assert servers(cluster([service(externalIPs=["50.60.70.81"])]).state()) == {
        "tcp 10.20.30.41:80": [],
        "tcp 50.60.70.81:80": [],
    }


def test_external_ips_get_no_real_server_of_another_protocol() -> None:
    udp = piece(endpoints=[endpoint("10.180.0.1")], ports=ports("UDP"))
    state = cluster([service(externalIPs=EXTERNAL), udp], config=ALLOWED).state()
    assert servers(state) == {f"tcp {ip}:80": [] for ip in ("10.20.30.41", "50.60.70.81", "127.0.0.1")}


def test_external_ips_local() -> None:
    both = piece(endpoints=[endpoint("10.180.0.1", NODE), endpoint("10.180.1.1", "other-node")])
    state = cluster(
        [service(kind="NodePort", externalIPs=EXTERNAL, externalTrafficPolicy="Local"), both], config=ALLOWED
    ).state()
    assert servers(state) == {
        "tcp 10.20.30.41:80": ["10.180.0.1:80", "10.180.1.1:80"],
        "tcp 50.60.70.81:80": ["10.180.0.1:80"],
        "tcp 127.0.0.1:80": ["10.180.0.1:80"],
    }
    assert members(state, "KUBE-EXTERNAL-IP") == []
    assert members(state, "KUBE-EXTERNAL-IP-LOCAL") == ["127.0.0.1,tcp:80", "50.60.70.81,tcp:80"]
    local = "ACCEPT EXTERNAL-IP-LOCAL"
    assert chain(state, "KUBE-SERVICES") == [LO, CM, local, local, NPJ, CA]


def test_an_external_ip_that_another_link_has_is_not_bound() -> None:
    state = cluster([service(externalIPs=["100.101.102.103", "50.60.70.81"])], node("100.101.102.103"), ALLOWED).state()
    assert sorted(key.address for key in state["address"]) == ["10.20.30.41", "50.60.70.81"]
    assert members(state, "KUBE-IPVS-IPS") == ["10.20.30.41", "50.60.70.81"]
    assert members(state, "KUBE-EXTERNAL-IP") == ["100.101.102.103,tcp:80", "50.60.70.81,tcp:80"]


def test_load_balancer() -> None:
    state = cluster([balancer(), V4]).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ONE, "tcp 1.2.3.4:80": ONE}
    assert members(state, "KUBE-LOAD-BALANCER") == ["1.2.3.4,tcp:80"]
    assert chain(state, "KUBE-SERVICES") == S_LB
    assert chain(state, "KUBE-LOAD-BALANCER") == [MM]


def test_all_external_addresses_together() -> None:
    state = cluster([balancer(externalIPs=["50.60.70.81"]), V4], node("100.101.102.103")).state()
    assert chain(state, "KUBE-SERVICES") == S_ALL
    assert len(servers(state)) == 4


def test_load_balancer_local() -> None:
    state = cluster([balancer(externalTrafficPolicy="Local"), V4], node("100.101.102.103")).state()
    assert members(state, "KUBE-LOAD-BALANCER") == members(state, "KUBE-LOAD-BALANCER-LOCAL") == ["1.2.3.4,tcp:80"]
    assert members(state, "KUBE-NODE-PORT-TCP") == members(state, "KUBE-NODE-PORT-LOCAL-TCP") == ["3001"]
    assert chain(state, "KUBE-LOAD-BALANCER") == ["RETURN LOAD-BALANCER-LOCAL", MM]
    # no local endpoint: kube-proxy falls back to the whole cluster
    assert servers(state)["tcp 1.2.3.4:80"] == ONE


@pytest.mark.parametrize(("mode", "count"), [(None, 2), ("VIP", 2), ("Proxy", 1)])
def test_load_balancer_ip_mode(mode: str | None, count: int) -> None:
    state = cluster([balancer(ingress=[{"ip": "1.2.3.4", "ipMode": mode}])]).state()
    assert len(servers(state)) == count
    assert members(state, "KUBE-LOAD-BALANCER") == ["1.2.3.4,tcp:80"][: count - 1]


DROP = "-s 1.2.3.4/32 -m ipvs --vproto 6 --vaddr 1.2.3.4 --vport 80 -j DROP"
FIREWALL = "RETURN LOAD-BALANCER-SOURCE-CIDR"


@pytest.mark.parametrize(
    ("ranges", "cidrs", "source_ip", "out_filter", "firewall"),
    [
        ([], [], [], [], ["DROP"]),
        (["192.0.2.0/24"], ["1.2.3.4,tcp:80,192.0.2.0/24"], [], [DROP], [FIREWALL, "DROP"]),
        ([" 192.0.2.7/32 "], ["1.2.3.4,tcp:80,192.0.2.7"], [], [DROP], [FIREWALL, "DROP"]),
        (
            ["192.0.2.0/24", "100.101.0.0/16"],
            ["1.2.3.4,tcp:80,100.101.0.0/16", "1.2.3.4,tcp:80,192.0.2.0/24"],
            ["1.2.3.4,tcp:80,1.2.3.4"],
            [],
            [FIREWALL, "RETURN LOAD-BALANCER-SOURCE-IP", "DROP"],
        ),
        (["2001:db8::/32"], [], [], [], ["DROP"]),
        (["192.0.2.0/24", "10.0.0.0/0"], [], [], [], ["DROP"]),
        (["192.0.2.0/24", "::/0"], ["1.2.3.4,tcp:80,192.0.2.0/24"], [], [DROP], [FIREWALL, "DROP"]),
    ],
    ids=[
        "none",
        "without the node",
        "one address",
        "with the node",
        "of the other family only",
        "everybody",
        "everybody of the other family",
    ],
)
def test_source_ranges(
    ranges: list[str], cidrs: list[str], source_ip: list[str], out_filter: list[str], firewall: list[str]
) -> None:
    state = cluster([balancer(loadBalancerSourceRanges=ranges)], node("100.101.102.103")).state()
    assert members(state, "KUBE-LOAD-BALANCER-SOURCE-CIDR") == cidrs
    assert members(state, "KUBE-LOAD-BALANCER-SOURCE-IP") == source_ip
    assert members(state, "KUBE-LOAD-BALANCER-FW") == (["1.2.3.4,tcp:80"] if cidrs else [])
    assert chain(state, "KUBE-SOURCE-RANGES-FIREWALL") == firewall
    assert chain(state, "KUBE-PROXY-FIREWALL") == (["KUBE-SOURCE-RANGES-FIREWALL LOAD-BALANCER-FW"] if cidrs else [])
    (rules,) = [
        rules for key, rules in state["chain"].items() if key.chain == "KUBE-IPVS-OUT-FILTER" and key.family == 4
    ]
    assert list(rules) == out_filter


@pytest.mark.parametrize(("net", "inside"), [("127.0.0.0/8", True), ("192.0.2.0/24", False)])
def test_source_ranges_without_node_address(net: str, inside: bool) -> None:
    """kube-proxy assumes 127.0.0.1 then, too."""
    state = cluster([balancer(loadBalancerSourceRanges=[net])]).state()
    assert bool(members(state, "KUBE-LOAD-BALANCER-SOURCE-IP")) is inside
    (rules,) = [
        rules for key, rules in state["chain"].items() if key.chain == "KUBE-IPVS-OUT-FILTER" and key.family == 4
    ]
    assert bool(rules) is not inside


def test_services_share_an_external_ip() -> None:
    first = service("a", ["10.0.0.1"], [port(80)], externalIPs=["50.60.70.81"])
    second = service("b", ["10.0.0.2"], [port(443)], externalIPs=["50.60.70.81"])
    built = cluster([first, second])
    assert built.problems == {}
    built.remove("Service", "ns1", "a")
    assert sorted(key.address for key in built.state()["address"]) == ["10.0.0.2", "50.60.70.81"]
    built.remove("Service", "ns1", "b")
    assert built.state()["address"] == {}
