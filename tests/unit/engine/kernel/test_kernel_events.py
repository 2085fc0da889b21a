# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events on netlink sockets to which another process writes, and messages with a wrong length."""

from __future__ import annotations

import socket
import struct
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.engine.kernel.netlink import NETLINK_NETFILTER, NETLINK_ROUTE, attribute
from kubenode.engine.kernel.nfnetlink.monitor import RuleEvents, _touches
from kubenode.engine.kernel.rtnetlink.monitor import Events, _parse

HEADER = struct.Struct("=IHHII")
NEW_LINK, NEW_ADDRESS, GONE_ROUTE = 16, 20, 25


def packet(kind: int, body: bytes) -> bytes:
    return HEADER.pack(16 + len(body), kind, 0, 0, 0) + body


FORGED = [
    bytes(16),
    HEADER.pack(3, NEW_LINK, 0, 0, 0),
    packet(NEW_LINK, b"x"),
    packet(NEW_LINK, struct.pack("=BxHiII", 0, 0, 7, 1, 0) + attribute(3, b"kube-ipvs0\0")),
]


@pytest.mark.parametrize("data", FORGED, ids=["length 0", "length 3", "short body", "well formed"])
def test_link_events_of_another_process_are_thrown_away(data: bytes) -> None:
    with closing(Events()) as events, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as attacker:
        events.read()
        attacker.sendto(data, (events._socket.getsockname()[0], 0))
        assert events.read() == []


@pytest.mark.parametrize(
    "data", [bytes(20), packet(0x0A06, b"\x02\0\0\0" + attribute(1, b"nat\0"))], ids=["length 0", "well formed"]
)
def test_rule_events_of_another_process_are_thrown_away(data: bytes) -> None:
    with (
        closing(RuleEvents()) as events,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as attacker,
    ):
        events.rules_changed()
        attacker.sendto(data, (events._socket.getsockname()[0], 0))
        assert not events.rules_changed()


@pytest.mark.parametrize("kind", [NEW_LINK, NEW_ADDRESS, GONE_ROUTE])
@given(body=st.binary(max_size=40), more=st.binary(max_size=20))
def test_a_packet_gives_events_or_a_value_error(kind: int, body: bytes, more: bytes) -> None:
    for parse in (_parse, _touches):
        try:
            parse(packet(kind, body) + more)
        except ValueError:
            continue
