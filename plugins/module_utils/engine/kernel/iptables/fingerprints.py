# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprint of the rules, from the kernel itself: detect changes since the last read without starting a tool.

Two processes of ``iptables-save`` are most of the cost of a full comparison on a node without changes. The fingerprint
is taken before rules are read. While it stays the same, the rules that were read are still present.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from functools import cache
from struct import Struct
from sys import byteorder
from typing import Any

from ...digest import blake2b
from ..netlink import NETLINK_NETFILTER, NetlinkSocket
from ..nfnetlink.protocol import NFNL_SUBSYS_NFTABLES, request

_GET_GENERATION = 16  # NFT_MSG_GETGEN (linux/netfilter/nf_tables.h)

_GET_INFO, _GET_ENTRIES = 64, 65  # IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES, the same numbers for IPv6
_NAME_BYTES = 32
_INFO_BYTES, _SIZE_AT = 84, 80  # struct ipt_getinfo: its last field is the size of the entries
_ENTRIES_AT = 40  # struct ipt_get_entries
_NEXT = Struct("=H")
# Per family: address family and socket option level, and the offsets within an entry of the next entry's offset and of
# the counters (struct ipt_entry, struct ip6t_entry).
_ASK = {4: (socket.AF_INET, 0), 6: (socket.AF_INET6, 41)}
_ENTRY = {4: (90, 96), 6: (142, 152)}
_COUNTERS = bytes(16)
_TABLES = ("nat", "filter")


def fingerprint(backend: str) -> bytes | None:
    """Return a fingerprint of the rules of both families in the tables nat and filter, without their counters.

    None: unknown, the rules must be read.

    Args:
        backend: ``legacy`` or ``nft``; the generation of nft's rules counts changes in all of its tables.
    """
    try:
        if backend == "nft":
            with NetlinkSocket(NETLINK_NETFILTER) as opened:
                return _digest(opened.query(request(NFNL_SUBSYS_NFTABLES, _GET_GENERATION)))
        return _digest([_legacy(family, table) for family in (4, 6) for table in _TABLES])
    except OSError:
        return None


def _legacy(family: int, table: str) -> bytes:
    """Return a table as the kernel holds it, with all counters 0."""
    domain, level = _ASK[family]
    with socket.socket(domain, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as opened:
        info = bytearray(_INFO_BYTES)
        info[: len(table)] = table.encode()
        _ask(opened, level, _GET_INFO, info)
        size = int.from_bytes(info[_SIZE_AT:_INFO_BYTES], byteorder)
        entries = bytearray(_ENTRIES_AT + size)
        entries[: len(table)] = table.encode()
        entries[_NAME_BYTES : _NAME_BYTES + 4] = size.to_bytes(4, byteorder)
        _ask(opened, level, _GET_ENTRIES, entries)
    next_at, counters_at = _ENTRY[family]
    offset = _ENTRIES_AT
    while offset < len(entries):
        entries[offset + counters_at : offset + counters_at + len(_COUNTERS)] = _COUNTERS
        (step,) = _NEXT.unpack_from(entries, offset + next_at)
        if not step:
            raise OSError("the kernel's rules are not laid out as expected")
        offset += step
    return bytes(entries)


def _ask(opened: socket.socket, level: int, option: int, buffer: bytearray) -> None:
    """Call getsockopt(2) with a buffer for request and answer.

    Python's own getsockopt cannot pass a request.
    """
    import ctypes

    length = ctypes.c_uint(len(buffer))
    start = ctypes.c_char.from_buffer(buffer)  # not an array, which would be a new class for each length
    if _c_library().getsockopt(opened.fileno(), level, option, ctypes.byref(start), ctypes.byref(length)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@cache
def _c_library() -> Any:
    """Return the C library, loaded once.

    Each CDLL defines a class. Its reference cycles hold 3 KB until the garbage collector runs.
    """
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
    return digest.digest()
