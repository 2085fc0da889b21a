# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Items of kube-proxy on a node, and foreign items that resemble them."""

from __future__ import annotations

from typing import Any

import pytest
from support.kube_proxy import recorded

from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.iptables import ChainKey, JumpKey
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import AddressKey
from kubenode.engine.proxy.drain.policy import Drain
from kubenode.engine.proxy.planning import Claims, make_plan
from kubenode.engine.proxy.takeover import SETS, balanced_by_rules, left_behind

SVC = "KUBE-SVC-ABCDEFGH2345672A"
NOTHING = Claims({}, {}, adopt=True)
AT_ONCE = Drain({}, 1.0)


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_all_items_of_kube_proxy_are_recognised(path: Any) -> None:
    state = recorded.cluster(recorded.load(path)).state()
    have: Any = {**state, "jump": dict.fromkeys(state["jump"], 1)}
    recognised = left_behind(have, {})
    for kind in ("set", "chain", "jump", "virtual_server", "address"):
        assert recognised[kind] == set(state[kind]), kind


@pytest.mark.parametrize(
    ("table", "chain", "its"),
    [
        ("nat", SVC, True),
        ("nat", "KUBE-SEP-ABCDEFGH2345672A", True),
        ("nat", "KUBE-XLB-ABCDEFGH2345672A", True),
        ("filter", SVC, False),
        ("nat", "KUBE-SVC-MINE", False),
        ("filter", "KUBE-EXTERNAL-SERVICES", True),
        ("mangle", "KUBE-PROXY-CANARY", True),
        ("filter", "KUBE-FIREWALL", False),
        ("nat", "KUBE-MARK-DROP", False),
        ("mangle", "KUBE-IPTABLES-HINT", False),
        ("nat", "KUBE-KUBELET-CANARY", False),
    ],
)
def test_chains_of_kube_proxy_are_recognised(table: str, chain: str, its: bool) -> None:
    key = ChainKey(4, table, chain)
    assert left_behind({"chain": {key: ()}}, {})["chain"] == ({key} if its else set())


@pytest.mark.parametrize(
    ("rule", "its"),
    [
        ('-m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES', True),
        ('-m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL', True),
        ("-j KUBE-SERVICES", False),
        ('-m comment --comment "kubernetes service portals" -j MINE', False),
        ("-s 192.0.2.1/32 -j KUBE-FIREWALL", False),
    ],
)
def test_jumps_of_kube_proxy_are_recognised(rule: str, its: bool) -> None:
    key = JumpKey(4, "filter", "INPUT", rule)
    assert left_behind({"jump": {key: 1}}, {})["jump"] == ({key} if its else set())


BOUND = VirtualServerKey("tcp", "10.96.0.1", 80, 4)
NAMED = VirtualServerKey("tcp", "198.51.100.1", 80, 4)
NODE_PORT = VirtualServerKey("udp", "192.0.2.1", 30053, 4)
SCTP = VirtualServerKey("sctp", "2001:db8::1", 30099, 6)
FOREIGN = VirtualServerKey("tcp", "192.0.2.1", 30053, 4)
MARKED = VirtualServerKey("fwmark", "", 7, 4)
MEMBERS = (
    MemberKey("KUBE-EXTERNAL-IP-LOCAL", "198.51.100.1,tcp:80"),
    MemberKey("KUBE-NODE-PORT-UDP", "30053"),
    MemberKey("KUBE-6-NODE-PORT-SCTP-HASH", "2001:db8::1,sctp:30099"),
    MemberKey("mine", "192.0.2.1,tcp:30053"),
)
SERVERS: Any = {
    "virtual_server": dict.fromkeys((BOUND, NAMED, NODE_PORT, SCTP, FOREIGN, MARKED), VirtualServer()),
    "address": {AddressKey("kube-ipvs0", "10.96.0.1", 32): True, AddressKey("eth0", "192.0.2.1", 24): True},
    "member": dict.fromkeys(MEMBERS, ""),
}


def test_virtual_servers_of_kube_proxy_are_recognised() -> None:
    assert left_behind(SERVERS, {})["virtual_server"] == {BOUND, NAMED, NODE_PORT, SCTP}


def test_claimed_items_are_not_taken_over() -> None:
    assert left_behind(SERVERS, {"virtual_server": {BOUND: "edge"}})["virtual_server"] == {NAMED, NODE_PORT, SCTP}


def test_chains_of_iptables_mode_are_recognised() -> None:
    assert balanced_by_rules({"chain": {ChainKey(6, "nat", SVC): ()}})
    assert not balanced_by_rules({"chain": {ChainKey(4, "nat", "KUBE-SERVICES"): ()}})
    assert "KUBE-6-LOAD-BALANCER-SOURCE-CID" in SETS


def test_draining_servers_are_claimed_and_others_removed() -> None:
    real = RealServerKey(BOUND, "10.244.0.1", 80)
    have = {**SERVERS, "real_server": {real: RealServer(0)}}
    made, draining = make_plan(have, {}, NOTHING, Drain({}, 1.0, connections=lambda _servers: {real: (1, 0)}))
    assert draining == {real: 1.0}
    assert {key for step in made.steps for key in [step.key]} == {NAMED, NODE_PORT, SCTP}
    assert made.adopted == {"virtual_server": [BOUND], "address": [AddressKey("kube-ipvs0", "10.96.0.1", 32)]}


def test_hold_keeps_rules_of_the_iptables_mode() -> None:
    services = ChainKey(4, "nat", "KUBE-SERVICES")
    have: Any = {"chain": {services: (f"-j {SVC}",), ChainKey(4, "nat", SVC): ()}}
    want: Any = {"chain": {services: ()}, "virtual_server": {BOUND: VirtualServer()}}
    made, _draining = make_plan(have, want, NOTHING, AT_ONCE, hold=True)
    assert [step.key for step in made.steps] == [BOUND]
    made, _draining = make_plan(have, want, NOTHING, AT_ONCE)
    assert [(step.key, step.verb) for step in made.steps] == [
        (BOUND, "create"),
        (services, "change"),
        (ChainKey(4, "nat", SVC), "delete"),
    ]


def test_jumps_at_their_wanted_position_are_claimed() -> None:
    (key, spot), *_others = recorded.cluster(recorded.load(recorded.RECORDINGS[0])).state()["jump"].items()
    made, _draining = make_plan({"jump": {key: 1}}, {"jump": {key: spot}}, NOTHING, AT_ONCE)
    assert (made.steps, made.adopted) == ([], {"jump": [key]})
    made, _draining = make_plan(
        {"jump": {key: 1}}, {"jump": {key: spot}}, NOTHING._replace(owned={"jump": {key}}), AT_ONCE
    )
    assert made.adopted == {}
