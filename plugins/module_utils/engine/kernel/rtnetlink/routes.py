# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages about local routes, by rtnetlink: ``ip route add local CIDR dev LINK table local``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ...model.link import STATIC, Route, RouteKey
from ...model.net import pack, unpack
from ..netlink import AF_INET, AF_INET6, NLM_F_APPEND, NLM_F_CREATE, attribute, attributes, message
from .protocol import (
    RT_SCOPE_HOST,
    RT_TABLE_LOCAL,
    RTA_DST,
    RTA_OIF,
    RTA_PRIORITY,
    RTM_DELROUTE,
    RTM_NEWROUTE,
    RTMSG,
    RTN_LOCAL,
)

# Routing protocols of the kernel's own routes: those for each address (RTPROT_UNSPEC on old kernels), and redirects.
_KERNEL = (0, 1, 2)
_ANY_DESTINATION = {AF_INET: bytes(4), AF_INET6: bytes(16)}
_PRIORITY = {AF_INET: 0, AF_INET6: 1024}  # of a route that is created without one (IP6_RT_PRIO_USER)
_U32 = Struct("=I")


def route_message(key: RouteKey, index: int, before: Route | None, after: Route | None) -> bytes:
    """Return the message that creates a local route, or removes the one with the protocol and priority of ``before``.

    The route is appended, because the kernel has a route of its own for an address on a link. No route is replaced, and
    creating the same route again is an error (EEXIST).

    A removal without a priority is a removal of the first route, whatever its priority. IPv4 has no word for its
    default: see :func:`has_wildcard`.
    """
    address, _slash, length = key.network.partition("/")
    raw = pack(address)
    family, scope = (AF_INET, RT_SCOPE_HOST) if len(raw) == 4 else (AF_INET6, 0)
    route = (before if after is None else after) or STATIC
    header = RTMSG.pack(family, int(length), 0, 0, RT_TABLE_LOCAL, route.protocol, scope, RTN_LOCAL, 0)
    fields = attribute(RTA_DST, raw) + attribute(RTA_OIF, _U32.pack(index))
    priority = route.priority or _PRIORITY[family]
    if priority:
        fields += attribute(RTA_PRIORITY, _U32.pack(priority))
    if after is None:
        return message(RTM_DELROUTE, 0, header + fields)
    return message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, header + fields)


def has_wildcard(key: RouteKey, before: Route | None) -> bool:
    """Tell whether the removal of a route would take one of another priority in its absence.

    If the route is there, it is the first: the kernel sorts routes of a network by priority.
    """
    return ":" not in key.network and not (before or STATIC).priority


class LocalRoute(NamedTuple):
    """A local route in a message: the link's index, the network in CIDR notation, protocol and priority."""

    link: int
    network: str
    route: Route


def local_route(payload: bytes) -> LocalRoute | None:
    """Return the local route of a message.

    None if it is another kind of route, belongs to an address, or is only for one type of service.
    """
    family, length, _from, tos, table, protocol, _scope, kind, _flags = RTMSG.unpack_from(payload)
    if table != RT_TABLE_LOCAL or kind != RTN_LOCAL or protocol in _KERNEL or family not in _ANY_DESTINATION or tos:
        return None
    fields = attributes(payload, RTMSG.size)
    if RTA_OIF not in fields:
        return None
    network = f"{unpack(fields.get(RTA_DST, _ANY_DESTINATION[family]))}/{length}"
    (priority,) = _U32.unpack(fields.get(RTA_PRIORITY, bytes(4)))
    route = Route(protocol, 0 if priority == _PRIORITY[family] else priority)
    return LocalRoute(_U32.unpack(fields[RTA_OIF])[0], network, route)


def local_routes(payloads: Iterable[bytes], names: dict[int, str]) -> Iterator[tuple[RouteKey, Route]]:
    """Yield the local routes of a dump on these links (names by index), without those of addresses.

    A network may have several routes on a link.
    """
    for local in map(local_route, payloads):
        if local is not None and local.link in names:
            yield RouteKey(names[local.link], local.network), local.route


def first_routes(routes: Iterable[tuple[RouteKey, Route]]) -> dict[RouteKey, Route]:
    """Return one route of each network and link: the engine's if there is one, else the first."""
    chosen: dict[RouteKey, Route] = {}
    for key, route in routes:
        if route == STATIC:
            chosen[key] = route
        else:
            chosen.setdefault(key, route)
    return chosen


def routed_addresses(payloads: Iterable[bytes]) -> set[str]:
    """Return the IPv6 addresses of links for which a dump has the kernel's local route."""
    addresses = set()
    for payload in payloads:
        family, length, _from, _tos, table, protocol, _scope, kind, _flags = RTMSG.unpack_from(payload)
        if (family, length, table, kind) == (AF_INET6, 128, RT_TABLE_LOCAL, RTN_LOCAL) and protocol in _KERNEL:
            addresses.add(unpack(attributes(payload, RTMSG.size)[RTA_DST]))
    return addresses
