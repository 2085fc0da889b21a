# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 server for health and metrics; :mod:`.http_clients` decides whose turn it is."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from ..loop import Loop
from .http_clients import ACCEPTS_A_TURN, Clients
from .http_response import Handler

if TYPE_CHECKING:
    from .http_connection import Connection

# the kernel's own limit is megabytes a connection, and pipelining clients fill it: TCP's memory is the node's
_RECEIVE_BUFFER = 16384
_SEND_BUFFER = 131072
_BACKLOG = 1024  # the kernel's own limit is net.core.somaxconn


class Server:
    """HTTP server that listens on ``address`` (IPv4 or IPv6, without brackets) and ``port``.

    Servers that share ``clients`` share its limits.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(self, loop: Loop, address: str, port: int, handler: Handler, clients: Clients | None = None) -> None:
        self._loop = loop
        self._handler = handler
        self._clients = clients if clients is not None else Clients(loop)
        self._mine: set[Connection] = set()
        self._socket = _listen(address, port)
        loop.watch(self._socket, self._accept)

    @property
    def port(self) -> int:
        """Return the port, also if it was left to the kernel (0)."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening and drop all clients."""
        self._loop.forget(self._socket)
        self._socket.close()
        for connection in list(self._mine):
            connection.close()

    def _accept(self) -> None:
        """Accept as many connections as have a turn at once: a later one could be closed before its turn."""
        for _connection in range(ACCEPTS_A_TURN - self._clients.new):
            accepted = self._loop.accept(self._socket, self._accept)
            if accepted is None:
                return
            connection, peer = accepted
            source = self._clients.admit(peer[0])
            try:
                from .http_connection import Connection  # late: the agent's start does not wait for h11

                self._mine.add(Connection(self._loop, connection, source, self._handler, self._clients, self._mine))
            except OSError:  # no more descriptors: for the selector, or for a file of h11
                connection.close()
                return


def _listen(address: str, port: int) -> socket.socket:
    """Listen; the unspecified address of either family means both families, as it does in Go."""
    if address in ("0.0.0.0", "::"):
        try:
            return _bound(socket.AF_INET6, "::", port, False)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
            address = "0.0.0.0"  # a node without IPv6
    return _bound(socket.AF_INET6 if ":" in address else socket.AF_INET, address, port, True)


def _bound(family: int, address: str, port: int, alone: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)  # accepted sockets inherit both
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
