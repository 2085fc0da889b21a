# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hearing that iptables' rules changed, where nftables holds them: of legacy tables the kernel tells nobody."""

from __future__ import annotations

import socket

from ..engine.kernel.netlink import NETLINK_NETFILTER

_NFTABLES = 7  # NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h): what every transaction did
_QUEUE_BYTES = 4096  # that there was one is all we want to know: what does not fit into the queue is dropped by the kernel


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

    def heard(self) -> None:
        """Make the descriptor quiet until the next transaction."""
        while True:
            try:
                self._socket.recv(_QUEUE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                pass  # ENOBUFS: more came than the queue holds
