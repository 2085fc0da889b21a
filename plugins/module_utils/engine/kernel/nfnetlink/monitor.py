# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hearing that iptables' rules changed, where nftables holds them: of legacy tables the kernel tells nobody."""

from __future__ import annotations

import socket
from struct import Struct

from ..engine.kernel.netlink import NETLINK_NETFILTER, attributes

_NFTABLES = 7  # NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h): what every transaction did
_QUEUE_BYTES = _READ_BYTES = 65536
_HEADER = Struct("=IHHIIBBH")  # length, type, flags, sequence, port; family, version, resource (struct nfgenmsg)
_FAMILIES = (2, 10)  # those of iptables and ip6tables
_TABLE = 1  # NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE (linux/netfilter/nf_tables.h)
_TABLES = (b"nat", b"filter")


class RuleEvents:
    """Transactions of nftables in the thread's network namespace, everybody's and ours; ready to read after one.

    Raises:
        OSError: netlink cannot be used.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, NETLINK_NETFILTER
        )
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
            self._socket.bind((0, 1 << _NFTABLES - 1))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def heard(self) -> bool:
        """Tell whether rules in the tables that ours are in may have changed; the descriptor is quiet then until the next transaction."""
        found = False
        while True:
            try:
                packet = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return found
            except OSError:  # ENOBUFS: more came than the queue holds
                found = True
                continue
            try:
                found = found or _touches(packet)
            except ValueError:  # cut off, since it is larger than what we read at a time
                found = True


def _touches(packet: bytes) -> bool:
    offset = 0
    while len(packet) - offset >= _HEADER.size:
        size, _type, _flags, _sequence, _port, family, _version, _resource = _HEADER.unpack_from(packet, offset)
        body = packet[offset + _HEADER.size : offset + size]
        if family in _FAMILIES and attributes(body, 0).get(_TABLE, b"").rstrip(b"\0") in _TABLES:
            return True
        offset += size + 3 & ~3
    return False
