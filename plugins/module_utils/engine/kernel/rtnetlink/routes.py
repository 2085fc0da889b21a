# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Local routes by rtnetlink: ``ip route add local CIDR dev LINK table local``.

See rtnetlink(7) and linux/rtnetlink.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ...model.link import STATIC, RouteKey
from ...model.net import pack, unpack
from ..netlink import NLM_F_APPEND, NLM_F_CREATE, attribute, attributes, message

NEWROUTE, DELROUTE, GETROUTE = 24, 25, 26
# The kernel's own, among them those that it makes for each address (RTPROT_UNSPEC on old ones), and redirects.
_KERNEL = (0, 1, 2)
_LOCAL_TABLE, _LOCAL_TYPE = 255, 2
_SCOPE_HOST = 254
_ANY_DESTINATION = {2: b"\0" * 4, 10: b"\0" * 16}
_DESTINATION, _LINK = 1, 4

# struct rtmsg: family, prefix lengths (to, from), tos, table, protocol, scope, type, flags
_ROUTE = Struct("=BBBBBBBBI")
_INDEX = Struct("=I")

DUMP = _ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)


def route_message(key: RouteKey, index: int, before: int | None, after: int | None) -> bytes:
    """Return the message that makes a local route, or removes the one of protocol ``before``.

    It is appended: for a single address the kernel may have a route of its own, as long as the address is on some link.
    Nothing is replaced, and the same route a second time is an error (EEXIST).
    """
    address, _slash, length = key.network.partition("/")
    raw = pack(address)
    family, scope = (2, _SCOPE_HOST) if len(raw) == 4 else (10, 0)
    protocol = (before if after is None else after) or STATIC
    header = _ROUTE.pack(family, int(length), 0, 0, _LOCAL_TABLE, protocol, scope, _LOCAL_TYPE, 0)
    fields = attribute(_DESTINATION, raw) + attribute(_LINK, _INDEX.pack(index))
    if after is None:
        return message(DELROUTE, 0, header + fields)
    return message(NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, header + fields)


class LocalRoute(NamedTuple):
    """A local route as a message has it: the link's number, the network in CIDR notation, who made it."""

    link: int
    network: str
    protocol: int


def local_route(payload: bytes) -> LocalRoute | None:
    """Return the local route of a message; None if it is another kind of route, or belongs to an address."""
    family, length, _from, _tos, table, protocol, _scope, kind, _flags = _ROUTE.unpack_from(payload)
    if table != _LOCAL_TABLE or kind != _LOCAL_TYPE or protocol in _KERNEL or family not in _ANY_DESTINATION:
        return None
    fields = attributes(payload, _ROUTE.size)
    if _LINK not in fields:
        return None
    network = f"{unpack(fields.get(_DESTINATION, _ANY_DESTINATION[family]))}/{length}"
    return LocalRoute(_INDEX.unpack(fields[_LINK])[0], network, protocol)


def local_routes(payloads: Iterable[bytes], names: dict[int, str]) -> Iterator[tuple[RouteKey, int]]:
    """Yield the local routes of a dump that are on these links (by their numbers) and do not belong to an address."""
    for found in map(local_route, payloads):
        if found is not None and found.link in names:
            yield RouteKey(names[found.link], found.network), found.protocol


def routed_addresses(payloads: Iterable[bytes]) -> set[str]:
    """Return the IPv6 addresses of a dump that are local because they are on some link."""
    found = set()
    for payload in payloads:
        family, length, _from, _tos, table, protocol, _scope, kind, _flags = _ROUTE.unpack_from(payload)
        if (family, length, table, kind) == (10, 128, _LOCAL_TABLE, _LOCAL_TYPE) and protocol in _KERNEL:
            found.add(unpack(attributes(payload, _ROUTE.size)[_DESTINATION]))
    return found
