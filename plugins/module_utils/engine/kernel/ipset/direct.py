# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write set members by nfnetlink, without starting a process.

This module covers a few members at a time, of the set types that a service proxy has.

Starting ``ipset`` for one member takes a hundred times as long as the kernel's own work. Other members, and all that
the kernel refuses, are left to the tool, which explains errors.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from socket import inet_pton

from ...model.step import Step
from ..netlink import (
    AF_INET,
    AF_INET6,
    NETLINK_NETFILTER,
    NLA_F_NESTED,
    NetlinkSocket,
    attribute,
    string_attribute,
)
from .protocol import (
    ATTR_CIDR2,
    ATTR_DATA,
    ATTR_IP,
    ATTR_IP2,
    ATTR_IPADDR,
    ATTR_PORT,
    ATTR_PROTO,
    ATTR_SETNAME,
    CMD_ADD,
    CMD_DEL,
    PROTOCOLS,
    request,
)

_BIG_ENDIAN = 0x4000  # NLA_F_NET_BYTEORDER
_U16 = struct.Struct(">H")
_MOST = 256  # members: for more, a process is faster


def apply(steps: Sequence[Step]) -> bool:
    """Execute steps of the kind ``member``; tell whether all are done. If not, some may be."""
    if len(steps) > _MOST or any(step.kind != "member" or step.after for step in steps):
        return False
    try:
        messages = [_message(step) for step in steps]
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            return not any(socket.request(messages))
    except (OSError, KeyError, ValueError, struct.error):
        return False


def _message(step: Step) -> bytes:
    """Return a request as of ``ipset -exist``: without NLM_F_EXCL."""
    data = attribute(ATTR_DATA | NLA_F_NESTED, _member(step.key.member))
    return request(CMD_DEL if step.after is None else CMD_ADD, string_attribute(ATTR_SETNAME, step.key.set) + data)


def _member(text: str) -> bytes:
    """Return the attributes of a set member.

    Its text is ``PORT``, ``ADDRESS``, ``ADDRESS,PROTOCOL:PORT`` or ``ADDRESS,PROTOCOL:PORT,ADDRESS[/LENGTH]``.

    Raises:
        KeyError, OSError, ValueError, struct.error: it is none of these.
    """
    if text.isdecimal():
        return attribute(ATTR_PORT | _BIG_ENDIAN, _U16.pack(int(text)))
    first, *rest = text.split(",")
    data = _address(ATTR_IP, first)
    if rest:
        protocol, port = rest[0].split(":")
        data += attribute(ATTR_PROTO, bytes((PROTOCOLS[protocol],))) + attribute(
            ATTR_PORT | _BIG_ENDIAN, _U16.pack(int(port))
        )
    if len(rest) > 1:
        (second,) = rest[1:]
        address, _slash, length = second.partition("/")
        data += _address(ATTR_IP2, address)
        if length:
            data += attribute(ATTR_CIDR2, bytes((int(length),)))
    return data


def _address(kind: int, text: str) -> bytes:
    family = AF_INET6 if ":" in text else AF_INET
    return attribute(kind | NLA_F_NESTED, attribute(ATTR_IPADDR[family] | _BIG_ENDIAN, inet_pton(family, text)))
