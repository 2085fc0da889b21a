# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control socket: commands, hostile clients, missing descriptors."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.ask import question
from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs.control import Control, ask
from kubenode.daemon.outputs.control import answers as control_answers
from kubenode.daemon.outputs.http import Server
from kubenode.daemon.outputs.http_response import NOT_FOUND
from kubenode.engine.errors import EngineError


def test_control_socket_answers_commands(tmp_path: Path) -> None:
    path = str(tmp_path / "run/agent.sock")
    answers = []
    loop = Loop()
    control = Control(loop, path, {"status": lambda: {"big": "x" * 500_000}})
    assert os.stat(path).st_mode & 0o777 == 0o660
    child = os.fork()
    if child == 0:
        status = 1
        try:
            answers.append(ask(path, "status"))
            answers.append(ask(path, "nonsense"))
            status = (
                0
                if len(answers[0]["big"]) == 500_000 and answers[1] == {"error": "expected a command of status"}
                else 2
            )
        finally:
            os._exit(status)

    def look() -> None:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            answers.append(os.waitstatus_to_exitcode(status))
            loop.stop()
        else:
            loop.after(0.01, look)

    look()
    loop.run()
    assert control_answers(path)
    control.close()
    assert not control_answers(path)
    loop.close()
    assert answers == [0]
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (b"[" * 60_000 + b"\n", 'expected one line such as {"command": "status"}, of at most 4096 bytes'),
        (b"[" * 4000 + b"\n", 'expected one line such as {"command": "status"}, of at most 4096 bytes'),
        (b'{"command":' * 300 + b"\n", 'expected one line such as {"command": "status"}, of at most 4096 bytes'),
        (b"x" * 100_000, 'expected one line such as {"command": "status"}, of at most 4096 bytes'),
        (b'{"command": ["status"]}\n', "expected a command of status"),
        (b"9" * 4090 + b"\n", "expected a command of status"),
        (b"\xff\n", "expected a command of status"),
    ],
    ids=["deep", "deep and short", "objects", "no end", "list", "number", "no text"],
)
def test_hostile_questions_get_an_error(tmp_path: Path, question: bytes, error: str) -> None:
    path = str(tmp_path / "agent.sock")
    loop = Loop()
    control = Control(loop, path, {"status": dict})
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(question)
        loop.watch(client, loop.stop)
        loop.run()
        assert json.loads(client.recv(4096)) == {"error": error}
    assert control_answers(path)
    control.close()
    loop.close()


def test_idle_clients_of_the_socket_make_room(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    loop = Loop()
    control = Control(loop, path, {"status": dict})
    idle = []
    for _client in range(40):
        idle.append(socket.socket(socket.AF_UNIX))
        idle[-1].connect(path)
        loop.after(0, lambda: loop.after(0, loop.stop))
        loop.run()
    idle[-1].sendall(b'{"command": "status"}\n')
    loop.watch(idle[-1], loop.stop)
    loop.run()
    assert idle[-1].recv(100) == b"{}\n"
    assert [client.recv(1) for client in idle[:8]] == [b""] * 8
    control.close()
    loop.close()
    for client in idle:
        client.close()


@pytest.mark.parametrize("answer", [b"", b'{"pid": 1'])
def test_truncated_answer_is_an_error(tmp_path: Path, answer: bytes) -> None:
    path = str(tmp_path / "agent.sock")

    def serve() -> None:
        connection, _peer = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(EngineError, match=r"the agent cannot be asked at .*: its answer was cut off"):
            question(path, "status")
        thread.join()


@pytest.mark.parametrize("make", [Control, Server])
def test_without_descriptors_a_waiting_client_is_no_busy_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: type[Control] | type[Server]
) -> None:
    """A client that connects while there is no descriptor is served as soon as one is free."""
    loop, path = Loop(), str(tmp_path / "agent.sock")
    asked: list[socket.socket] = []
    if make is Control:
        served: Control | Server = Control(loop, path, {"status": dict})
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        question = b'{"command": "status"}\n'
    else:
        served = Server(loop, "127.0.0.1", 0, lambda _method, _path: NOT_FOUND)
        client = socket.create_connection(("127.0.0.1", served.port))
        question = b"GET / HTTP/1.0\r\n\r\n"
    listening = served._socket

    class Counted:
        def accept(self) -> Any:
            asked.append(listening)
            return listening.accept()

        def fileno(self) -> int:
            return listening.fileno()

    loop.forget(listening)
    monkeypatch.setattr(served, "_socket", Counted())
    loop.watch(served._socket, served._accept)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))

    def tick(left: int) -> None:
        loop.after(0, lambda: tick(left - 1)) if left else loop.stop()

    try:
        tick(100)
        loop.run()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert len(asked) in (1, 2)  # two if a second has passed meanwhile
    client.sendall(question)
    loop.watch(client, loop.stop)
    loop.run()
    assert client.recv(100)
    monkeypatch.undo()
    client.close()
    served.close()
    loop.close()


def test_socket_of_a_dead_agent_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    loop = Loop()
    Control(loop, path, {}).close()
    loop.close()
