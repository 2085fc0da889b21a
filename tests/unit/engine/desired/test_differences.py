# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Optional differences from kube-proxy: effects of each setting and annotation on the state."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, piece, port, service
from support.kube_proxy.wanted import cluster, members, node, servers

from kubenode.engine.desired.sets import CLUSTER_IP, SETS
from kubenode.engine.desired.settings import Config
from kubenode.engine.model import State
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.link import STATIC
from kubenode.engine.render import render

NODE_IP = node("10.99.0.11", "fd00:99::11")
ENDS = piece(endpoints=[endpoint("10.180.0.1")])


def balancer(**more: Any) -> dict[str, Any]:
    return service(ports=[port(node_port=3001)], kind="LoadBalancer", ingress=[{"ip": "1.2.3.4"}], **more)


def test_load_balancer_addresses_need_not_be_bound() -> None:
    """An unbound address stays the load balancer's, as with ipMode Proxy, unless the node has it on another link."""
    ranges = {"loadBalancerSourceRanges": ["192.0.2.0/24"], "externalIPs": ["50.60.70.81"]}
    obj = balancer(**ranges)
    allowed = Config(allowed_load_balancer_ips=("1.2.3.0/24",))
    built = cluster([obj, ENDS], NODE_IP, allowed._replace(bind_load_balancer_ips=False))
    proxied = {**obj, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "Proxy"}]}}}
    assert built.state() == cluster([proxied, ENDS], NODE_IP).state()
    assert sorted(key.address for key in built.state()["address"]) == ["10.20.30.41", "50.60.70.81"]
    built.set_facts(node("10.99.0.11", "1.2.3.4", "fd00:99::11"))
    assert built.state() == cluster([obj, ENDS], node("10.99.0.11", "1.2.3.4", "fd00:99::11"), allowed).state()
    assert members(built.state(), "KUBE-LOAD-BALANCER") == ["1.2.3.4,tcp:80"]
    assert "1.2.3.4" not in {key.address for key in built.state()["address"]}


def test_node_ports_on_localhost() -> None:
    """Rules lead node port traffic from 127.0.0.1 to the endpoints, and keep other hosts out.

    IPVS sends no packet from 127.0.0.1 to another host.
    """
    ends = piece(endpoints=[endpoint(f"10.180.0.{last}") for last in (1, 2, 3)])
    built = cluster(
        [balancer(), ends], node("10.99.0.11", "10.99.0.12", "fd00:99::11"), Config(localhost_node_ports=True)
    )
    state = built.state()
    assert "tcp 127.0.0.1:3001" not in servers(state)
    assert state["sysctl"]["net.ipv4.conf.all.route_localnet"] == "1"
    first, second = state["chain"][ChainKey(4, "nat", "KUBE-SERVICES")][:2]
    lo = "-s 127.0.0.0/8 -d 127.0.0.0/8 -o lo"
    assert first == f"{lo} -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-LOCALHOST-NODE-PORT"
    assert second == "-s 127.0.0.0/8 -j RETURN"
    by_chance = "-p tcp -m tcp --dport 3001 -m statistic --mode random --probability"
    assert state["chain"][ChainKey(4, "nat", "KUBE-LOCALHOST-NODE-PORT")] == (
        "-j KUBE-MARK-MASQ",
        f"{by_chance} 0.33333333349 -j DNAT --to-destination 10.180.0.1:80",
        f"{by_chance} 0.50000000000 -j DNAT --to-destination 10.180.0.2:80",
        "-p tcp -m tcp --dport 3001 -j DNAT --to-destination 10.180.0.3:80",
    )
    guard = "-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
    assert state["chain"][ChainKey(4, "filter", "KUBE-IPVS-FILTER")][0] == guard
    built.remove("Service", "ns1", "svc1")
    assert built.state()["chain"][ChainKey(4, "nat", "KUBE-LOCALHOST-NODE-PORT")] == ("-j KUBE-MARK-MASQ",)
    assert all("LOCALHOST" not in key.chain for key in cluster([balancer()], NODE_IP).state()["chain"])
    state = cluster([balancer(), ENDS], NODE_IP, Config(localhost_node_ports=True)).state()
    # the kernel has no IPv6 counterpart of route_localnet
    usual = cluster([balancer(), ENDS], NODE_IP).state()
    assert {key: rules for key, rules in state["chain"].items() if key.family == 6} == {
        key: rules for key, rules in usual["chain"].items() if key.family == 6
    }


def test_reject_without_endpoints() -> None:
    config = Config(no_endpoints="reject")
    built = cluster([balancer()], NODE_IP, config)
    state = built.state()
    assert members(state, "KUBE-NO-ENDPOINTS") == ["1.2.3.4,tcp:80", "10.20.30.41,tcp:80", "10.99.0.11,tcp:3001"]
    rule = "-m set --match-set KUBE-NO-ENDPOINTS dst,dst -j REJECT --reject-with"
    refused = (f"-p tcp {rule} tcp-reset", f"{rule} icmp-port-unreachable")
    assert state["chain"][ChainKey(4, "filter", "KUBE-IPVS-FILTER")][:2] == refused
    assert not any("NO-ENDPOINTS" in rule for key, rules in state["chain"].items() if key.family == 6 for rule in rules)
    built.put(ENDS)
    assert members(built.state(), "KUBE-NO-ENDPOINTS") == []
    assert not any("NO-ENDPOINTS" in rule for rules in built.state()["chain"].values() for rule in rules)
    assert "KUBE-NO-ENDPOINTS" not in cluster([], NODE_IP).state()["set"]


def test_local_fallback() -> None:
    """Without fallback, an address with policy Local and no local endpoint has no real server.

    The cluster IP has a policy of its own.
    """
    obj = balancer(externalTrafficPolicy="Local")
    both = ["10.180.0.1:80"]
    kept = servers(cluster([obj, ENDS], NODE_IP).state())
    assert set(map(tuple, kept.values())) == {tuple(both)}
    dropped = servers(cluster([obj, ENDS], NODE_IP, Config(local_fallback="drop")).state())
    assert dropped == {"tcp 10.20.30.41:80": both, "tcp 1.2.3.4:80": [], "tcp 10.99.0.11:3001": []}
    inside = balancer(internalTrafficPolicy="Local")
    dropped = servers(cluster([inside, ENDS], NODE_IP, Config(local_fallback="drop")).state())
    assert dropped == {"tcp 10.20.30.41:80": [], "tcp 1.2.3.4:80": both, "tcp 10.99.0.11:3001": both}


@pytest.mark.parametrize(
    ("notes", "wanted"),
    [
        ({}, ("mh", 0x10)),
        ({"kubenode.ipvs/scheduler": "wrr"}, ("wrr", 0)),
        ({"kubenode.ipvs/scheduler": "sh"}, ("sh", 0)),
        ({"kubenode.ipvs/scheduler": "sh", "kubenode.ipvs/scheduler-flags": "sh-port,sh-fallback"}, ("sh", 0x18)),
        ({"kubenode.ipvs/scheduler-flags": "mh-fallback"}, ("mh", 0x8)),
        ({"kubenode.ipvs/scheduler-flags": ""}, ("mh", 0)),
    ],
)
def test_scheduler_of_one_service(notes: dict[str, str], wanted: tuple[str, int]) -> None:
    state = cluster(
        [balancer(annotations=notes), service("other", ["10.0.0.1"])], NODE_IP, Config(scheduler="mh")
    ).state()
    schedulers = {str(key): (value.scheduler, value.flags) for key, value in state["virtual_server"].items()}
    assert schedulers.pop("tcp 10.0.0.1:80") == ("mh", 0x10)
    assert set(schedulers.values()) == {wanted}


def test_weights_follow_the_annotation() -> None:
    light = piece(endpoints=[endpoint("10.180.0.1")], name="light", annotations={"kubenode.ipvs/weight": "3"})
    none = piece(endpoints=[endpoint("10.180.0.2")], name="none", annotations={"kubenode.ipvs/weight": "0"})
    built = cluster([service(), light, none, piece(endpoints=[endpoint("10.180.0.3")], name="usual")])
    assert {key.address: value.weight for key, value in built.state()["real_server"].items()} == {
        "10.180.0.1": 3,
        "10.180.0.2": 0,
        "10.180.0.3": 1,
    }
    built.take()
    light["metadata"]["annotations"] = {"kubenode.ipvs/weight": "4"}
    built.put(light)
    assert [(key.address, value.weight) for key, value in built.take()["real_server"].items()] == [("10.180.0.1", 4)]


ROUTES = Config(vip_binding="routes", service_cidrs=("10.20.0.0/16", "fd00:20::/112"))
UNUSED = "-d 10.20.0.0/16 {}-m conntrack --ctstate NEW -j REJECT --reject-with {}"


def networks(state: State) -> list[str]:
    assert {key.link for key in state["route"]} <= {"lo"}
    return sorted(key.network for key in state["route"])


def test_routes_instead_of_addresses() -> None:
    obj = balancer(externalIPs=["50.60.70.81", "10.99.0.11"])
    allowed = ("50.60.70.0/24", "10.20.5.5/32", "10.99.0.11/32")
    built = cluster([obj, ENDS], NODE_IP, ROUTES._replace(allowed_external_ips=allowed))
    usual = cluster([obj, ENDS], NODE_IP, Config(allowed_external_ips=allowed)).state()
    state = built.state()
    assert state["address"] == {}
    # no route for the cluster IP, which a service network covers, nor for the node's own address
    assert networks(state) == ["1.2.3.4/32", "10.20.0.0/16", "50.60.70.81/32", "fd00:20::/112"]
    for kind in ("virtual_server", "real_server", "member", "set", "link", "jump", "sysctl"):
        assert state[kind] == usual[kind], kind
    key = ChainKey(4, "filter", "KUBE-IPVS-FILTER")
    refused = (UNUSED.format("-p tcp ", "tcp-reset"), UNUSED.format("", "icmp-port-unreachable"))
    assert state["chain"][key] == (*usual["chain"][key], *refused)
    assert {other for other in state["chain"] if state["chain"][other] != usual["chain"][other]} == {
        key,
        ChainKey(6, "filter", "KUBE-IPVS-FILTER"),
    }
    built.take()
    changed = balancer(externalIPs=["50.60.70.82", "10.20.5.5"])
    built.put(changed)
    changes = built.take()
    assert {key.network: value for key, value in changes["route"].items()} == {
        "50.60.70.82/32": STATIC,
        "50.60.70.81/32": None,
    }
    built.remove("Service", "ns1", "svc1")
    assert networks(built.state()) == ["10.20.0.0/16", "fd00:20::/112"]


def test_each_vip_without_service_networks_has_a_route() -> None:
    built = cluster([balancer(), ENDS], NODE_IP, Config(vip_binding="routes"))
    assert networks(built.state()) == ["1.2.3.4/32", "10.20.30.41/32"]
    usual = cluster([balancer(), ENDS], NODE_IP).state()
    assert built.state()["chain"] == usual["chain"]
    assert '"routes": [\n "1.2.3.4/32",\n "10.20.30.41/32"\n]' in render(built.state(), "json")
    assert '"routes"' not in render(usual, "json")


@pytest.mark.parametrize("masquerade_all", [False, True])
@pytest.mark.parametrize("pods", ["", "fd00:244::/32"])
def test_ipv6_traffic_of_the_node_is_matched_by_source(pods: str, masquerade_all: bool) -> None:
    """Traffic of the node may have any address of the node as source, not only the virtual one.

    Over IPv4, and with addresses in place of routes, the source is the virtual address.
    """
    config = ROUTES._replace(cluster_cidrs=(pods,) if pods else (), masquerade_all=masquerade_all)
    rules = cluster([service(cluster_ips=["fd00:20::41"])], NODE_IP, config).state()["chain"][
        ChainKey(6, "nat", "KUBE-SERVICES")
    ]
    every = f'-m comment --comment "{SETS[CLUSTER_IP].comment}" -m set --match-set KUBE-6-CLUSTER-IP dst,dst'
    wanted = (
        [every]
        if masquerade_all
        else [*([f"! -s {pods} {every}"] if pods else []), f"{every} -m addrtype --src-type LOCAL"]
    )
    marking = [rule for rule in rules if "KUBE-6-CLUSTER-IP" in rule and rule.endswith(" -j KUBE-MARK-MASQ")]
    assert marking == [f"{match} -j KUBE-MARK-MASQ" for match in wanted]


def test_service_network_with_node_address_has_no_route() -> None:
    built = cluster([balancer(), ENDS], NODE_IP, ROUTES)
    built.take()
    built.set_facts(node("10.99.0.11", "10.20.1.1", "fd00:99::11"))
    assert networks(built.state()) == ["1.2.3.4/32", "10.20.30.41/32", "fd00:20::/112"]
    assert not any("-d 10.20.0.0/16" in rule for rules in built.state()["chain"].values() for rule in rules)
    assert built.problems == {
        ("Node", "test-node"): (
            "Node test-node: serviceCIDRs is '10.20.0.0/16', "
            "expected a network without addresses of the node (10.20.1.1); its virtual addresses have a route each",
        )
    }
    changes = {key.network: value for key, value in built.take()["route"].items()}
    assert changes == {"10.20.0.0/16": None, "10.20.30.41/32": STATIC}
    built.set_facts(NODE_IP)
    assert {key.network: value for key, value in built.take()["route"].items()} == {
        "10.20.0.0/16": STATIC,
        "10.20.30.41/32": None,
    }
    assert built.problems == {}
