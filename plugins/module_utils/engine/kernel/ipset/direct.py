# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of sets, written by nfnetlink (linux/netfilter/ipset/ip_set.h), without starting a process.

This module covers a few members at a time, of the set types that a service proxy has.

Starting ``ipset`` for one member takes a hundred times as long as the kernel does for it. Whatever is not known here,
and whatever the kernel refuses, is left to the tool, which does it again and has the words for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from socket import AF_INET, AF_INET6, inet_pton

from ...model.step import Step
from ..netlink import NETLINK_NETFILTER, NLA_F_NESTED, NetlinkSocket, attribute, message

# NFNL_SUBSYS_IPSET, IPSET_CMD_ADD and IPSET_CMD_DEL; without NLM_F_EXCL as ``ipset -exist``
_ADD, _DEL = (0x0609, 0x060A)
_HEADER = bytes((AF_INET, 0, 0, 0))  # struct nfgenmsg; a set knows its family
_PROTOCOL, _SETNAME, _DATA = 1, 2, 7
_PROTOCOL_VERSION = 6  # the oldest that kernels speak
_IP, _PORT, _PROTO, _IP2, _CIDR2 = 1, 4, 7, 20, 21
_BIG_ENDIAN = 0x4000  # NLA_F_NET_BYTEORDER
_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_U16 = struct.Struct(">H")
_MOST = 256  # more are worth a process


def apply(steps: Sequence[Step]) -> bool:
    """Make steps of the kind ``member`` true; tell whether all of them are, otherwise some may be."""
    if len(steps) > _MOST or any(step.kind != "member" or step.after for step in steps):
        return False
    try:
        messages = [_message(step) for step in steps]
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            return not any(socket.request(messages))
    except (OSError, KeyError, ValueError, struct.error):
        return False


def _message(step: Step) -> bytes:
    return message(
        _DEL if step.after is None else _ADD,
        0,
        _HEADER
        + attribute(_PROTOCOL, bytes((_PROTOCOL_VERSION,)))
        + attribute(_SETNAME, step.key.set.encode("utf-8", "surrogateescape") + b"\0")
        + attribute(_DATA | NLA_F_NESTED, _member(step.key.member)),
    )


def _member(text: str) -> bytes:
    """Return the attributes of a set member.

    Its text is ``PORT``, ``ADDRESS``, ``ADDRESS,PROTOCOL:PORT`` or ``ADDRESS,PROTOCOL:PORT,ADDRESS[/LENGTH]``.

    Raises:
        KeyError, OSError, ValueError, struct.error: it is none of these.
    """
    if text.isdecimal():
        return attribute(_PORT | _BIG_ENDIAN, _U16.pack(int(text)))
    first, *rest = text.split(",")
    data = _address(_IP, first)
    if rest:
        protocol, port = rest[0].split(":")
        data += attribute(_PROTO, bytes((_PROTOCOLS[protocol],))) + attribute(_PORT | _BIG_ENDIAN, _U16.pack(int(port)))
    if len(rest) > 1:
        (second,) = rest[1:]
        address, _slash, length = second.partition("/")
        data += _address(_IP2, address)
        if length:
            data += attribute(_CIDR2, bytes((int(length),)))
    return data


def _address(kind: int, text: str) -> bytes:
    family, number = (AF_INET6, 2) if ":" in text else (AF_INET, 1)  # IPSET_ATTR_IPADDR_*
    return attribute(kind | NLA_F_NESTED, attribute(number | _BIG_ENDIAN, inet_pton(family, text)))
