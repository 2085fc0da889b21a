# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of the fields of virtual and real servers.

The limits are checked only after packing a field has failed, to name the reason.
"""

from __future__ import annotations

from typing import Any

from ...model.ipvs import FORWARDING_METHODS, PROTOCOLS, TUNNEL_TYPES, RealServer, VirtualServer, VirtualServerKey
from ...model.kinds import name
from ...model.net import canonical, family

MAXIMUM_NAME = 15
_U32 = (0, 0xFFFFFFFF)
_PORT = (0, 0xFFFF)
MAXIMUM_TIMEOUT = 0xFFFFFFFF // 1000  # the kernel counts in ticks, up to 1000 a second, unchecked


def unfit(kind: str, key: Any, value: Any) -> str:
    """Return one sentence that names the item and the field of it that netlink cannot carry."""
    server = key.server if kind == "real_server" else key
    for field, given, expected in _limits(server, key, value):
        if not _within(given, expected):
            return f"{name(kind, key)}: {field} is {given!r}, expected {_in_words(expected)}"
    return f"{name(kind, key)}: it has a value that the kernel cannot be given"


def _limits(server: VirtualServerKey, key: Any, value: Any) -> list[tuple[str, Any, Any]]:
    """Return the limits to check as (field, value, limit).

    A limit is a range, a tuple of words, "name", "IP address", or the family's "IPv4 address" or "IPv6 address".
    """
    mark = server.protocol == "fwmark"
    limits: list[tuple[str, Any, Any]] = [
        ("protocol", server.protocol, (*PROTOCOLS, "fwmark")),
        ("mark" if mark else "port", server.port, _U32 if mark else _PORT),
    ]
    if not mark:
        limits.append(("address", server.address, f"IPv{server.family} address"))
    if key is not server:
        limits += [("address", key.address, "IP address"), ("port", key.port, _PORT)]
    if isinstance(value, VirtualServer):
        limits += [
            ("scheduler", value.scheduler, "name"),
            ("flags", value.flags, _U32),
            ("timeout", value.timeout, (0, MAXIMUM_TIMEOUT)),
            ("netmask", value.netmask, (0, 128 if server.family == 6 else 32)),
            ("pe_name", value.pe_name, "name"),
        ]
    if isinstance(value, RealServer):
        limits += [
            ("weight", value.weight, (0, 0x7FFFFFFF)),
            ("forward", value.forward, FORWARDING_METHODS),
            ("upper_threshold", value.upper_threshold, _U32),
            ("lower_threshold", value.lower_threshold, _U32),
            ("tunnel_type", value.tunnel_type, TUNNEL_TYPES),
            ("tunnel_port", value.tunnel_port, _PORT),
            ("tunnel_flags", value.tunnel_flags, _PORT),
        ]
    return limits


def _within(given: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        if expected == "name":
            return isinstance(given, str) and given.isascii() and len(given) <= MAXIMUM_NAME
        try:
            canonical(given)
        except ValueError:
            return False
        return expected == "IP address" or expected == f"IPv{family(given)} address"
    if isinstance(expected[0], str):
        return given in expected
    return isinstance(given, int) and not isinstance(given, bool) and expected[0] <= given <= expected[1]


def _in_words(expected: Any) -> str:
    if isinstance(expected, str):
        return f"an ASCII name of at most {MAXIMUM_NAME} characters" if expected == "name" else f"an {expected}"
    if isinstance(expected[0], str):
        return "one of " + ", ".join(expected)
    return f"a number from {expected[0]} to {expected[1]}"
