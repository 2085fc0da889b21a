# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 server of the fake kube-apiserver.

It answers with the headers of a real API server, or with exactly the bytes of a test's script.
"""

from __future__ import annotations

import gzip
import json
import ssl
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from .apiserver_answers import VERSION, Object, encode, target_of

if TYPE_CHECKING:
    from .apiserver import FakeApiServer

USUAL = {"Cache-Control": "no-cache, private", "Content-Type": "application/json"}
PLAIN = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
PIECES_ABOVE = 2048  # bytes: longer answers have no Content-Length
GZIP_ABOVE = 128 * 1024  # bytes


class Answer(NamedTuple):
    """Scripted answer, sent unchanged in place of the regular one."""

    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to


class Request(NamedTuple):
    """Request: method, path, query (first values), headers."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class Server(ThreadingHTTPServer):
    """HTTP server with a thread for each connection."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, fake: FakeApiServer, context: ssl.SSLContext | None, port: int) -> None:
        class Handler(_Handler):
            server_of = fake

        super().__init__(("127.0.0.1", port), Handler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for request in list(self._open):
            with suppress(OSError):
                request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients disconnect, and tests cut connections


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as Go does
    server_of: FakeApiServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake, request = self.server_of, self._request()
        if self._scripted(request):
            return
        if request.path == "/version":
            self._whole(200, json.dumps(VERSION, indent=2).encode())
        elif "watch" in request.query:
            self._stream(request)
        else:
            while request.path in fake.stalled:
                time.sleep(0.01)
            self._answer(request, None)

    def do_POST(self) -> None:
        request = self._request()
        length = int(self.headers["Content-Length"] or 0)
        document = json.loads(self.rfile.read(length)) if length else None
        if not self._scripted(request):
            self._answer(request, document)

    do_PUT = do_DELETE = do_POST  # noqa: N815 - names that http.server looks for

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        request = Request(
            self.command, parts.path, query, {name.lower(): value for name, value in self.headers.items()}
        )
        self.server_of.requests.append(request)
        return request

    def _scripted(self, request: Request) -> bool:
        """Send the scripted answer or a refusal; tell whether one was sent."""
        scripted = self.server_of.script.get(request.path)
        if scripted:
            self._whole(*scripted.pop(0))
            return True
        refusal = self.server_of.refusal(request)
        if refusal is not None:
            self._whole(
                refusal["code"],
                encode(refusal),
                {"X-Content-Type-Options": "nosniff"} if refusal["code"] == 403 else {},
            )
        return refusal is not None

    def _answer(self, request: Request, document: Object | None) -> None:
        if target_of(request.path) is None:
            self._whole(404, b"404 page not found\n", PLAIN)
            return
        status, answer = self.server_of.answered(request, document)
        body, headers = encode(answer), {}
        if status == 504:
            headers = {"Retry-After": str(answer["details"]["retryAfterSeconds"])}
        if len(body) > GZIP_ABOVE and "gzip" in request.headers.get("accept-encoding", ""):
            body, headers = gzip.compress(body, 1), {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        if len(body) > PIECES_ABOVE:
            headers["Transfer-Encoding"] = "chunked"
        self.server_of.sizes.append(len(body))
        self._whole(status, body, headers)

    def _whole(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        given = {**USUAL, "Content-Length": str(len(body)), **(headers or {})}
        if given.get("Transfer-Encoding"):
            del given["Content-Length"]
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, request: Request) -> None:
        lines = self.server_of.watched(request.path, request.query)  # begins before the client gets the headers
        self.send_response(200)
        for name, value in {**USUAL, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for line in lines:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        except ConnectionAbortedError:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")
