# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of nftables' trace, from messages that a kernel sent."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables.nft_traces import recorded_trace

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel.decoding import decoding
from kubenode.engine.kernel.netlink import attribute, message, string_attribute
from kubenode.engine.kernel.nftables.protocol import nested
from kubenode.engine.kernel.nftables.trace_events import events
from kubenode.engine.model.nft_trace import Headers, TraceEvent

SYN = Headers("tcp", "10.99.0.11", "10.96.0.7", 59320, 80, "SYN")
NUMBER = 3700220937
TRACE = 10 << 8 | 17


def decoded(name: str) -> list[TraceEvent]:
    return [event for packet in recorded_trace(name) for event in events(packet)]


def made(code: int, network: bytes = b"") -> TraceEvent:
    """Return the event of a rule with a verdict's code, as the kernel sends it."""
    fields = string_attribute(1, "t") + string_attribute(2, "c") + attribute(3, struct.pack(">Q", 4))
    fields += attribute(4, struct.pack(">I", 3)) + nested(5, attribute(1, struct.pack(">i", code)))
    fields += attribute(6, struct.pack("=I", 5)) + (attribute(8, network) if network else b"")
    (event,) = events(message(TRACE, 0, bytes((1, 0, 0, 0)) + fields))
    return event


def test_recorded_request_is_decoded() -> None:
    request = decoded("forwarded")
    own = request[0].table
    assert own.startswith("kubenode-trace-")
    assert request[:7] == [
        TraceEvent(NUMBER, "ip", own, "prerouting", "rule", 9, "accept", "", 0, 2, 0, SYN),
        TraceEvent(NUMBER, "ip", own, "prerouting-replies", "rule", 0, "continue", "", 0, 2, 0, SYN),
        TraceEvent(NUMBER, "ip", own, "prerouting-replies", "policy", 0, "accept"),
        TraceEvent(NUMBER, "ip", "kubenode", "nat-prerouting", "rule", 35, "jump", "services", 0, 2, 0, SYN),
        TraceEvent(NUMBER, "ip", "kubenode", "services", "rule", 45, "jump", "mark-masq"),
        TraceEvent(NUMBER, "ip", "kubenode", "mark-masq", "rule", 53, "continue", "", 0x4000),
        TraceEvent(NUMBER, "ip", "kubenode", "mark-masq", "rule", 0, "continue", "", 0x4000),
    ]


def test_recorded_ipv6_addresses_are_decoded() -> None:
    assert decoded("ipv6")[0].headers == Headers("tcp", "fd00:99::11", "fd00:96::7", 49588, 80, "SYN")


@pytest.mark.parametrize(("name", "kind", "handle"), [("dropped", "rule", 2), ("policy", "policy", 0)])
def test_recorded_drop_is_decoded(name: str, kind: str, handle: int) -> None:
    last = decoded(name)[-1]
    assert (last.family, last.table, last.chain) == ("inet", "foreign", "input")
    assert (last.kind, last.handle, last.verdict, last.mark) == (kind, handle, "drop", 0x4000)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, "drop"), (-(13 << 16), "drop"), (7 << 16 | 3, "queue"), (-5, "return"), (2, "stolen"), (77, "77")],
)
def test_verdict_with_a_number_is_named(code: int, verdict: str) -> None:
    assert made(code).verdict == verdict


@pytest.mark.parametrize("network", [bytes(20), b"\x45" + bytes(10), b"\x60" + bytes(30)])
def test_unknown_header_is_none(network: bytes) -> None:
    assert made(0, network).headers is None


def test_later_fragment_has_no_ports() -> None:
    assert made(0, b"\x45" + bytes(8) + b"\x11" + bytes(10)).headers == Headers("udp", "0.0.0.0", "0.0.0.0")


def test_other_messages_are_skipped() -> None:
    assert list(events(message(10 << 8, 0, b"") + message(2, 0, bytes(20)))) == []


@given(st.sampled_from(recorded_trace("dropped")), st.integers(0, 300), st.binary(max_size=6))
def test_malformed_event_raises_no_other_error(raw: bytes, position: int, instead: bytes) -> None:
    with contextlib.suppress(KernelError), decoding("an event"):
        list(events(raw[:position] + instead + raw[position + len(instead) :]))


@pytest.mark.parametrize("left", [17, 22, 60, 130])
def test_event_that_is_cut_off_is_an_error(left: int) -> None:
    whole = recorded_trace("dropped")[0]
    cut = struct.pack("=I", left) + whole[4:left]
    with pytest.raises(KernelError, match="an event cannot be decoded"), decoding("an event"):
        list(events(cut))
