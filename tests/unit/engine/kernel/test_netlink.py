# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transport of netlink: attributes and batches by property, requests and dumps on route netlink.

The tests only read this machine's route netlink.
"""

from __future__ import annotations

import errno
import struct
from socket import AF_NETLINK, SOCK_RAW
from socket import socket as open_socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.engine.kernel import netlink
from kubenode.engine.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, attribute, attributes, message

RTM_GETLINK = 18
RTM_NEWLINK = 16
IFLA_IFNAME = 3
UNKNOWN_TYPE = 17 + 4 * 60  # an RTM_* type that the kernel lacks


def link(index: int) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, 0, 0)


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=40)))
def test_attributes_undo_attribute(wanted: dict[int, bytes]) -> None:
    raw = b"".join(attribute(kind, payload) for kind, payload in wanted.items())
    assert len(raw) % 4 == 0
    assert attributes(raw) == wanted
    assert attributes(b"1234" + raw, 4) == wanted


def test_flag_bits_are_not_part_of_a_type() -> None:
    assert attributes(attribute(5 | netlink.NLA_F_NESTED, b"x")) == {5: b"x"}


@pytest.mark.parametrize("raw", [b"\x03\0\x01\0", b"\x09\0\x01\0abcd", b"\0\0\0\0"])
def test_a_length_that_leaves_the_message_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="netlink attribute of"):
        attributes(raw)


@given(st.lists(st.integers(16, 40000), max_size=700))
def test_batches_keep_order_and_stay_small(sizes: list[int]) -> None:
    messages = [bytes(size) for size in sizes]
    batches = list(netlink._batches(messages))
    assert [single for batch in batches for single in batch] == messages
    for batch in batches:
        assert 1 <= len(batch) <= 256
        assert len(batch) == 1 or sum(map(len, batch)) <= 32768


def test_dump_and_query_find_loopback() -> None:
    with NetlinkSocket(NETLINK_ROUTE) as socket:
        names = [attributes(payload, 16)[IFLA_IFNAME] for payload in socket.dump(message(RTM_GETLINK, 0, link(0)))]
        assert b"lo\0" in names
        (one,) = socket.query(message(RTM_GETLINK, 0, link(1)))
        assert attributes(one, 16)[IFLA_IFNAME] == b"lo\0"


def test_query_raises_the_error_of_the_kernel() -> None:
    with NetlinkSocket(NETLINK_ROUTE) as socket:
        with pytest.raises(OSError, match="ENODEV") as caught:
            socket.query(message(RTM_GETLINK, 0, link(0x7FFFFFFF)))
        assert caught.value.errno == errno.ENODEV


@pytest.mark.parametrize(
    "bad", [[0], [599], [0, 255, 256, 257, 599], list(range(600))], ids=["first", "last", "some", "all"]
)
def test_request_says_which_of_many_were_refused(bad: list[int]) -> None:
    """The kernel skips a good message of this test: its type RTM_BASE - 16 + n is below NLMSG_MIN_TYPE."""
    noop, wrong = message(1, 0, b""), message(UNKNOWN_TYPE, 0, link(0))
    messages = [wrong if index in bad else noop for index in range(600)]
    with NetlinkSocket(NETLINK_ROUTE) as socket:
        outcome = socket.request(messages)
    assert [index for index, code in enumerate(outcome) if code] == bad
    assert len(outcome) == 600


def test_lost_refusals_are_requested_again() -> None:
    """A queue of a few kilobytes cannot hold 600 refusals; the request returns all of them."""
    wrong = message(UNKNOWN_TYPE, 0, link(0))
    with NetlinkSocket(NETLINK_ROUTE, queue_bytes=1) as socket:
        assert all(socket.request([wrong] * 600))
        assert socket.request([message(1, 0, b"")]) == [0]


def test_a_closed_socket_is_an_error() -> None:
    with NetlinkSocket(NETLINK_ROUTE) as socket:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        socket.request([message(1, 0, b"")])


WHOLE = struct.pack("=IHHII", 20, RTM_NEWLINK, 0, 7, 0) + b"abcd"


def test_messages_of_a_packet() -> None:
    assert list(netlink.messages(WHOLE * 2)) == [(RTM_NEWLINK, 0, 7, b"abcd")] * 2
    assert list(netlink.messages(b"")) == []


@pytest.mark.parametrize(
    "packet",
    [
        bytes(16),
        bytes(4),
        WHOLE[:12],
        WHOLE + bytes(20),
        struct.pack("=IHHII", 15, 16, 0, 0, 0),
        WHOLE[:18],
        WHOLE + b"\xff" * 16,
    ],
    ids=["length 0", "short", "half a header", "length 0 later", "length 15", "cut off", "length 2^32-1"],
)
def test_messages_with_a_wrong_length_are_an_error(packet: bytes) -> None:
    with pytest.raises(ValueError, match=r"^netlink message of \d+ bytes"):
        list(netlink.messages(packet))


@given(st.binary(max_size=200))
def test_messages_of_any_bytes_end(packet: bytes) -> None:
    try:
        messages = list(netlink.messages(packet))
    except ValueError:
        return
    assert sum(16 + len(payload) for _kind, _flags, _sequence, payload in messages) <= len(packet)


def test_another_process_cannot_answer_for_the_kernel() -> None:
    """Before the request, another process sends the end of a dump, an empty message and an acknowledgement."""
    with NetlinkSocket(NETLINK_ROUTE) as victim, open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) as attacker:
        target = (victim._socket.getsockname()[0], 0)
        for kind in (2, 3):
            attacker.sendto(struct.pack("=IHHIIi", 20, kind, 0, victim._sequence + 1, 0, -errno.EIO), target)
        attacker.sendto(bytes(16), target)
        names = [attributes(payload, 16)[IFLA_IFNAME] for payload in victim.dump(message(RTM_GETLINK, 0, link(0)))]
    assert b"lo\0" in names
