# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversation with IPVS by a socket that stays open.

To open one and to request the family's number takes eight system calls, and the write of an endpoint two. So a process
that writes each change of the cluster keeps its socket.
"""

from __future__ import annotations

from ...model.step import Step
from .. import Result
from ..genetlink import GenericSocket
from .connection import open_socket
from .table import apply


class Conversation:
    """Socket of one process in the network namespace of the thread that uses it first; not for several threads.

    A conversation that raised an error begins again with a new socket.
    """

    def __init__(self) -> None:
        self._socket: GenericSocket | None = None

    def apply(self, steps: list[Step], keep_going: bool = False) -> Result:
        """Execute steps, as :func:`.table.apply`."""
        try:
            if self._socket is None:
                self._socket = open_socket()
            return apply(steps, keep_going, self._socket)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; the next use opens another one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def __del__(self) -> None:
        self.close()
