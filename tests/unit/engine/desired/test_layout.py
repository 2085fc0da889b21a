# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Static state: sets, chains, jumps and sysctls without any Service, and the effects of options."""

from __future__ import annotations

import pytest
from support.clusters.objects import service
from support.kube_proxy.wanted import chain, cluster, node

from kubenode.engine.desired import sets
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.rules import CHAINS
from kubenode.engine.desired.settings import Config
from kubenode.engine.model import State
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.link import Link


def rules(state: State, name: str, table: str = "nat", family: int = 4) -> list[str]:
    return list(state["chain"][ChainKey(family, table, name)])


@pytest.mark.parametrize("fully", [False, True])
def test_random_fully_only_where_iptables_knows_it(fully: bool) -> None:
    state = cluster([], node(random_fully=fully)).state()
    (masquerade,) = [rule for rule in rules(state, "KUBE-POSTROUTING") if "MASQUERADE" in rule]
    assert masquerade.endswith("-j MASQUERADE --random-fully" if fully else "-j MASQUERADE")


@pytest.mark.parametrize(("family", "loopback"), [(4, "127.0.0.0/8"), (6, "::1/128")])
def test_loopback_sources_are_left_alone_first(family: int, loopback: str) -> None:
    state = cluster([]).state()
    assert rules(state, "KUBE-SERVICES", family=family)[0] == f"-s {loopback} -j RETURN"


def test_all_chains_are_there_without_a_service() -> None:
    state = cluster([]).state()
    assert set(state["chain"]) == {
        ChainKey(f, t, name) for f in (4, 6) for t, names in CHAINS.items() for name in names
    }
    assert CHAINS == {
        "nat": ("KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"),
        "filter": (
            "KUBE-FORWARD",
            "KUBE-NODE-PORT",
            "KUBE-PROXY-FIREWALL",
            "KUBE-SOURCE-RANGES-FIREWALL",
            "KUBE-IPVS-FILTER",
            "KUBE-IPVS-OUT-FILTER",
        ),
    }
    assert len(state["jump"]) == 18
    assert state["link"] == {"kube-ipvs0": Link("dummy", False)}


CLUSTER_IP = "-m set --match-set KUBE-CLUSTER-IP"


@pytest.mark.parametrize(
    ("config", "starts", "flags"),
    [
        (Config(), "-m comment", "src,dst"),
        (Config(cluster_cidrs=("10.244.0.0/16",)), "! -s 10.244.0.0/16 -m comment", "dst,dst"),
        (Config(cluster_cidrs=("fd00:244::/32",)), "-m comment", "src,dst"),
        (Config(detect_local_mode="NodeCIDR"), "! -s 10.244.1.0/24 -m comment", "dst,dst"),
        (Config(detect_local_mode="BridgeInterface", bridge_interface="cni0"), "! -i cni0 -m comment", "dst,dst"),
        (
            Config(detect_local_mode="InterfaceNamePrefix", interface_name_prefix="cali"),
            "! -i cali+ -m comment",
            "dst,dst",
        ),
        (Config(cluster_cidrs=("10.244.0.0/16",), masquerade_all=True), "-m comment", "dst,dst"),
    ],
)
def test_cluster_ip_traffic_to_masquerade(config: Config, starts: str, flags: str) -> None:
    state = cluster([service()], node(pod_cidrs=("10.244.1.0/24",)), config).state()
    (rule,) = [rule for rule in rules(state, "KUBE-SERVICES") if CLUSTER_IP in rule and "MARK-MASQ" in rule]
    assert rule.startswith(starts)
    assert rule.endswith(f"{CLUSTER_IP} {flags} -j KUBE-MARK-MASQ")


@pytest.mark.parametrize(("bit", "mark"), [(14, "0x4000"), (0, "0x1"), (31, "0x80000000")])
def test_masquerade_bit_sets_the_mark(bit: int, mark: str) -> None:
    state = cluster([], config=Config(masquerade_bit=bit)).state()
    assert rules(state, "KUBE-MARK-MASQ") == [f"-j MARK --set-xmark {mark}/{mark}"]
    assert f"-m mark ! --mark {mark}/{mark} -j RETURN" in rules(state, "KUBE-POSTROUTING")
    assert f"-j MARK --set-xmark {mark}/0x0" in rules(state, "KUBE-POSTROUTING")
    assert f"-m mark --mark {mark}/{mark} -j ACCEPT" in rules(state, "KUBE-FORWARD", "filter")[0]


def test_names_of_sets() -> None:
    names = [sets.set_name(6, name) for name in sets.SETS]
    assert len(sets.SETS) == len(set(names)) == 17
    assert max(map(len, names)) == 31
    assert {"KUBE-6-LOAD-BALANCER-SOURCE-CID", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"} <= set(names)
    assert [sets.set_name(4, name) for name in sets.SETS] == list(sets.SETS)


@pytest.mark.parametrize(
    ("members", "maxelem"),
    [(0, 65536), (52428, 65536), (52429, 131072), (65536, 131072), (104857, 131072), (104858, 262144)],
)
def test_sets_grow_before_they_are_full(members: int, maxelem: int) -> None:
    header = sets.header(4, sets.SETS["KUBE-LOOP-BACK"], members)
    assert header.text() == f"hash:ip,port,ip family inet hashsize 1024 maxelem {maxelem}"
    assert sets.header(4, sets.SETS["KUBE-NODE-PORT-TCP"], members).text() == "bitmap:port range 0-65535"


def test_a_set_grows_with_its_members_and_shrinks_again() -> None:
    built = cluster([])
    count = 100
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(count)]
    for index in range(530):
        built.put(service(f"s{index}", [f"10.0.{index >> 8}.{index & 255}"], ports))
    header = built.state()["set"]["KUBE-CLUSTER-IP"]
    assert header.option("maxelem") == "131072"
    assert built.state()["set"]["KUBE-6-CLUSTER-IP"].option("maxelem") == "65536"
    built.take()
    for index in range(10):
        built.remove("Service", "ns1", f"s{index}")
    assert built.take()["set"]["KUBE-CLUSTER-IP"].option("maxelem") == "65536"


def test_sysctls_follow_the_settings() -> None:
    always = {
        "net.ipv4.vs.conntrack": "1",
        "net.ipv4.vs.expire_nodest_conn": "1",
        "net.ipv4.vs.expire_quiescent_template": "1",
        "net.ipv4.ip_forward": "1",
        "net.netfilter.nf_conntrack_tcp_timeout_established": "86400",
        "net.netfilter.nf_conntrack_tcp_timeout_close_wait": "3600",
    }
    assert cluster([]).state()["sysctl"] == always
    config = Config(
        strict_arp=True,
        localhost_node_ports=True,
        conntrack_tcp_be_liberal=True,
        conntrack_udp_timeout=30,
        conntrack_udp_stream_timeout=120,
        conntrack_tcp_close_wait_timeout=0,
    )
    sysctls = cluster([], node(cpus=64), config).state()["sysctl"]
    assert "net.netfilter.nf_conntrack_tcp_timeout_close_wait" not in sysctls
    assert {key: value for key, value in sysctls.items() if key not in always} == {
        "net.ipv4.conf.all.arp_ignore": "1",
        "net.ipv4.conf.all.arp_announce": "2",
        "net.ipv4.conf.all.route_localnet": "1",
        "net.netfilter.nf_conntrack_tcp_be_liberal": "1",
        "net.netfilter.nf_conntrack_udp_timeout": "30",
        "net.netfilter.nf_conntrack_udp_timeout_stream": "120",
        "net.netfilter.nf_conntrack_max": "1048576",
    }


@pytest.mark.parametrize(
    ("cpus", "config", "wanted"),
    [
        (2, Config(), "131072"),
        (8, Config(), "262144"),
        (8, Config(conntrack_max_per_core=0), None),
        (0, Config(), None),
    ],
)
def test_conntrack_max_follows_the_cpu_count(cpus: int, config: Config, wanted: str | None) -> None:
    assert cluster([], node(cpus=cpus), config).state()["sysctl"].get("net.netfilter.nf_conntrack_max") == wanted


@pytest.mark.parametrize(
    ("buckets", "config", "wanted"),
    [
        (0, Config(), None),
        (16384, Config(), "32768"),
        (32767, Config(), "32768"),
        (32768, Config(), None),
        (262144, Config(), None),
        (16384, Config(conntrack_min=100_000, conntrack_max_per_core=1), "25088"),
        (16384, Config(conntrack_max_per_core=0), None),
    ],
)
def test_the_hash_table_of_connection_tracking_grows_with_it(buckets: int, config: Config, wanted: str | None) -> None:
    sysctls = cluster([], node(cpus=2, conntrack_buckets=buckets), config).state()["sysctl"]
    assert sysctls.get("net.netfilter.nf_conntrack_buckets") == wanted


@pytest.mark.parametrize(
    ("kernel", "set_it"),
    [
        ("", False),
        ("3.10.0-1160.el7", False),
        ("4.0.9", False),
        ("4.1.0", True),
        ("4.19.0-25-amd64", True),
        ("5.4.0-150-generic", True),
        ("5.8.18", True),
        ("5.9.0", False),
        ("5.10.0-28-amd64", False),
        ("6.1.0", False),
        ("10.0", False),
    ],
)
def test_connection_reuse_only_on_kernels_that_need_it(kernel: str, set_it: bool) -> None:
    sysctls = cluster([], node(kernel=kernel)).state()["sysctl"]
    assert sysctls.get("net.ipv4.vs.conn_reuse_mode") == ("0" if set_it else None)


def test_changed_node_addresses_change_the_state() -> None:
    """The node gets an address, and another primary address; node ports and source ranges follow."""
    obj = service(
        ports=[{"name": "p80", "port": 80, "nodePort": 3001}],
        kind="LoadBalancer",
        ingress=[{"ip": "1.2.3.4"}],
        loadBalancerSourceRanges=["100.0.0.0/8"],
        externalIPs=["100.1.1.2"],
    )
    built = cluster([obj], NodeFacts("test-node"), Config(allowed_external_ips=("100.1.1.2/32",)))
    built.take()
    assert rules(built.state(), "KUBE-IPVS-OUT-FILTER", "filter") != []
    assert "100.1.1.2" in {key.address for key in built.state()["address"]}
    built.set_facts(node("100.1.1.1", "100.1.1.2"))
    changes = built.take()
    assert {str(key) for key in changes["virtual_server"]} == {"tcp 100.1.1.1:3001", "tcp 100.1.1.2:3001"}
    assert rules(built.state(), "KUBE-IPVS-OUT-FILTER", "filter") == []
    assert [(key.address, value) for key, value in changes["address"].items()] == [("100.1.1.2", None)]
    built.set_facts(node("100.1.1.1", "100.1.1.2"))
    assert built.take() == {}


def test_ping_is_refused_unless_wanted() -> None:
    refuse = "REJECT IPVS-IPS"
    assert chain(cluster([]).state(), "KUBE-IPVS-FILTER")[-1] == refuse
    for family, echo in (
        (4, "-p icmp -m set --match-set KUBE-IPVS-IPS dst -m icmp --icmp-type 8 -j RETURN"),
        (6, "-p ipv6-icmp -m set --match-set KUBE-6-IPVS-IPS dst -m icmp6 --icmpv6-type 128 -j RETURN"),
    ):
        state = cluster([], config=Config(vip_ping=True)).state()
        assert rules(state, "KUBE-IPVS-FILTER", "filter", family)[-2] == echo
        assert chain(state, "KUBE-IPVS-FILTER", family)[-1] == refuse
