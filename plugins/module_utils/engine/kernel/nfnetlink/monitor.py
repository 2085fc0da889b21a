# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subscribe to changes of rules that nftables holds: iptables' and the agent's own.

The kernel sends no events about legacy tables.
"""

from __future__ import annotations

import contextlib
import socket
from array import array
from struct import Struct
from sys import byteorder

from ..netlink import (
    ADDRESS_FAMILIES,
    NETLINK_NETFILTER,
    attributes,
    event_socket,
    from_kernel,
    messages,
)
from .protocol import HEADER_BYTES, NFNLGRP_NFTABLES, TRANSACTIONS_PORT

_QUEUE_BYTES = 65536
_FAMILIES = tuple(ADDRESS_FAMILIES.values())  # of the tables of iptables and ip6tables
_TABLE = 1  # NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE (linux/netfilter/nf_tables.h)
_TABLES = (b"nat", b"filter", b"kubenode")

# Filter of a socket (linux/filter.h): struct sock_filter (operation, jumps, operand), sock_fprog (length, pointer).
_SO_ATTACH_FILTER = 26
_STEP, _PROGRAM = Struct("=HBBI"), Struct("@HP")
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET
_PORT_OFFSET = 12  # nlmsg_pid of struct nlmsghdr
_WHOLE = 0xFFFFFFFF  # bytes of a packet to keep


class RuleEvents:
    """Transactions of nftables in the thread's network namespace, of other processes; readable after one.

    Raises:
        OSError: netlink cannot be used.
    """

    def __init__(self) -> None:
        self._socket = event_socket(NETLINK_NETFILTER, 1 << NFNLGRP_NFTABLES - 1, (socket.SO_RCVBUF, _QUEUE_BYTES))
        _drop_own(self._socket)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Unsubscribe."""
        self._socket.close()

    def rules_changed(self) -> bool:
        """Tell whether another process may have changed rules in the tables nat, filter and kubenode.

        Afterwards the descriptor is quiet until the next transaction.
        """
        has_changed = False
        while True:
            try:
                packet = from_kernel(self._socket)
                has_changed = has_changed or _touches(packet)
            except BlockingIOError:
                return has_changed
            except (OSError, ValueError):  # ENOBUFS: the queue overflowed; truncated: larger than one read
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


def _drop_own(subscription: socket.socket) -> None:
    """Let the kernel drop the events of TRANSACTIONS_PORT, which would wake this process after each change of its own.

    Without the filter they are events like others. A packet has the events of one transaction.
    """
    own = int.from_bytes(TRANSACTIONS_PORT.to_bytes(4, byteorder), "big")  # as a load of the filter takes it
    steps = ((_LOAD_WORD, 0, 0, _PORT_OFFSET), (_JUMP_IF_EQUAL, 0, 1, own), (_RETURN, 0, 0, 0), (_RETURN, 0, 0, _WHOLE))
    program = array("B", b"".join(_STEP.pack(*step) for step in steps))
    with contextlib.suppress(OSError):
        subscription.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, _PROGRAM.pack(len(steps), program.buffer_info()[0])
        )
