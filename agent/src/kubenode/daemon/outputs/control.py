# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Local socket of the running agent: one line of JSON in, one line of JSON out.

``{"command": "status"}`` is answered by the function that is registered as ``status``; an error by ``{"error": "…"}``.
The file mode (0660) decides which users may open the socket. A question has at most four kilobytes and little nesting,
and must arrive within ten seconds.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Callable

from ...log import Log
from ..loop import Callback, Loop
from ..pass_result import PassResult, PassSubscriber

_SECONDS = 10.0
_MOST_BYTES = 4096
_MOST_BRACKETS = 16  # a valid question has one; json.loads recurses with each
_MOST_CLIENTS = 32
Command = Callable[[], Any]


class Control:
    """Listens at ``path``; a socket file that a dead agent left is replaced.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, loop: Loop, path: str, commands: Mapping[str, Command]) -> None:
        self._loop = loop
        self._path = path
        self._commands = commands
        self._finish: dict[int, Callable[[], None]] = {}  # of the open connections, the oldest first
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        mask = os.umask(0o117)
        try:
            self._socket.bind(path)
        finally:
            os.umask(mask)
        self._socket.listen(8)
        loop.watch(self._socket, self._accept)

    def close(self) -> None:
        """Stop listening and remove the file."""
        self._loop.forget(self._socket)
        self._socket.close()
        for finish in list(self._finish.values()):
            finish()
        try:
            os.unlink(self._path)
        except OSError:
            pass

    def _accept(self) -> None:
        accepted = self._loop.accept(self._socket, self._accept)
        if accepted is None:
            return
        connection = accepted[0]
        number = connection.fileno()
        if len(self._finish) >= _MOST_CLIENTS:
            next(iter(self._finish.values()))()
        received = bytearray()
        patience = self._loop.after(_SECONDS, lambda: finish())

        def finish() -> None:
            patience.cancel()
            self._finish.pop(number, None)
            self._loop.forget(connection)
            connection.close()

        def read() -> None:
            try:
                data = connection.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            received.extend(data)
            if b"\n" in data or len(received) > _MOST_BYTES:
                self._loop.forget(connection)
                send(memoryview(self._answer(bytes(received))))
            elif not data:
                finish()

        def send(left: memoryview) -> None:
            self._send(connection, left, finish)

        self._finish[number] = finish
        self._loop.watch(connection, read)

    def _send(self, connection: socket.socket, left: memoryview, finish: Callback) -> None:
        """Send until the client's buffer is full, or the answer is complete.

        A nested function that named itself would be a reference cycle, and hold the connection until the garbage
        collector runs.
        """
        try:
            left = left[connection.send(left) :]
        except BlockingIOError:
            pass
        except OSError:
            left = left[:0]
        if left:
            self._loop.watch(connection, lambda: self._send(connection, left, finish), write=True)
        else:
            finish()

    def _answer(self, line: bytes) -> bytes:
        if len(line) > _MOST_BYTES or line.count(b"[") + line.count(b"{") > _MOST_BRACKETS:
            return _line(
                {"error": f'expected one line such as {{"command": "status"}}, of at most {_MOST_BYTES} bytes'}
            )
        try:
            command = json.loads(line)["command"]
            function = self._commands[command]
        except (ValueError, KeyError, TypeError):
            return _line({"error": f"expected a command of {', '.join(self._commands)}"})
        return _line(function())


class ControlSocket(PassSubscriber):
    """Keeps the control socket open: each full pass opens it again if that failed before."""

    def __init__(self, loop: Loop, log: Log, path: str, commands: Mapping[str, Command]) -> None:
        self._loop = loop
        self._log = log
        self._path = path
        self._commands = commands
        self._control: Control | None = None

    def open(self) -> None:
        """Open the socket, unless it is open."""
        try:
            if self._control is None:
                self._control = Control(self._loop, self._path, self._commands)
        except OSError as error:
            self._log.error("control socket failed", reason=str(error))

    def close(self) -> None:
        """Close the socket."""
        if self._control is not None:
            self._control.close()

    def passed(self, result: PassResult, _reason: str) -> None:
        """Open the socket, if that failed before."""
        if result.full:
            self.open()


def _line(answer: Any) -> bytes:
    return json.dumps(answer, default=str).encode() + b"\n"


def ask(path: str, command: str, seconds: float = 30.0) -> Any:
    """Ask the agent that listens at ``path``.

    Raises:
        OSError: no agent is running, it does not answer, or the socket may not be opened.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as channel:
        channel.settimeout(seconds)
        channel.connect(path)
        channel.sendall(json.dumps({"command": command}).encode() + b"\n")
        parts = []
        while part := channel.recv(65536):
            parts.append(part)
    if not parts or not parts[-1].endswith(b"\n"):
        raise ConnectionAbortedError("its answer was cut off")
    return json.loads(b"".join(parts))


def answers(path: str) -> bool:
    """Tell whether an agent listens at ``path``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.connect(path)
        except OSError:
            return False
        return True
