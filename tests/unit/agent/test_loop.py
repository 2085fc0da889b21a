# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop's descriptors: whatever one callback does to what others wait for."""

from __future__ import annotations

import os
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
    """What has a descriptor, and still says which it was when it is closed: as a source of objects does."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.write(self.writer, b"x")

    def fileno(self) -> int:
        return self.reader

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)

    def replace(self, other: Pipe) -> Pipe:
        """Close the other one, and have its number."""
        os.dup2(self.reader, other.reader)
        os.close(self.reader)
        os.close(other.writer)
        self.reader = other.reader
        return self


def test_a_time_far_ahead_is_waited_for(loop: Loop) -> None:
    """Longer than epoll_wait(2) can wait."""
    pipe = Pipe()
    loop.after(1e12, lambda: None)
    loop.watch(pipe, loop.stop)
    loop.run()
    pipe.close()


def test_a_callback_may_close_what_became_ready_with_it(loop: Loop) -> None:
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


def test_what_gets_the_number_of_something_closed_is_not_called_for_it(loop: Loop) -> None:
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


def test_what_was_closed_without_a_word_is_not_in_the_way_of_what_gets_its_number(loop: Loop) -> None:
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
