# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers in the agent's loop, which get bytes in pieces: HTTP for health and metrics, and the control socket."""

from __future__ import annotations

import json
import os
import socket

from fuzz.choices import Choices
from fuzz.target import Target
from fuzz.targets.text import SCRATCH

from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs.control import Control
from kubenode.daemon.outputs.http import Server
from kubenode.daemon.outputs.http_response import NOT_FOUND, Response

_TURNS = 60  # of the loop for one input: a piece of it takes a few
_PIECES = 6
_BUFFER = 1 << 20


class _Turns:
    """Loop that runs one turn at a time.

    It is reused for the next input, as the agent's loop is for the next client.
    """

    def __init__(self) -> None:
        self.loop = Loop()

    def turn(self) -> None:
        """Serve all ready descriptors once."""
        self.loop.after(0.0, lambda: self.loop.after(0.0, self.loop.stop))  # the loop runs timers before descriptors
        self.loop.run()


_turns = _Turns()
_server: list[Server] = []
_control: list[Control] = []


def _afresh() -> None:
    """Replace loop and servers: a find leaves them in a state that an agent never has."""
    for one in (*_server, *_control):
        one.close()
    _server.clear()
    _control.clear()
    _turns.loop.close()
    _turns.loop = Loop()


def _talk(client: socket.socket, data: bytes) -> bytes:
    """Send the bytes in pieces, and return the answer until the end.

    The first bytes decide the number and sizes of the pieces.
    """
    choices = Choices(data)
    count = 1 + choices.below(_PIECES)
    cuts = sorted(choices.below(1024) for _ in range(count - 1))
    text = choices.rest()
    client.setblocking(False)
    answer = bytearray()
    ended = False
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=False):
        try:
            client.sendall(text[start:end])
        except (BrokenPipeError, ConnectionResetError):
            break
        _turns.turn()
    try:
        client.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    for _ in range(_TURNS):
        _turns.turn()
        try:
            part = client.recv(_BUFFER)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            part = b""
        answer += part
        if not part:
            ended = True
            break
    assert ended, "the server keeps the connection of a client that has ended it"
    return bytes(answer)


def _talked(client: socket.socket, data: bytes) -> bytes:
    try:
        return _talk(client, data)
    except BaseException:
        _afresh()
        raise


def _handler(method: str, path: str) -> Response:
    return Response(200, f"{method} {path}\n", "text/plain") if path in ("/", "/healthz", "/metrics") else NOT_FOUND


def _http(data: bytes) -> None:
    if not _server:
        _server.append(Server(_turns.loop, "127.0.0.1", 0, _handler))
    with socket.create_connection(("127.0.0.1", _server[0].port)) as client:
        # a reset leaves no port in TIME_WAIT: the fuzzer uses thousands of ports
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        answer = _talked(client, data)
    assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:100]


def _commands(data: bytes) -> None:
    path = f"{SCRATCH}/control.sock"
    if not _control:
        _control.append(Control(_turns.loop, path, {"status": lambda: {"ok": True}, "plan": list}))
        assert os.path.exists(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        answer = _talked(client, data)
    if answer:
        assert answer.endswith(b"\n")
        json.loads(answer)


_REQUESTS = (
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /metrics?a=b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3,
    b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
)  # fmt: skip
_LINES = (
    b'{"command": "status"}\n',
    b'{"command": "plan"}\n{"command": "plan"}\n',
    b"[" * 4000 + b"\n",
    b'{"command": []}\n',
    b"\xff\n",
)
_CUTS = (b"\0", b"\x02\x00\x05\x00\x11", b"\x05\0\1\0\2\0\3\0\4\0\5")

TARGETS = {
    "http": Target(
        _http,
        [cut + text for text in _REQUESTS for cut in _CUTS],
        (),
        (
            "GET ",
            "HEAD ",
            "POST ",
            " HTTP/1.1\r\n",
            " HTTP/1.0\r\n",
            "Host: a\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive\r\n",
            "Content-Length: ",
            "Transfer-Encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "\r\n\r\n",
            "/healthz",
            "/metrics",
            "http://a/",
        ),
        9000,
    ),
    "control": Target(
        _commands, [cut + text for text in _LINES for cut in _CUTS], (), ('{"command": ', '"status"}', "\n"), 8192
    ),
}
