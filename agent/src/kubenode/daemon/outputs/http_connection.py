# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection of one HTTP client: h11 parses the requests.

No request body is read, and every answer is complete before it is sent. Limits: eight kilobytes a request, ten seconds
until a request is complete, ten seconds until an answer is read.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

import h11

from ..loop import Loop
from .http_clients import Clients, Source
from .http_response import PLAIN, Handler, Response

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_REQUEST_BYTES = 8192
_SECONDS = 10.0


class Connection:
    """One client's connection, kept open between requests if the client wants that.

    ``since`` is when it was accepted or last had a complete request; ``deadline`` is when it is closed unless that
    happens again.
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        source: Source,
        handler: Handler,
        clients: Clients,
        siblings: set[Connection],
    ) -> None:
        self.source = source
        self.served = 0
        self.since = time.monotonic()
        self.deadline = self.since + _SECONDS
        self._loop = loop
        self._socket = connection
        self._handler = handler
        self._clients = clients
        self._siblings = siblings
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES)
        self._unsent = memoryview(b"")
        self._writing = False
        loop.watch(connection, self._wake)
        clients.add(self)

    def close(self) -> None:
        """Close the connection and forget it."""
        self._loop.forget(self._socket)
        self._socket.close()
        self._siblings.discard(self)
        self._clients.discard(self)

    def turn(self) -> bool:
        """Send what is unsent, or else read once and answer at most one request.

        Tell whether another turn is due at once.
        """
        try:
            if self._unsent:
                return self._send()
            request = self._request()
            if request is None:
                return False
            self.since = time.monotonic()
            self.deadline = self.since + _SECONDS
            self._answer(request)
            return self._send()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint if error.error_status_hint in _REASONS else 400)
            return self._send()
        except OSError:  # reset by the client
            self.close()
            return False

    def _wake(self) -> None:
        self._clients.ready(self)

    def _request(self) -> h11.Request | None:
        """Return the next complete request, None if it is not complete yet or none will come."""
        event = self._protocol.next_event()
        if event is h11.NEED_DATA:
            try:
                self._protocol.receive_data(self._socket.recv(_REQUEST_BYTES))
            except BlockingIOError:
                return None
            event = self._protocol.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:  # ConnectionClosed
            self.close()
        return None

    def _answer(self, request: h11.Request) -> None:
        method, target = request.method.decode("ascii"), request.target.decode("ascii", "replace")
        with_body = method != "HEAD"
        if request.http_version not in (b"1.0", b"1.1"):
            self._refuse(505)
            return
        if method == "CONNECT":  # a success would mean a tunnel
            self._refuse(405)
            return
        response = self._handler(method, target.partition("?")[0])
        # A request that may have a body ends the connection: the rest of it could be that body.
        closing = method not in ("GET", "HEAD") or not isinstance(self._protocol.next_event(), h11.EndOfMessage)
        self._write(response, with_body, closing)

    def _refuse(self, status: int) -> None:
        self._write(Response(status, f"{status} {_REASONS[status]}", PLAIN), True, True)

    def _write(self, response: Response, with_body: bool, closing: bool) -> None:
        body = response.body.encode()
        headers = [("Content-Type", response.content_type), *response.headers, ("Date", _date())]
        headers.append(("Content-Length", str(len(body))))
        if closing:
            headers.append(("Connection", "close"))
        events: Iterable[h11.Event] = (
            h11.Response(status_code=response.status, reason=_REASONS[response.status], headers=headers),
            *((h11.Data(data=body),) if with_body else ()),
            h11.EndOfMessage(),
        )
        self._unsent = memoryview(b"".join(self._protocol.send(event) or b"" for event in events))

    def _send(self) -> bool:
        """Send as much as the client takes; tell whether another request may have been read already."""
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        if bool(self._unsent) != self._writing:
            self._writing = not self._writing
            self._loop.watch(self._socket, self._wake, write=self._writing)
        if self._unsent:
            return False
        protocol = self._protocol
        if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
            self.close()
            return False
        self.deadline = time.monotonic() + _SECONDS
        protocol.start_next_cycle()
        read, closed = protocol.trailing_data
        return bool(read) or closed


def _date() -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
