# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subscribe to changed links and addresses, and to removed routes: rtnetlink's multicast groups (rtnetlink(7))."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...model.net import unpack
from ..netlink import NETLINK_ROUTE, SO_RCVBUFFORCE, SOL_NETLINK, event_socket, from_kernel, messages, string
from . import protocol
from .routes import local_route

_RTMGRP_LINK = 0x1
_RTMGRP_IPV4_IFADDR = 0x10
_RTMGRP_IPV6_IFADDR = 0x100
_ADD_MEMBERSHIP, _DROP_MEMBERSHIP = 1, 2
_ROUTE_GROUPS = (7, 11)  # RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE
_QUEUE_BYTES = 1 << 20


class Event(NamedTuple):
    """Event of a link, an address or a route: ``what`` is ``link``, ``address`` or ``route``.

    The event of a link has its name in ``link``, and whether it is up in ``up``. The event of a route has the
    ``network`` that is routed on a link.
    """

    what: str
    gone: bool
    link_index: int
    link: str = ""
    up: bool = False
    address: str = ""
    network: str = ""


class Events:
    """Subscription to the events of the thread's network namespace; readable when there are some.

    Raises:
        OSError: netlink cannot be used.
    """

    def __init__(self) -> None:
        groups = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV6_IFADDR
        # lost events cost a full comparison
        self._socket = event_socket(NETLINK_ROUTE, groups, (SO_RCVBUFFORCE, _QUEUE_BYTES))
        self._routes = False

    def follow_routes(self, wanted: bool) -> None:
        """Subscribe to deleted local routes, or unsubscribe.

        A node may have very many routes, most of which do not concern the agent.
        """
        if wanted != self._routes:
            for group in _ROUTE_GROUPS:
                self._socket.setsockopt(SOL_NETLINK, _ADD_MEMBERSHIP if wanted else _DROP_MEMBERSHIP, group)
            self._routes = wanted

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Unsubscribe."""
        self._socket.close()

    def read(self) -> list[Event] | None:
        """Return the events since the last call, or None if some were lost or malformed."""
        events: list[Event] = []
        lost = False
        while True:
            try:
                packet = from_kernel(self._socket)
            except BlockingIOError:
                return None if lost else events
            except OSError:  # ENOBUFS: the queue overflowed
                lost = True
                continue
            try:
                events.extend(_parse(packet))
            except ValueError:  # truncated: larger than one read
                lost = True


def _parse(packet: bytes) -> list[Event]:
    """Return the events in a packet.

    Raises:
        ValueError: a message or an attribute is shorter than what it must hold, or longer than the packet.
    """
    try:
        return _events(packet)
    except struct.error as error:
        raise ValueError(f"rtnetlink message too short: {error}") from None


def _events(packet: bytes) -> list[Event]:
    events = []
    for kind, _flags, _sequence, body in messages(packet):
        if kind in (protocol.RTM_NEWLINK, protocol.RTM_DELLINK):
            index, is_up, fields = protocol.unpack_link(body)
            name = string(fields.get(protocol.IFLA_IFNAME, b""))
            events.append(Event("link", kind == protocol.RTM_DELLINK, index, link=name, up=is_up))
        elif kind in (protocol.RTM_NEWADDR, protocol.RTM_DELADDR):
            index, _prefix, raw = protocol.unpack_address(body)
            if len(raw) in (4, 16):
                events.append(Event("address", kind == protocol.RTM_DELADDR, index, address=unpack(raw)))
        elif kind == protocol.RTM_DELROUTE:
            route = local_route(body)
            if route is not None:
                events.append(Event("route", True, route.link, network=route.network))
    return events
