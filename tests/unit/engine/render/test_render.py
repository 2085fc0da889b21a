# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States in the text of the native tools: cases that the recordings of kube-proxy lack."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.clusters.random_cluster import FACTS, RandomCluster
from support.kube_proxy import recorded

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import InputError
from kubenode.engine.model import State
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.model.iptables import ChainKey, JumpKey, RulePosition
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import AddressKey
from kubenode.engine.render import FORMATS, render


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (("tcp", "10.0.0.1", 80, 4), VirtualServer(), "-A -t 10.0.0.1:80 -s rr"),
        (("udp", "fd00::1", 53, 6), VirtualServer("wlc", netmask=128), "-A -u [fd00::1]:53 -s wlc"),
        (
            ("sctp", "10.0.0.1", 80, 4),
            VirtualServer("sh", 0x18),
            "-A --sctp-service 10.0.0.1:80 -s sh -b sh-fallback,sh-port",
        ),
        (("tcp", "10.0.0.1", 80, 4), VirtualServer("mh", 0x11, 60), "-A -t 10.0.0.1:80 -s mh -p 60 -b mh-port"),
        (("tcp", "10.0.0.1", 80, 4), VirtualServer("rr", 0x28), "-A -t 10.0.0.1:80 -s rr -b flag-1,flag-3"),
        (
            ("tcp", "10.0.0.1", 80, 4),
            VirtualServer("rr", 1, 300, 24),
            "-A -t 10.0.0.1:80 -s rr -p 300 -M 255.255.255.0",
        ),
        (("tcp", "fd00::1", 80, 6), VirtualServer("rr", 1, 300, 64), "-A -t [fd00::1]:80 -s rr -p 300 -M 64"),
        (
            ("udp", "10.0.0.1", 5060, 4),
            VirtualServer("rr", 1, 60, 32, "sip"),
            "-A -u 10.0.0.1:5060 -s rr -p 60 --pe sip",
        ),
        (("udp", "10.0.0.1", 53, 4), VirtualServer("rr", 4), "-A -u 10.0.0.1:53 -s rr -o"),
        (("fwmark", "", 7, 4), VirtualServer(), "-A -f 7 -s rr"),
        (("fwmark", "", 7, 6), VirtualServer(netmask=128), "-A -f 7 -6 -s rr"),
    ],
)
def test_virtual_servers(key: tuple[Any, ...], value: VirtualServer, text: str) -> None:
    assert render({"virtual_server": {VirtualServerKey(*key): value}}, "ipvsadm") == f"{text}\n"


def test_real_servers_are_sorted_by_number() -> None:
    server = VirtualServerKey("tcp", "10.0.0.1", 80, 4)
    state = {
        "virtual_server": {server: VirtualServer()},
        "real_server": {
            RealServerKey(server, "10.1.0.10", 80): RealServer(5, "direct"),
            RealServerKey(server, "10.1.0.9", 8080): RealServer(0, "tunnel"),
            RealServerKey(server, "10.1.0.9", 80): RealServer(),
        },
    }
    assert render(state, "ipvsadm").splitlines() == [
        "-A -t 10.0.0.1:80 -s rr",
        "-a -t 10.0.0.1:80 -r 10.1.0.9:80 -m -w 1",
        "-a -t 10.0.0.1:80 -r 10.1.0.9:8080 -i -w 0",
        "-a -t 10.0.0.1:80 -r 10.1.0.10:80 -g -w 5",
    ]


def test_sets() -> None:
    state: State = {
        "set": {
            "B": IPSet("bitmap:port", (("range", "0-65535"),)),
            "A": IPSet("hash:ip", (("family", "inet"), ("comment", ""))),
        },
        "member": {MemberKey("A", "10.0.0.2"): 'comment "x"', MemberKey("A", "10.0.0.1"): ""},
    }
    assert render(state, "ipset").splitlines() == [
        "create A hash:ip family inet comment bucketsize 12",
        "add A 10.0.0.1",
        'add A 10.0.0.2 comment "x"',
        "create B bitmap:port range 0-65535",
    ]


def test_rules_keep_their_position() -> None:
    jumps = {
        JumpKey(4, "filter", "INPUT", "-j LAST"): RulePosition("last", 1),
        JumpKey(4, "filter", "INPUT", "-j SECOND"): RulePosition("first", 2),
        JumpKey(4, "filter", "INPUT", "-j FIRST"): RulePosition("first", 1),
        JumpKey(6, "filter", "INPUT", "-j SIX"): RulePosition("first", 1),
    }
    state: State = {"jump": dict(jumps), "chain": {ChainKey(4, "filter", "FIRST"): ("-j DROP",)}}
    lines = render(state, "iptables").splitlines()
    assert [line for line in lines if line.startswith("-A")] == [
        "-A INPUT -j FIRST",
        "-A INPUT -j SECOND",
        "-A INPUT -j LAST",
        "-A FIRST -j DROP",
    ]
    assert lines[:5] == [
        "*filter",
        ":INPUT ACCEPT [0:0]",
        ":FORWARD ACCEPT [0:0]",
        ":OUTPUT ACCEPT [0:0]",
        ":FIRST - [0:0]",
    ]
    assert "-A INPUT -j SIX" in render(state, "ip6tables")


def test_addresses_are_sorted_by_family_and_number() -> None:
    keys = [
        AddressKey("kube-ipvs0", address, 128 if ":" in address else 32)
        for address in ("fd00::2", "10.0.0.10", "10.0.0.9")
    ]
    assert render({"address": dict.fromkeys(keys, True)}, "addresses") == "10.0.0.9/32\n10.0.0.10/32\nfd00::2/128\n"


def test_unknown_format_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"format is 'yaml', expected one of json, ipvsadm, ipset, iptables, ip6tables, nft, addresses"
    ):
        render({}, "yaml")


@pytest.mark.parametrize("seed", range(5))
def test_json_has_the_items_of_the_text(seed: int) -> None:
    cluster = Cluster(Config(scheduler="mh"), FACTS[0])
    for what, value in RandomCluster(seed).events(30):
        if what == "put":
            cluster.put(value)
    state = cluster.state()
    document = json.loads(render(state, "json"))
    assert list(document) == ["virtual_servers", "sets", "iptables", "addresses", "sysctls"]
    assert document["addresses"] == render(state, "addresses").split()
    assert document["sysctls"] == state["sysctl"]
    headers, members = recorded.sets(render(state, "ipset"))
    assert {name: set(value["members"]) for name, value in document["sets"].items()} == members
    assert {name: value["type"] for name, value in document["sets"].items()} == {
        name: text.split()[0] for name, text in headers.items()
    }
    for family, fmt in (("ipv4", "iptables"), ("ipv6", "ip6tables")):
        tables = document["iptables"][family]
        tables["filter"]["KUBE-IPVS-OUT-FILTER"].sort()
        assert tables == recorded.rules(render(state, fmt))
    assert {
        (entry["protocol"], entry["address"], entry["port"], real["address"], real["port"], real["weight"])
        for entry in document["virtual_servers"]
        for real in entry["real_servers"]
    } == {(*key.server[:3], key.address, key.port, value.weight) for key, value in state["real_server"].items()}
    assert len(document["virtual_servers"]) == len(state["virtual_server"])


@pytest.mark.parametrize("fmt", FORMATS)
def test_empty_state_is_rendered(fmt: str) -> None:
    text = render({}, fmt)
    if fmt == "json":
        assert json.loads(text)["virtual_servers"] == []
    else:
        assert "-A" not in text
