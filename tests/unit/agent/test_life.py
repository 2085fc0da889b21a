# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop, systemd's protocol, the socket, the log."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.ask import question
from kubenode.daemon.control import Control, ask
from kubenode.daemon.control import answers as control_answers
from kubenode.daemon.http import NOT_FOUND, Server
from kubenode.daemon.loop import Loop
from kubenode.daemon.notify import Notifier
from kubenode.engine.errors import EngineError
from kubenode.log import Log


def test_timers_run_in_order_and_cancelled_ones_do_not() -> None:
    loop = Loop()
    seen: list[str] = []
    loop.after(0.02, lambda: seen.append("late"))
    loop.after(0, lambda: seen.append("soon"))
    loop.after(0.01, lambda: seen.append("never")).cancel()
    loop.after(0.03, loop.stop)
    loop.run()
    loop.close()
    assert seen == ["soon", "late"]


def test_a_signal_wakes_the_loop_between_callbacks() -> None:
    loop = Loop()
    seen: list[float] = []
    before = signal.getsignal(signal.SIGUSR2)
    try:
        loop.on_signal(signal.SIGUSR2, lambda: (seen.append(time.monotonic()), loop.stop()))
        loop.after(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR2))
        start = time.monotonic()
        loop.after(5, loop.stop)
        loop.run()
        assert seen
        assert seen[0] - start < 1
    finally:
        loop.close()
        signal.signal(signal.SIGUSR2, before)


def test_a_callback_may_forget_its_neighbour() -> None:
    loop = Loop()
    pairs = [socket.socketpair() for _number in range(2)]
    seen = []

    def make(index: int) -> None:
        def heard() -> None:
            seen.append(index)
            for pair in pairs:
                loop.forget(pair[0])
            loop.stop()

        loop.watch(pairs[index][0], heard)

    for index, pair in enumerate(pairs):
        make(index)
        pair[1].send(b"x")
    loop.run()
    loop.close()
    for pair in pairs:
        pair[0].close()
        pair[1].close()
    assert len(seen) == 1


def test_notify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(2)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        notifier = Notifier()
        assert "NOTIFY_SOCKET" not in os.environ  # not for the tools that we start
        assert notifier.watchdog == 30
        notifier.status("waiting for x")
        notifier.status("waiting for x")
        notifier.ready()
        notifier.alive()
        notifier.reloading()
        notifier.stopping()
        heard = [manager.recv(1000).decode() for _number in range(5)]
    assert heard[:3] == ["STATUS=waiting for x", "READY=1", "WATCHDOG=1"]
    assert heard[3].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[4] == "STOPPING=1"


def test_a_watchdog_for_somebody_else_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert Notifier().watchdog == 0


def test_control(tmp_path: Path) -> None:
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
            status = 0 if len(answers[0]["big"]) == 500_000 and answers[1] == {"error": "expected a command of status"} else 2
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


@pytest.mark.parametrize("answer", [b"", b'{"pid": 1'])
def test_an_answer_that_is_cut_off_is_no_answer(tmp_path: Path, answer: bytes) -> None:
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
    """Whoever knocks then is heard when there are some again."""
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


def test_a_dead_agents_socket_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    loop = Loop()
    Control(loop, path, {}).close()
    loop.close()


def lines(level: str = "info", form: str = "text", journal: bool = False) -> tuple[Log, list[str], list[float]]:
    written: list[str] = []
    now = [0.0]
    return Log(level, form, write=written.append, journal=journal, clock=lambda: now[0]), written, now


def test_log_text() -> None:
    log, written, _now = lines(journal=True)
    log.error("cannot", object="shop/web", reason='a "b"')
    log.debug("never")
    assert written == ['<3>cannot object=shop/web reason="a \\"b\\""\n']


def test_log_json() -> None:
    log, written, _now = lines("debug", "json")
    log.debug("step", seconds=1.5, key=("a", 1))
    record = json.loads(written[0])
    assert (record["level"], record["message"], record["seconds"], record["key"]) == ("debug", "step", 1.5, ["a", 1])


def test_the_journal_is_told_the_priority_and_nobody_else(tmp_path: Path) -> None:
    """JOURNAL_STREAM is inherited by a process whose standard error has been redirected."""
    command = [sys.executable, "-c", "from kubenode.log import Log; Log().warning('x', name='a')"]
    path = tmp_path / "log"

    def written(stream: str) -> str:
        with path.open("w", encoding="utf-8") as file:
            environment = {**os.environ, "JOURNAL_STREAM": stream, "PYTHONPATH": os.pathsep.join(sys.path)}
            subprocess.run(command, stderr=file, env=environment, check=True)
        return path.read_text(encoding="utf-8")

    path.touch()
    about = path.stat()
    assert written(f"{about.st_dev}:{about.st_ino}") == "<4>x name=a\n"
    assert written(f"{about.st_dev}:{about.st_ino + 1}").endswith("Z WARNING x name=a\n")


def test_repeated_lines_are_counted_not_written() -> None:
    log, written, now = lines(journal=True)
    for _time in range(5):
        log.error("cannot", reason="x")
    log.error("cannot", reason="y")
    assert len(written) == 2
    now[0] = 301
    log.error("cannot", reason="x")
    assert written[2] == "<3>cannot reason=x repeated=4\n"
    log.info("same")
    log.info("same")
    assert len(written) == 5


def test_of_very_many_things_the_first_have_a_line() -> None:
    log, written, _now = lines(journal=True)
    assert log.first("drift healed", range(50)) == range(50)
    assert written == []
    assert log.first("drift healed", range(100_000)) == range(50)
    assert written == ['<4>drift healed all=100000 reason="so many lately; 50 of them follow"\n']


def heal(log: Log, things: range) -> None:
    for thing in log.first("drift healed", things):
        log.warning("drift healed", step=thing, reason="somebody else")


def test_who_undoes_much_again_and_again_fills_no_log() -> None:
    log, written, now = lines(journal=True)
    for _second in range(299):
        heal(log, range(1000))
        now[0] += 1
    assert written[0] == '<4>drift healed all=1000 reason="so many lately; 50 of them follow"\n'
    assert len(written) == 51
    now[0] += 1
    heal(log, range(1000))
    assert written[51] == '<4>drift healed all=299000 reason="so many lately; 50 of them follow"\n'
    assert written[52] == '<4>drift healed step=0 reason="somebody else"\n'
    assert len(written) == 102


def test_who_undoes_something_else_each_time_fills_no_log() -> None:
    log, written, now = lines(journal=True)
    for number in range(1200):
        heal(log, range(number, number + 1))
        now[0] += 1
    assert len(written) == 4 * 51
    assert written[50] == '<4>drift healed all=1 reason="so many lately; 0 of them follow"\n'
    assert written[51] == '<4>drift healed all=250 reason="so many lately; 1 of them follow"\n'
    assert log.first("step failed", range(1)) == range(1)  # another matter


def test_what_is_undone_again_and_again_keeps_nothing_else_from_being_told() -> None:
    log, written, now = lines(journal=True)
    for _second in range(200):
        heal(log, range(10))
        now[0] += 1
    heal(log, range(10, 11))
    assert len(written) == 11


def test_lines_that_were_not_asked_for_count_too() -> None:
    log = Log(write=lambda _line: None, clock=lambda: 0.0)
    assert list(log.first("step failed", [0])) == [0]
    for number in range(60):
        log.warning("step failed", number=number)
    assert list(log.first("step failed", range(30))) == []
