# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assemble events of nftables' trace to packets.

The kernel's number of a packet is no identity. A later packet gets it again, and a packet gets another one where it
enters a second link: a bridge after its port, or the loopback after its sender.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.nft_trace import POLICY, RULE, TABLE_PREFIX, Headers, TraceEvent

_REPLIES = "-replies"  # end of the names of chains that trace answers
_LAST = ("postrouting", "delivered")  # chains of a trace's table, behind all others of their hooks
_LOOPBACK = 1  # index of lo in every network namespace
_OPEN = 16  # latest packets that may get another number


class TracedPacket:
    """Events of one packet, in order; ``is_reply`` if it goes to the client, ``has_ended`` after its last event."""

    def __init__(self, first: TraceEvent) -> None:
        self.events = [first]
        self.is_reply = first.chain.endswith(_REPLIES)
        self.headers: Headers | None = first.headers  # the latest
        self.has_ended = False

    def add(self, event: TraceEvent) -> None:
        """Append an event."""
        self.events.append(event)
        self.headers = event.headers or self.headers
        is_last = event.table.startswith(TABLE_PREFIX) and event.kind == POLICY and event.chain in _LAST
        self.has_ended = is_last or event.verdict == "drop"


def assembled(events: Iterable[TraceEvent]) -> list[TracedPacket]:
    """Return the packets that a rule of a trace's table marked, in the order of their first events.

    Events of packets that another program traces are left out.
    """
    packets: list[TracedPacket] = []
    by_number: dict[int, TracedPacket] = {}
    for event in events:
        is_mark = event.table.startswith(TABLE_PREFIX) and event.kind == RULE and bool(event.handle)
        packet = None if is_mark else by_number.get(event.packet)
        if packet is None or packet.has_ended:
            packet = _looped(packets, event) if is_mark else _renumbered(packets, event)
        if packet is not None:
            packet.add(event)
        elif is_mark:
            packet = TracedPacket(event)
            packets.append(packet)
        else:
            continue
        by_number[event.packet] = packet
    return packets


def _looped(packets: list[TracedPacket], event: TraceEvent) -> TracedPacket | None:
    """Return the packet that comes in again by the loopback, if this one does."""
    if event.in_link == _LOOPBACK and event.headers is not None:
        for packet in reversed(packets[-_OPEN:]):
            if packet.headers == event.headers and not packet.events[0].in_link:
                return packet
    return None


def _renumbered(packets: list[TracedPacket], event: TraceEvent) -> TracedPacket | None:
    """Return the latest packet with these addresses; else one that has kept its source, or its destination."""
    if event.headers is None:
        return None
    for form in (_whole, _from, _to):
        for packet in reversed(packets[-_OPEN:]):
            if packet.headers and not packet.has_ended and form(packet.headers) == form(event.headers):
                return packet
    return None


def _whole(headers: Headers) -> tuple[object, ...]:
    return headers


def _from(headers: Headers) -> tuple[object, ...]:
    return headers.protocol, headers.flags, headers.source, headers.source_port


def _to(headers: Headers) -> tuple[object, ...]:
    return headers.protocol, headers.flags, headers.destination, headers.port
