# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages about local routes, by rtnetlink: ``ip route add local CIDR dev LINK table local``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ...model.link import STATIC, RouteKey
from ...model.net import pack, unpack
from ..netlink import AF_INET, AF_INET6, NLM_F_APPEND, NLM_F_CREATE, attribute, attributes, message
from .protocol import RT_SCOPE_HOST, RT_TABLE_LOCAL, RTA_DST, RTA_OIF, RTM_DELROUTE, RTM_NEWROUTE, RTMSG, RTN_LOCAL

# Routing protocols of the kernel's own routes: those for each address (RTPROT_UNSPEC on old kernels), and redirects.
_KERNEL = (0, 1, 2)
_ANY_DESTINATION = {AF_INET: bytes(4), AF_INET6: bytes(16)}
_INDEX = Struct("=I")


def route_message(key: RouteKey, index: int, before: int | None, after: int | None) -> bytes:
    """Return the message that creates a local route, or removes the one of protocol ``before``.

    The route is appended, because the kernel has a route of its own for an address on a link. No route is replaced, and
    creating the same route again is an error (EEXIST).
    """
    address, _slash, length = key.network.partition("/")
    raw = pack(address)
    family, scope = (AF_INET, RT_SCOPE_HOST) if len(raw) == 4 else (AF_INET6, 0)
    protocol = (before if after is None else after) or STATIC
    header = RTMSG.pack(family, int(length), 0, 0, RT_TABLE_LOCAL, protocol, scope, RTN_LOCAL, 0)
    fields = attribute(RTA_DST, raw) + attribute(RTA_OIF, _INDEX.pack(index))
    if after is None:
        return message(RTM_DELROUTE, 0, header + fields)
    return message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, header + fields)


class LocalRoute(NamedTuple):
    """A local route in a message: the link's index, the network in CIDR notation, the routing protocol."""

    link: int
    network: str
    protocol: int


def local_route(payload: bytes) -> LocalRoute | None:
    """Return the local route of a message; None if it is another kind of route, or belongs to an address."""
    family, length, _from, _tos, table, protocol, _scope, kind, _flags = RTMSG.unpack_from(payload)
    if table != RT_TABLE_LOCAL or kind != RTN_LOCAL or protocol in _KERNEL or family not in _ANY_DESTINATION:
        return None
    fields = attributes(payload, RTMSG.size)
    if RTA_OIF not in fields:
        return None
    network = f"{unpack(fields.get(RTA_DST, _ANY_DESTINATION[family]))}/{length}"
    return LocalRoute(_INDEX.unpack(fields[RTA_OIF])[0], network, protocol)


def local_routes(payloads: Iterable[bytes], names: dict[int, str]) -> Iterator[tuple[RouteKey, int]]:
    """Yield the local routes of a dump on these links (names by index), without those of addresses."""
    for route in map(local_route, payloads):
        if route is not None and route.link in names:
            yield RouteKey(names[route.link], route.network), route.protocol


def routed_addresses(payloads: Iterable[bytes]) -> set[str]:
    """Return the IPv6 addresses of links for which a dump has the kernel's local route."""
    addresses = set()
    for payload in payloads:
        family, length, _from, _tos, table, protocol, _scope, kind, _flags = RTMSG.unpack_from(payload)
        if (family, length, table, kind) == (AF_INET6, 128, RT_TABLE_LOCAL, RTN_LOCAL) and protocol in _KERNEL:
            addresses.add(unpack(attributes(payload, RTMSG.size)[RTA_DST]))
    return addresses
