# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's own cases (proxier_test.go) as data: virtual servers, sets and rules from node ports."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.objects import endpoint, piece
from support.kube_proxy.cases import (
    DUAL,
    EVERYWHERE,
    HCA,
    ONE,
    S_PLAIN,
    V4,
    V6,
    node_port,
    ports,
)
from support.kube_proxy.wanted import NODE, chain, cluster, members, node, servers

from kubenode.engine.desired.settings import Config


@pytest.mark.parametrize(
    ("objects", "node_ips", "config", "wanted"),
    [
        pytest.param(
            [node_port(), V4, V6],
            DUAL,
            Config(),
            {"tcp 10.20.30.41:80": ONE, "tcp 100.101.102.103:3001": ONE},
            id="two families",
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
def test_node_port_4(
    objects: list[Any], node_ips: tuple[str, ...], config: Config, wanted: dict[str, list[str]]
) -> None:
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
    assert chain(state, "KUBE-NODE-PORT") == [
        "RETURN NODE-PORT-LOCAL-SCTP-HASH",
        "KUBE-MARK-MASQ NODE-PORT-SCTP-HASH",
        HCA,
    ]


SIX = ["[1002:ab8::2:10]:80"]


@pytest.mark.parametrize(
    ("objects", "node_ips", "wanted"),
    [
        pytest.param(
            [node_port(ip="2020::1"), V4, V6],
            DUAL,
            {"tcp [2020::1]:80": SIX, "tcp [2001:db8::1:1]:3001": SIX},
            id="two families",
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
