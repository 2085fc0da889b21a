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
from .protocol import HEADER_BYTES, NFNL_SUBSYS_NFTABLES, NFNLGRP_NFTABLES

_QUEUE_BYTES = 65536
_FAMILIES = tuple(ADDRESS_FAMILIES.values())  # of the tables of iptables and ip6tables
_TABLE = 1  # NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE (linux/netfilter/nf_tables.h)
_NEW_GENERATION = NFNL_SUBSYS_NFTABLES << 8 | 15  # NFT_MSG_NEWGEN
_GENERATION = 1  # NFTA_GEN_ID
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

    def rules_changed(self, known: int | None = None) -> bool:
        """Tell whether rules in the tables nat, filter and kubenode may have changed.

        Changes up to the generation ``known`` do not count: the caller has read them, or made them. Afterwards the
        descriptor is quiet until the next transaction.
        """
        is_touched, generation = False, None
        while True:
            try:
                packet = from_kernel(self._socket)
                touches, made = _parse(packet)
            except BlockingIOError:
                return is_touched and (generation is None or generation != known)
            except (OSError, ValueError):  # ENOBUFS: the queue overflowed; truncated: larger than one read
                is_touched, known = True, None
                continue
            is_touched = is_touched or touches
            generation = generation if made is None else made


def _parse(packet: bytes) -> tuple[bool, int | None]:
    """Return whether a packet is about the tables nat, filter or kubenode, and the generation that it announces.

    The kernel announces a generation at the end of its transaction.

    Raises:
        ValueError: a message or an attribute is shorter than its header, or longer than the packet.
    """
    is_touched, generation = False, None
    for kind, _flags, _sequence, body in messages(packet):
        if kind == _NEW_GENERATION:
            number = attributes(body, HEADER_BYTES).get(_GENERATION, b"")
            generation = int.from_bytes(number, "big") if number else None
        elif body[:1] and body[0] in _FAMILIES and not is_touched:
            is_touched = attributes(body, HEADER_BYTES).get(_TABLE, b"").rstrip(b"\0") in _TABLES
    return is_touched, generation
