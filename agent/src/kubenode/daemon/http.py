# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP/1.1 server in the daemon's loop, for health and metrics: no body is read, every answer is whole.

Not :mod:`http.server`, which needs a thread and imports the mail parser. A client is given ten seconds for a request, and no
request may exceed eight kilobytes.
"""

from __future__ import annotations

import errno
import socket
import time
from typing import Callable, NamedTuple

from .loop import Loop

JSON = "application/json"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_LIMIT = 8192
_CLIENTS = 128
_SECONDS = 10.0


class Response(NamedTuple):
    """An answer; ``headers`` go between Content-Type and Date."""

    status: int
    body: str
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[str, str], Response]  # method, path without its query
NOT_FOUND = Response(404, "404 page not found\n", "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),))


class Server:
    """Listens on ``address`` (IPv4 or IPv6, without brackets) and ``port``.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(self, loop: Loop, address: str, port: int, handler: Handler) -> None:
        self._loop = loop
        self._handler = handler
        self._clients: set[_Client] = set()
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
        for client in list(self._clients):
            client.close()

    def _accept(self) -> None:
        connection = self._loop.accept(self._socket, self._accept)
        if connection is None:
            return
        if len(self._clients) >= _CLIENTS:
            connection.close()
            return
        self._clients.add(_Client(self._loop, connection, self._handler, self._clients))


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
    found = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
        found.bind((address, port))
        found.listen(64)
    except OSError:
        found.close()
        raise
    return found


class _Client:
    """One connection, kept open between requests if the client wants it so."""

    def __init__(self, loop: Loop, connection: socket.socket, handler: Handler, among: set[_Client]) -> None:
        self._loop = loop
        self._socket = connection
        self._handler = handler
        self._among = among
        self._received = b""
        self._unsent = b""
        self._ending = False
        self._patience = loop.after(_SECONDS, self.close)
        loop.watch(connection, self._read)

    def close(self) -> None:
        self._patience.cancel()
        self._loop.forget(self._socket)
        self._socket.close()
        self._among.discard(self)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._received += data
        self._serve()

    def _serve(self) -> None:
        """Send what is to be sent and answer the requests that are whole, one after the other, until there is something to wait for."""
        while self._sent():
            if self._ending:
                self.close()
                return
            if not self._answered():
                self._loop.watch(self._socket, self._read)
                return

    def _sent(self) -> bool:
        """Send what is left of an answer; tell whether nothing is left of it."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            self._loop.watch(self._socket, self._serve, write=True)
            return False
        except OSError:
            self.close()
            return False
        return True

    def _answered(self) -> bool:
        """Make the answer to the next request, if that is whole; it is not sent yet."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if end:
            self._received = rest
            self._patience.cancel()
            self._patience = self._loop.after(_SECONDS, self.close)
            self._unsent = self._respond(head.decode("latin-1"))
        elif len(self._received) > _LIMIT:
            self._ending = True
            self._unsent = _bytes(Response(431, "", "text/plain"), True, True)
        return bool(self._unsent)

    def _respond(self, head: str) -> bytes:
        lines = head.split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._ending = True
            return _bytes(Response(400, "400 Bad Request", "text/plain; charset=utf-8"), True, True)
        method, target, version = words
        options = [line.partition(":")[2].strip().lower() for line in lines[1:] if line.lower().startswith("connection:")]
        # what might have a body is not read on: whatever follows could be that body
        self._ending = "close" in options or version == "HTTP/1.0" or method not in ("GET", "HEAD")
        return _bytes(self._handler(method, target.partition("?")[0]), method != "HEAD", self._ending)


def _bytes(response: Response, with_body: bool, closing: bool) -> bytes:
    body = response.body.encode()
    lines = [f"HTTP/1.1 {response.status} {_REASONS[response.status]}", f"Content-Type: {response.content_type}"]
    lines.extend(f"{name}: {value}" for name, value in response.headers)
    lines.append(time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime()))
    lines.append(f"Content-Length: {len(body)}")
    if closing:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + (body if with_body else b"")
