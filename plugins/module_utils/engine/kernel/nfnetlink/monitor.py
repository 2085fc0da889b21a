# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subscribe to changes of rules that nftables holds: iptables' and the agent's own.

The kernel sends no events about legacy tables.
"""

from __future__ import annotations

import socket

from ..netlink import (
    ADDRESS_FAMILIES,
    NETLINK_NETFILTER,
    attributes,
    event_socket,
    from_kernel,
    messages,
)
from .protocol import HEADER_BYTES, NFNLGRP_NFTABLES

_QUEUE_BYTES = 65536
_FAMILIES = tuple(ADDRESS_FAMILIES.values())  # of the tables of iptables and ip6tables
_TABLE = 1  # NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE (linux/netfilter/nf_tables.h)
_TABLES = (b"nat", b"filter", b"kubenode")


class RuleEvents:
    """Transactions of nftables in the thread's network namespace, of every process; readable after one.

    Raises:
        OSError: netlink cannot be used.
    """

    def __init__(self) -> None:
        self._socket = event_socket(NETLINK_NETFILTER, 1 << NFNLGRP_NFTABLES - 1, (socket.SO_RCVBUF, _QUEUE_BYTES))

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Unsubscribe."""
        self._socket.close()

    def rules_changed(self) -> bool:
        """Tell whether rules in the tables nat, filter and kubenode may have changed.

        Afterwards the descriptor is quiet until the next transaction.
        """
        has_changed = False
        while True:
            try:
                packet = from_kernel(self._socket)
            except BlockingIOError:
                return has_changed
            except OSError:  # ENOBUFS: the queue overflowed
                has_changed = True
                continue
            try:
                has_changed = has_changed or _touches(packet)
            except ValueError:  # truncated: larger than one read
                has_changed = True


def _touches(packet: bytes) -> bool:
    """Tell whether a packet is about the tables nat, filter or kubenode.

    Raises:
        ValueError: a message or an attribute is shorter than its header, or longer than the packet.
    """
    for _kind, _flags, _sequence, body in messages(packet):
        if (
            body[:1]
            and body[0] in _FAMILIES
            and attributes(body, HEADER_BYTES).get(_TABLE, b"").rstrip(b"\0") in _TABLES
        ):
            return True
    return False
