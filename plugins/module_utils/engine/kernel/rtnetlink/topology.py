# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read links, routes, policy rules and neighbours of the node, by rtnetlink.

Numbers are those of linux/rtnetlink.h, linux/fib_rules.h, linux/neighbour.h and linux/if_link.h.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ...errors import KernelError
from ...model.net import unpack
from ..decoding import decoding
from ..netlink import AF_INET, AF_INET6, NETLINK_ROUTE, NetlinkSocket, attributes, message, string
from .protocol import (
    ALL_LINKS,
    IFLA_IFNAME,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    RTA_DST,
    RTA_OIF,
    RTA_PRIORITY,
    RTM_GETLINK,
    RTM_GETROUTE,
    RTMSG,
    unpack_link,
)

_RTM_GETNEIGH, _RTM_GETRULE = 30, 34
_IFLA_MTU, _IFLA_MASTER = 4, 10
_RTA_GATEWAY, _RTA_PREFSRC, _RTA_MULTIPATH, _RTA_TABLE, _RTA_VIA = 5, 7, 9, 15, 18
_KINDS = {
    1: "unicast", 2: "local", 3: "broadcast", 4: "broadcast", 5: "multicast", 6: "blackhole", 7: "unreachable",
    8: "prohibit", 9: "throw",
}  # fmt: skip
_CLONED = 0x200  # RTM_F_CLONED: an entry of the cache
_NDMSG = Struct("=BxxxiHBB")  # family, index, state, flags, type
_NDA_DST = 1
_STATES = {1: "INCOMPLETE", 2: "REACHABLE", 4: "STALE", 8: "DELAY", 16: "PROBE", 32: "FAILED", 64: "NOARP"}
_PERMANENT = 128
_FRA_DST, _FRA_SRC, _FRA_IIFNAME, _FRA_PRIORITY, _FRA_FWMARK, _FRA_TABLE, _FRA_FWMASK = 1, 2, 3, 6, 10, 15, 16
_FRA_HARMLESS = {_FRA_DST, _FRA_SRC, _FRA_IIFNAME, _FRA_PRIORITY, _FRA_FWMARK, _FRA_TABLE, _FRA_FWMASK, 13, 14, 21}
_ACTIONS = {1: "lookup", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_INVERTED = 0x2  # FIB_RULE_INVERT
_U32 = Struct("=I")
_EVERYTHING = {AF_INET: "0.0.0.0", AF_INET6: "::"}


class LinkEntry(NamedTuple):
    """One interface; ``kind`` is "" for hardware, ``master`` the bridge that it is a port of, or ""."""

    name: str
    is_up: bool
    kind: str
    master: str
    mtu: int


class RouteRow(NamedTuple):
    """One route: network, kind, link, gateway, preferred source, metric and table."""

    network: str
    kind: str
    link: str
    gateway: str
    source: str
    metric: int
    table: int


class RuleRow(NamedTuple):
    """One policy rule. ``others`` tells which of its selectors are not among these fields."""

    family: int
    priority: int
    table: int
    source: str
    destination: str
    link: str
    mark: int
    mask: int
    action: str
    others: str


class Topology(NamedTuple):
    """Links, routes of all tables, policy rules, and neighbours as address -> (link, state)."""

    links: tuple[LinkEntry, ...]
    routes: tuple[RouteRow, ...]
    rules: tuple[RuleRow, ...]
    neighbours: dict[str, tuple[str, str]]


def read() -> Topology:
    """Return the node's topology.

    Raises:
        KernelError: the conversation with the kernel failed.
    """
    try:
        with NetlinkSocket(NETLINK_ROUTE) as socket, decoding("the kernel's routes"):
            links = _links(socket.dump(message(RTM_GETLINK, 0, ALL_LINKS)))
            names = {index: link.name for index, link in links.items()}
            routes = _routes(socket.dump(message(RTM_GETROUTE, 0, bytes(RTMSG.size))), names)
            rules = _rules(socket.dump(message(_RTM_GETRULE, 0, bytes(RTMSG.size))))
            neighbours = _neighbours(socket.dump(message(_RTM_GETNEIGH, 0, bytes(_NDMSG.size))), names)
    except OSError as error:
        raise KernelError(f"the node's routes cannot be read: {error.strerror or error}") from error
    return Topology(tuple(links.values()), tuple(routes), tuple(rules), neighbours)


def _links(payloads: list[bytes]) -> dict[int, LinkEntry]:
    raw = []
    names = {}
    for payload in payloads:
        index, is_up, fields = unpack_link(payload)
        names[index] = string(fields[IFLA_IFNAME])
        raw.append((index, is_up, fields))
    links = {}
    for index, is_up, fields in raw:
        kind = string(attributes(fields.get(IFLA_LINKINFO, b"")).get(IFLA_INFO_KIND, b""))
        master = names.get(_number(fields.get(_IFLA_MASTER)), "")
        links[index] = LinkEntry(names[index], is_up, kind, master, _number(fields.get(_IFLA_MTU)))
    return links


def _number(raw: bytes | None) -> int:
    return int(_U32.unpack(raw)[0]) if raw else 0


def _routes(payloads: list[bytes], names: dict[int, str]) -> list[RouteRow]:
    rows = []
    for payload in payloads:
        family, length, _from, _tos, table, _protocol, _scope, kind, flags = RTMSG.unpack_from(payload)
        if family not in _EVERYTHING or flags & _CLONED:
            continue
        fields = attributes(payload, RTMSG.size)
        network = f"{unpack(fields[RTA_DST]) if RTA_DST in fields else _EVERYTHING[family]}/{length}"
        link, gateway = names.get(_number(fields.get(RTA_OIF)), ""), fields.get(_RTA_GATEWAY, b"")
        if _RTA_VIA in fields:
            gateway = fields[_RTA_VIA][2:]
        if _RTA_MULTIPATH in fields:  # the first next hop stands for all
            _size, _flags, _hops, index = Struct("=HBBi").unpack_from(fields[_RTA_MULTIPATH])
            link = names.get(index, "")
            gateway = attributes(fields[_RTA_MULTIPATH][:_size], 8).get(_RTA_GATEWAY, b"")
        source = unpack(fields[_RTA_PREFSRC]) if _RTA_PREFSRC in fields else ""
        number = _number(fields.get(_RTA_TABLE)) or table
        text = unpack(gateway) if gateway else ""
        metric = _number(fields.get(RTA_PRIORITY))
        rows.append(RouteRow(network, _KINDS.get(kind, str(kind)), link, text, source, metric, number))
    return rows


def _rules(payloads: list[bytes]) -> list[RuleRow]:
    rows = []
    for payload in payloads:
        family, to, source, tos, table, _protocol, _scope, action, flags = RTMSG.unpack_from(payload)
        if family not in _EVERYTHING:
            continue
        fields = attributes(payload, RTMSG.size)
        others = [f"attribute {number}" for number in fields if number not in _FRA_HARMLESS]
        others += ["tos"] if tos else []
        others += ["not"] if flags & _INVERTED else []
        others += [f"action {action}"] if action not in _ACTIONS else []
        mark = _number(fields.get(_FRA_FWMARK))
        rows.append(
            RuleRow(
                4 if family == AF_INET else 6,
                _number(fields.get(_FRA_PRIORITY)),
                _number(fields.get(_FRA_TABLE)) or table,
                f"{unpack(fields[_FRA_SRC])}/{source}" if _FRA_SRC in fields else "",
                f"{unpack(fields[_FRA_DST])}/{to}" if _FRA_DST in fields else "",
                string(fields.get(_FRA_IIFNAME, b"")),
                mark,
                _number(fields.get(_FRA_FWMASK)) if mark else 0,
                _ACTIONS.get(action, "lookup"),
                ", ".join(others),
            )
        )
    return rows


def _neighbours(payloads: list[bytes], names: dict[int, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for payload in payloads:
        family, index, state, _flags, _type = _NDMSG.unpack_from(payload)
        fields = attributes(payload, _NDMSG.size)
        if family in _EVERYTHING and _NDA_DST in fields:
            word = "PERMANENT" if state & _PERMANENT else _STATES.get(state, "")
            found[unpack(fields[_NDA_DST])] = (names.get(index, ""), word)
    return found
