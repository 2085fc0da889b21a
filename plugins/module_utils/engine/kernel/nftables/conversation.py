# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversation with nftables by sockets that stay open, from a port whose events this process does not hear.

When a process closes a netlink socket of netfilter, the kernel lets the work of the last transactions end first
(``nft_rcv_nl_event`` in nf_tables_api.c). On Linux 6.1, a transaction with a socket of its own took two and a half
times as long. So a process that makes a transaction for each change of the cluster keeps its sockets.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence

from ...model.nftables import NftSet, SetKey
from ...model.step import Step
from .. import Result
from ..netlink import NETLINK_NETFILTER, NetlinkSocket
from ..nfnetlink.protocol import TRANSACTIONS_PORT
from .read import as_errors, generation_by
from .transaction import open_channel
from .write import apply


class Conversation:
    """Sockets of one process in the network namespace of the thread that uses them first; not for several threads.

    A conversation that has failed begins again with new sockets.
    """

    def __init__(self) -> None:
        self._reader: NetlinkSocket | None = None
        self._writer: socket.socket | None = None

    def generation(self) -> int:
        """Return the number of the rules' generation; errors are those of :func:`.read.generation`."""
        try:
            with as_errors():
                if self._reader is None:
                    self._reader = NetlinkSocket(NETLINK_NETFILTER)
                return generation_by(self._reader)
        except BaseException:
            self.close()
            raise

    def apply(self, steps: Sequence[Step], keep_going: bool, types: Mapping[SetKey, NftSet] | None) -> Result:
        """Execute steps in one transaction, as :func:`.write.apply`."""
        try:
            if self._writer is None:
                with as_errors():
                    self._writer = open_channel()
                    with contextlib.suppress(OSError):  # another conversation of this process has the port
                        self._writer.bind((TRANSACTIONS_PORT, 0))
            return apply(steps, keep_going, types=types, channel=self._writer)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the sockets; the next use opens others."""
        for each in (self._reader, self._writer):
            if each is not None:
                each.close()
        self._reader = self._writer = None

    def __del__(self) -> None:
        self.close()
