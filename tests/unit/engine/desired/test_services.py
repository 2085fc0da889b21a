# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go), as data: which virtual servers, sets and rules come of a Service."""

from __future__ import annotations

from typing import Any

import pytest
from support.objects import endpoint, piece, port, service
from support.wanted import NODE, chain, cluster, members, node, servers

from kubenode.engine.desired.config import Config

LO, LBJ, CM, NPJ = "RETURN", "KUBE-LOAD-BALANCER LOAD-BALANCER", "KUBE-MARK-MASQ CLUSTER-IP", "KUBE-NODE-PORT"
CA, LA, MM = "ACCEPT CLUSTER-IP", "ACCEPT LOAD-BALANCER", "KUBE-MARK-MASQ"
EM, EA = "KUBE-MARK-MASQ EXTERNAL-IP", "ACCEPT EXTERNAL-IP"
HCA = "ACCEPT HEALTH-CHECK-NODE-PORT"
S_PLAIN = [LO, CM, NPJ, CA]
S_LB = [LO, LBJ, CM, NPJ, CA, LA]
S_ALL = [LO, LBJ, CM, EM, EA, EA, NPJ, CA, LA]
EVERYWHERE = Config(node_port_addresses=("0.0.0.0/0",))
DUAL = ("100.101.102.103", "2001:db8::1:1")


def node_port(protocol: str = "TCP", ip: str = "10.20.30.41", **more: Any) -> dict[str, Any]:
    return service(cluster_ips=[ip], ports=[port(80, "p80", protocol, 3001)], kind="NodePort", **more)


def ports(protocol: str) -> list[dict[str, Any]]:
    return [{"name": "p80", "protocol": protocol, "port": 80}]


V4 = piece(endpoints=[endpoint("10.180.0.1")])
V6 = piece(endpoints=[endpoint("1002:ab8::2:10")], family=6)
ONE = ["10.180.0.1:80"]


@pytest.mark.parametrize(
    ("objects", "node_ips", "config", "wanted"),
    [
        pytest.param(
            [node_port(), V4, V6], DUAL, Config(), {"tcp 10.20.30.41:80": ONE, "tcp 100.101.102.103:3001": ONE}, id="two families"
        ),
        pytest.param(
            [node_port("UDP"), piece(endpoints=[endpoint("10.180.0.1")], ports=ports("UDP"))],
            ("100.101.102.103",),
            EVERYWHERE,
            {"udp 10.20.30.41:80": ONE, "udp 100.101.102.103:3001": ONE},
            id="UDP",
        ),
        pytest.param(
            [node_port()],
            ("100.101.102.103",),
            Config(),
            {"tcp 10.20.30.41:80": [], "tcp 100.101.102.103:3001": []},
            id="no endpoints: servers are there, without real servers",
        ),
        pytest.param(
            [node_port("SCTP"), piece(endpoints=[endpoint("10.180.0.1")], ports=ports("SCTP"))],
            ("100.101.102.103", "100.101.102.104", "100.101.102.105", "2001:db8::1:1", "2001:db8::1:2"),
            Config(),
            {f"sctp {ip}": ONE for ip in ("10.20.30.41:80", *(f"100.101.102.10{n}:3001" for n in (3, 4, 5)))},
            id="SCTP, several node addresses",
        ),
    ],
)
def test_node_port_4(objects: list[Any], node_ips: tuple[str, ...], config: Config, wanted: dict[str, list[str]]) -> None:
    state = cluster(objects, node(*node_ips), config).state()
    assert servers(state) == wanted
    assert servers(state, 6) == {}


def test_node_port_udp_sets_and_rules() -> None:
    objects = [node_port("UDP"), piece(endpoints=[endpoint("10.180.0.1")], ports=ports("UDP"))]
    state = cluster(objects, node("100.101.102.103"), EVERYWHERE).state()
    assert members(state, "KUBE-NODE-PORT-UDP") == ["3001"]
    assert chain(state, "KUBE-NODE-PORT") == ["KUBE-MARK-MASQ NODE-PORT-UDP", HCA]
    assert chain(state, "KUBE-SERVICES") == S_PLAIN


def test_node_port_sctp_has_an_entry_for_each_address() -> None:
    state = cluster([node_port("SCTP")], node("100.101.102.103", "100.101.102.104", "2001:db8::1:1")).state()
    assert members(state, "KUBE-NODE-PORT-SCTP-HASH") == ["100.101.102.103,sctp:3001", "100.101.102.104,sctp:3001"]
    assert members(state, "KUBE-6-NODE-PORT-SCTP-HASH") == []


def test_node_port_sctp_local() -> None:
    local = piece(endpoints=[endpoint("10.180.0.1", NODE), endpoint("10.180.1.1", "other-node")], ports=ports("SCTP"))
    state = cluster([node_port("SCTP", externalTrafficPolicy="Local"), local], node("100.101.102.103")).state()
    assert servers(state) == {
        "sctp 10.20.30.41:80": ["10.180.0.1:80", "10.180.1.1:80"],
        "sctp 100.101.102.103:3001": ["10.180.0.1:80"],
    }
    assert members(state, "KUBE-NODE-PORT-SCTP-HASH") == ["100.101.102.103,sctp:3001"]
    assert members(state, "KUBE-NODE-PORT-LOCAL-SCTP-HASH") == ["100.101.102.103,sctp:3001"]
    assert chain(state, "KUBE-NODE-PORT") == ["RETURN NODE-PORT-LOCAL-SCTP-HASH", "KUBE-MARK-MASQ NODE-PORT-SCTP-HASH", HCA]


SIX = ["[1002:ab8::2:10]:80"]


@pytest.mark.parametrize(
    ("objects", "node_ips", "wanted"),
    [
        pytest.param(
            [node_port(ip="2020::1"), V4, V6], DUAL, {"tcp [2020::1]:80": SIX, "tcp [2001:db8::1:1]:3001": SIX}, id="two families"
        ),
        pytest.param(
            [node_port("UDP"), piece(endpoints=[endpoint("10.180.0.1")], ports=ports("UDP"), family=6)],
            ("100.101.102.103",),
            {},
            id="an IPv4 service with a slice that lies about its family",
        ),
        pytest.param(
            [node_port(ip="2020::1")], DUAL, {"tcp [2020::1]:80": [], "tcp [2001:db8::1:1]:3001": []}, id="no endpoints"
        ),
        pytest.param(
            [node_port("SCTP", "2020::1"), piece(endpoints=[endpoint("2001::1")], ports=ports("SCTP"), family=6)],
            ("2001:db8::1:1", "2001:db8::1:2"),
            {f"sctp {ip}": ["[2001::1]:80"] for ip in ("[2020::1]:80", "[2001:db8::1:1]:3001", "[2001:db8::1:2]:3001")},
            id="SCTP",
        ),
    ],
)
def test_node_port_6(objects: list[Any], node_ips: tuple[str, ...], wanted: dict[str, list[str]]) -> None:
    assert servers(cluster(objects, node(*node_ips)).state(), 6) == wanted


def test_a_service_in_each_family() -> None:
    state = cluster(
        [
            service("svc1"),
            service("svc2", ["1002:ab8::2:1"], [port(8080, "p8080")], namespace="ns2"),
            V4,
            piece(
                "svc2",
                [endpoint("1009:ab8::5:6")],
                [{"name": "p8080", "protocol": "TCP", "port": 8080}],
                namespace="ns2",
                family=6,
            ),
        ]
    ).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ONE}
    assert servers(state, 6) == {"tcp [1002:ab8::2:1]:8080": ["[1009:ab8::5:6]:8080"]}


EXTERNAL = ["50.60.70.81", "2012::51", "127.0.0.1"]


def test_external_ips() -> None:
    built = cluster([service(externalIPs=EXTERNAL), V4])
    state = built.state()
    assert servers(state) == {f"tcp {ip}:80": ONE for ip in ("10.20.30.41", "50.60.70.81", "127.0.0.1")}
    assert members(state, "KUBE-EXTERNAL-IP") == ["127.0.0.1,tcp:80", "50.60.70.81,tcp:80"]
    assert members(state, "KUBE-EXTERNAL-IP-LOCAL") == []
    assert chain(state, "KUBE-SERVICES") == [LO, CM, EM, EA, EA, NPJ, CA]
    (said,) = built.problems["Service", "ns1/svc1"]
    assert "spec.externalIPs has '2012::51'" in said


def test_external_ips_without_endpoints() -> None:
    assert servers(cluster([service(externalIPs=["50.60.70.81"])]).state()) == {
        "tcp 10.20.30.41:80": [],
        "tcp 50.60.70.81:80": [],
    }


def test_external_ips_get_no_real_server_of_another_protocol() -> None:
    state = cluster([service(externalIPs=EXTERNAL), piece(endpoints=[endpoint("10.180.0.1")], ports=ports("UDP"))]).state()
    assert servers(state) == {f"tcp {ip}:80": [] for ip in ("10.20.30.41", "50.60.70.81", "127.0.0.1")}


def test_external_ips_local() -> None:
    both = piece(endpoints=[endpoint("10.180.0.1", NODE), endpoint("10.180.1.1", "other-node")])
    state = cluster([service(kind="NodePort", externalIPs=EXTERNAL, externalTrafficPolicy="Local"), both]).state()
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
    state = cluster([service(externalIPs=["100.101.102.103", "50.60.70.81"])], node("100.101.102.103")).state()
    assert sorted(key.address for key in state["address"]) == ["10.20.30.41", "50.60.70.81"]
    assert members(state, "KUBE-IPVS-IPS") == ["10.20.30.41", "50.60.70.81"]
    assert members(state, "KUBE-EXTERNAL-IP") == ["100.101.102.103,tcp:80", "50.60.70.81,tcp:80"]


def balancer(**more: Any) -> dict[str, Any]:
    return service(ports=[port(node_port=3001)], kind="LoadBalancer", **{"ingress": [{"ip": "1.2.3.4"}], **more})


def test_load_balancer() -> None:
    state = cluster([balancer(), V4]).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ONE, "tcp 1.2.3.4:80": ONE}
    assert members(state, "KUBE-LOAD-BALANCER") == ["1.2.3.4,tcp:80"]
    assert chain(state, "KUBE-SERVICES") == S_LB
    assert chain(state, "KUBE-LOAD-BALANCER") == [MM]


def test_everything_at_once() -> None:
    state = cluster([balancer(externalIPs=["50.60.70.81"]), V4], node("100.101.102.103")).state()
    assert chain(state, "KUBE-SERVICES") == S_ALL
    assert len(servers(state)) == 4


def test_load_balancer_local() -> None:
    state = cluster([balancer(externalTrafficPolicy="Local"), V4], node("100.101.102.103")).state()
    assert members(state, "KUBE-LOAD-BALANCER") == members(state, "KUBE-LOAD-BALANCER-LOCAL") == ["1.2.3.4,tcp:80"]
    assert members(state, "KUBE-NODE-PORT-TCP") == members(state, "KUBE-NODE-PORT-LOCAL-TCP") == ["3001"]
    assert chain(state, "KUBE-LOAD-BALANCER") == ["RETURN LOAD-BALANCER-LOCAL", MM]
    # no endpoint is here: kube-proxy falls back to the whole cluster
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
        # no set can hold a network of everything; kube-proxy ends up letting nobody in
        (
            ["0.0.0.0/0"],
            ["1.2.3.4,tcp:80,0.0.0.0/1", "1.2.3.4,tcp:80,128.0.0.0/1"],
            ["1.2.3.4,tcp:80,1.2.3.4"],
            [],
            [FIREWALL, "RETURN LOAD-BALANCER-SOURCE-IP", "DROP"],
        ),
    ],
    ids=["none", "without the node", "one address", "with the node", "of the other family only", "everybody"],
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
    (rules,) = [rules for key, rules in state["chain"].items() if key.chain == "KUBE-IPVS-OUT-FILTER" and key.family == 4]
    assert list(rules) == out_filter


@pytest.mark.parametrize(("net", "inside"), [("127.0.0.0/8", True), ("192.0.2.0/24", False), ("0.0.0.0/0", True)])
def test_source_ranges_of_a_node_whose_address_nobody_knows(net: str, inside: bool) -> None:
    """As kube-proxy, which assumes 127.0.0.1 then."""
    state = cluster([balancer(loadBalancerSourceRanges=[net])]).state()
    assert bool(members(state, "KUBE-LOAD-BALANCER-SOURCE-IP")) is inside
    (rules,) = [rules for key, rules in state["chain"].items() if key.chain == "KUBE-IPVS-OUT-FILTER" and key.family == 4]
    assert bool(rules) is not inside


SOMEWHERE = [
    service(
        "cluster-ip",
        ["172.16.55.4"],
        [port(1234, "something", "UDP"), port(1235, "somethingelse", "UDP"), port(1236, "somesctp", "SCTP")],
        namespace="somewhere-else",
    ),
    service(
        "node-port",
        ["172.16.55.10"],
        [port(345, "blahblah", "UDP", 678), port(344, "moreblahblah", "TCP", 677), port(343, "sctpblah", "SCTP", 676)],
        namespace="somewhere-else",
        kind="NodePort",
    ),
    service(
        "load-balancer",
        ["172.16.55.11"],
        [port(8675, "foobar", "UDP", 30061), port(8676, "baz", "UDP", 30062), port(8677, "sctpfoo", "SCTP", 30063)],
        namespace="somewhere",
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.4"}],
    ),
    service(
        "only-local-load-balancer",
        ["172.16.55.12"],
        [port(8677, "foobar2", "UDP", 30063), port(8678, "baz", "UDP", 30064), port(8679, "sctpbaz", "SCTP", 30065)],
        namespace="somewhere",
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.3"}],
        externalTrafficPolicy="Local",
        healthCheckNodePort=345,
    ),
]


def test_services_come_and_go() -> None:
    built = cluster(SOMEWHERE)
    assert len(members(built.state(), "KUBE-CLUSTER-IP")) == 12
    (check,) = built.health_checks().values()
    assert (check.namespace, check.name, check.port) == ("somewhere", "only-local-load-balancer", 345)
    built.put(service("cluster-ip", ["172.16.55.4"], [port(1235, "somethingelse", "UDP")], namespace="somewhere-else"))
    for namespace, name in (
        ("somewhere-else", "node-port"),
        ("somewhere", "load-balancer"),
        ("somewhere", "only-local-load-balancer"),
    ):
        built.remove("Service", namespace, name)
    assert servers(built.state()) == {"udp 172.16.55.4:1235": []}
    assert built.health_checks() == {}
    built.remove("Service", "somewhere-else", "cluster-ip")
    empty = cluster([]).state()
    assert built.state() == empty


@pytest.mark.parametrize(
    "obj",
    [
        service(cluster_ips=["None"], ports=[port(1234, "rpc", "UDP")]),
        service(cluster_ips=["None"], ports=[]),
        service(cluster_ips=["None"], ports=[port(1235, "sip", "SCTP")]),
        service(
            cluster_ips=["172.16.55.4"], kind="ExternalName", ports=[port(1235, protocol="UDP")], externalName="foo2.bar.com"
        ),
        service(labels={"service.kubernetes.io/service-proxy-name": "other"}),
        service(labels={"service.kubernetes.io/service-proxy-name": ""}),
        service(labels={"service.kubernetes.io/headless": ""}),
    ],
    ids=[
        "headless",
        "headless without ports",
        "headless SCTP",
        "ExternalName",
        "another proxy's",
        "label without value",
        "label",
    ],
)
def test_services_that_are_not_for_us(obj: dict[str, Any]) -> None:
    built = cluster([obj, V4], node("100.101.102.103"))
    assert built.state() == cluster([], node("100.101.102.103")).state()
    assert built.problems == {}


def test_a_service_becomes_a_load_balancer_and_is_one_no_more() -> None:
    two = [port(1234, "something", "UDP"), port(1235, "somethingelse", "TCP")]
    plain = service(cluster_ips=["172.16.55.4"], ports=two)
    local = service(
        cluster_ips=["172.16.55.4"],
        ports=two,
        kind="LoadBalancer",
        ingress=[{"ip": "10.1.2.3"}],
        externalTrafficPolicy="Local",
        healthCheckNodePort=345,
    )
    built = cluster([])
    for obj, checks in ((plain, []), (local, [345]), (local, [345]), (plain, [])):
        built.put(obj)
        assert len(members(built.state(), "KUBE-CLUSTER-IP")) == 2
        assert list(built.health_checks()) == checks
        assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == [str(number) for number in checks]


def test_one_address_for_all_ports() -> None:
    one = [port(1234, "a")]
    two = [*one, port(1235, "b")]
    three = [*two, port(1236, "c", "UDP")]
    built = cluster([])
    for wanted in (two, one, three):
        built.put(service(cluster_ips=["172.16.55.4"], ports=wanted))
        assert [key.address for key in built.state()["address"]] == ["172.16.55.4"]
    built.remove("Service", "ns1", "svc1")
    assert built.state()["address"] == {}


def test_endpoint_slice_end_to_end() -> None:
    unnamed = [{"name": "", "protocol": "TCP", "port": 80}]
    endpoints = [
        endpoint("10.0.1.1", NODE, ready=True),
        endpoint("10.0.1.2", "node2", ready=True),
        endpoint("10.0.1.3", "node3", ready=True),
        endpoint("10.0.1.4", "node3", ready=False),
    ]
    built = cluster([service(cluster_ips=["172.20.1.1"], ports=[port(80, "")]), piece(endpoints=endpoints, ports=unnamed)])
    assert members(built.state(), "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]
    assert servers(built.state()) == {"tcp 172.20.1.1:80": ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"]}
    built.remove("EndpointSlice", "ns1", "svc1-4")
    assert members(built.state(), "KUBE-LOOP-BACK") == []
    assert servers(built.state()) == {"tcp 172.20.1.1:80": []}


def test_loop_back_has_local_endpoints_that_are_not_ready() -> None:
    built = cluster([service(), piece(endpoints=[endpoint("10.0.1.1", NODE, ready=False, serving=False)])])
    assert members(built.state(), "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]
    assert servers(built.state()) == {"tcp 10.20.30.41:80": []}


def local_balancer(health_check: int) -> dict[str, Any]:
    return service(
        cluster_ips=["172.20.1.1"],
        ports=[port(80, "")],
        kind="LoadBalancer",
        externalTrafficPolicy="Local",
        healthCheckNodePort=health_check,
    )


def test_health_check_node_port() -> None:
    built = cluster([local_balancer(30000)])
    for number in (30000, 30001):
        built.put(local_balancer(number))
        assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == [str(number)]
        assert members(built.state(), "KUBE-6-HEALTH-CHECK-NODE-PORT") == []
    built.remove("Service", "ns1", "svc1")
    assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []


@pytest.mark.parametrize(
    "change",
    [{"kind": "NodePort"}, {"externalTrafficPolicy": "Cluster"}, {"healthCheckNodePort": 0}],
    ids=["no load balancer", "not local", "no port"],
)
def test_health_check_node_port_only_where_it_is_honoured(change: dict[str, Any]) -> None:
    given = {"kind": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000, **change}
    built = cluster([service(**given)])
    assert members(built.state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []
    assert built.health_checks() == {}


def test_no_health_check_entry_when_a_node_port_finds_no_address() -> None:
    """As kube-proxy, which goes on with the next service port at that point."""
    obj = service(ports=[port(node_port=3001)], kind="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30000)
    assert members(cluster([obj]).state(), "KUBE-HEALTH-CHECK-NODE-PORT") == []
    assert members(cluster([obj], node("100.101.102.103")).state(), "KUBE-HEALTH-CHECK-NODE-PORT") == ["30000"]


def test_health_check_counts_local_ready_endpoints() -> None:
    unnamed = [{"name": "", "protocol": "TCP", "port": 80}]
    before = [
        endpoint("10.0.1.1", NODE, ready=True),
        endpoint("10.0.1.2", NODE, ready=True),
        endpoint("10.0.1.3", ready=True),
        endpoint("10.0.1.4", NODE, ready=False),
    ]
    after = [
        endpoint("10.0.1.1", NODE, ready=False, serving=True, terminating=False),
        endpoint("10.0.1.2", NODE, ready=False, serving=True, terminating=True),
        endpoint("10.0.1.3", NODE, ready=False, serving=True, terminating=True),
        endpoint("10.0.1.4", NODE, ready=False, serving=False, terminating=True),
    ]
    built = cluster([local_balancer(30000), piece(endpoints=before, ports=unnamed)])
    assert built.health_checks()[30000].local_endpoints == {4: 2}
    built.put(piece(endpoints=after, ports=unnamed))
    assert built.health_checks()[30000].local_endpoints == {4: 0}


def test_duplicate_endpoints_across_slices_count_once() -> None:
    objects = [
        service(),
        piece(endpoints=[endpoint("10.0.1.1", "node2"), endpoint("10.0.1.2")], name="one"),
        piece(endpoints=[endpoint("10.0.1.1", NODE), endpoint("10.0.1.2")], name="two"),
        piece(endpoints=[endpoint("10.0.1.1")], ports=[{"name": "p80", "protocol": "TCP", "port": 81}], name="three"),
    ]
    state = cluster(objects).state()
    assert servers(state) == {"tcp 10.20.30.41:80": ["10.0.1.1:80", "10.0.1.1:81", "10.0.1.2:80"]}
    # the slice that says that the endpoint is here is believed
    assert members(state, "KUBE-LOOP-BACK") == ["10.0.1.1,tcp:80,10.0.1.1"]


def test_a_port_that_no_slice_names_has_no_real_servers() -> None:
    objects = [service(ports=[port(80, "p80"), port(81, "other")]), V4]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": ONE, "tcp 10.20.30.41:81": []}


@pytest.mark.parametrize("number", [None, 0])
def test_a_slice_may_leave_a_port_out(number: int | None) -> None:
    """It means all ports, or nothing; the other ports of the slice are used."""
    ports = [{"name": "other", "protocol": "TCP", "port": number}, {"name": "p80", "protocol": "TCP", "port": 80}]
    objects = [service(ports=[port(80), port(81, "other")]), piece(endpoints=[endpoint("10.180.0.1")], ports=ports)]
    built = cluster(objects)
    assert servers(built.state()) == {"tcp 10.20.30.41:80": ONE, "tcp 10.20.30.41:81": []}
    assert built.problems == {}


def test_one_port_with_another_number_in_each_slice() -> None:
    old = piece(endpoints=[endpoint("10.180.0.1")], ports=[{"name": "p80", "protocol": "TCP", "port": 8080}], name="old")
    new = piece(endpoints=[endpoint("10.180.0.2")], ports=[{"name": "p80", "protocol": "TCP", "port": 9090}], name="new")
    assert servers(cluster([service(), old, new]).state()) == {"tcp 10.20.30.41:80": ["10.180.0.1:8080", "10.180.0.2:9090"]}


def test_slices_of_another_namespace_are_another_services() -> None:
    objects = [service(), piece(endpoints=[endpoint("10.180.0.1")], namespace="ns2")]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": []}


@pytest.mark.parametrize("label", ["service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name"])
def test_slices_that_are_not_for_us(label: str) -> None:
    objects = [service(), piece(endpoints=[endpoint("10.180.0.1")], labels={label: ""})]
    assert servers(cluster(objects).state()) == {"tcp 10.20.30.41:80": []}


def test_names_of_hosts_are_not_for_a_proxy() -> None:
    built = cluster([service(), {**piece(endpoints=[endpoint("db.example.com")]), "addressType": "FQDN"}])
    assert servers(built.state()) == {"tcp 10.20.30.41:80": []}
    assert built.problems == {}


@pytest.mark.parametrize(("seconds", "wanted"), [(None, 10800), (60, 60)])
def test_affinity(seconds: int | None, wanted: int) -> None:
    config = {} if seconds is None else {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}
    obj = balancer(sessionAffinity="ClientIP", externalIPs=["50.60.70.81"], **config)
    state = cluster([obj], node("100.101.102.103")).state()
    assert len(state["virtual_server"]) == 4
    assert {(value.flags, value.timeout, value.netmask) for value in state["virtual_server"].values()} == {(1, wanted, 32)}


@pytest.mark.parametrize(("scheduler", "flags"), [("mh", 0x10), ("sh", 0), ("wrr", 0)])
def test_scheduler(scheduler: str, flags: int) -> None:
    six = service("svc6", ["2020::1"], sessionAffinity="ClientIP")
    state = cluster([service(), six], config=Config(scheduler=scheduler)).state()
    found = {key.family: value for key, value in state["virtual_server"].items()}
    assert (found[4].scheduler, found[4].flags, found[4].netmask) == (scheduler, flags, 32)
    assert (found[6].scheduler, found[6].flags, found[6].netmask) == (scheduler, flags | 1, 128)


def test_addresses_are_canonical() -> None:
    objects = [
        service(cluster_ips=["FD00:0:0::00AB"], externalIPs=["FE80:0000:0000:0000:0202:B3FF:FE1E:8329"]),
        piece(endpoints=[endpoint("FD00:0:0::0001", NODE)], family=6),
    ]
    state = cluster(objects).state()
    assert servers(state, 6) == {"tcp [fd00::ab]:80": ["[fd00::1]:80"], "tcp [fe80::202:b3ff:fe1e:8329]:80": ["[fd00::1]:80"]}
    assert members(state, "KUBE-6-LOOP-BACK") == ["fd00::1,tcp:80,fd00::1"]
    assert members(state, "KUBE-6-EXTERNAL-IP") == ["fe80::202:b3ff:fe1e:8329,tcp:80"]


def test_services_share_an_external_ip() -> None:
    first = service("a", ["10.0.0.1"], [port(80)], externalIPs=["50.60.70.81"])
    second = service("b", ["10.0.0.2"], [port(443)], externalIPs=["50.60.70.81"])
    built = cluster([first, second])
    assert built.problems == {}
    built.remove("Service", "ns1", "a")
    assert sorted(key.address for key in built.state()["address"]) == ["10.0.0.2", "50.60.70.81"]
    built.remove("Service", "ns1", "b")
    assert built.state()["address"] == {}
