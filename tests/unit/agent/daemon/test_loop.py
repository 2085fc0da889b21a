# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop's descriptors when one callback changes what other callbacks wait for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from kubenode.daemon.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


class Pipe:
    """A reader that still returns its old descriptor after it is closed, as a source of objects does."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.write(self.writer, b"x")

    def fileno(self) -> int:
        return self.reader

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)

    def replace(self, other: Pipe) -> Pipe:
        """Close the other reader, and take its descriptor."""
        os.dup2(self.reader, other.reader)
        os.close(self.reader)
        os.close(other.writer)
        self.reader = other.reader
        return self


def test_distant_timer_is_waited_for(loop: Loop) -> None:
    """The timeout exceeds the maximum of epoll_wait(2)."""
    pipe = Pipe()
    loop.after(1e12, lambda: None)
    loop.watch(pipe, loop.stop)
    loop.run()
    pipe.close()


def test_callback_may_close_an_fd_ready_with_it(loop: Loop) -> None:
    pairs = [socket.socketpair() for _pair in range(2)]
    called: list[int] = []

    def close_the_other(mine: int) -> None:
        called.append(mine)
        for here, _there in pairs:
            loop.forget(here)
        pairs[1 - mine][0].close()
        loop.after(0, loop.stop)

    for number, (here, there) in enumerate(pairs):
        there.send(b"x")
        loop.watch(here, lambda number=number: close_the_other(number))
    loop.run()
    for ends in pairs:
        for end in ends:
            end.close()
    assert len(called) == 1


def test_reused_fd_gets_no_event_of_closed_fd(loop: Loop) -> None:
    first, second = Pipe(), Pipe()
    called: list[str] = []
    opened: list[Pipe] = []

    def exchange(name: str, other: Pipe) -> None:
        called.append(name)
        loop.forget(first)
        loop.forget(second)
        opened.append(Pipe().replace(other))
        loop.watch(opened[0], lambda: called.append("new"))
        loop.after(0, loop.stop)

    loop.watch(first, lambda: exchange("first", second))
    loop.watch(second, lambda: exchange("second", first))
    loop.run()
    (first if called[0] == "first" else second).close()
    opened[0].close()
    assert called in (["first"], ["second"])


def test_reused_fd_is_watched_after_silent_close(loop: Loop) -> None:
    old = Pipe()
    loop.watch(old, lambda: None)
    new = Pipe().replace(old)
    called: list[str] = []
    loop.watch(new, lambda: (called.append("new"), loop.stop()))
    loop.forget(old)
    loop.after(5, loop.stop)
    loop.run()
    new.close()
    assert called == ["new"]


def test_timers_run_in_order_unless_cancelled() -> None:
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
    seen: list[str] = []
    before = signal.getsignal(signal.SIGUSR2)
    try:
        loop.on_signal(signal.SIGUSR2, lambda: (seen.append("signal"), loop.stop()))
        loop.after(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR2))
        loop.after(60, lambda: (seen.append("nothing"), loop.stop()))
        loop.run()
        assert seen == ["signal"]
    finally:
        loop.close()
        signal.signal(signal.SIGUSR2, before)


def test_callback_may_unregister_another_fd() -> None:
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
