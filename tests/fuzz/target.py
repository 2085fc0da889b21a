# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fuzz target: one parser, its documented errors, and the inputs to begin with."""

from __future__ import annotations

import resource
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from kubenode.engine.errors import EngineError

CPU_SECONDS = 10.0  # at least, for one input; the slowest input needs a hundredth of a second
MEMORY_BYTES = 1 << 30  # of the process; the largest input needs a tenth of it
_FRAMES = 3


class Target(NamedTuple):
    """One parser under test.

    Attributes:
        run: feeds one input to the parser; an assertion in it is a property of the result.
        seeds: the inputs to begin with.
        expected: the documented errors, which are no finds.
        words: the parser's keywords, for the mutator.
        longest: bytes of the longest input.
    """

    run: Callable[[bytes], None]
    seeds: Iterable[bytes]
    expected: tuple[type[BaseException], ...] = (EngineError,)
    words: tuple[str, ...] = ()
    longest: int = 4096


class TooLongError(BaseException):
    """One input has used up its processor time."""


class _Clock:
    """Interrupts an input that runs since the last tick.

    A timer for each input would cost more than most inputs.
    """

    def __init__(self) -> None:
        self.inputs = 0
        self._seen = 0

    def tick(self, _number: int, _frame: FrameType | None) -> None:
        if self.inputs and self.inputs == self._seen:
            raise TooLongError(f"more than {CPU_SECONDS:g} seconds of processor time for one input")
        self._seen = self.inputs


_clock = _Clock()


class Find(NamedTuple):
    """An input that breaks the property: ``signature`` tells finds apart, ``text`` is the traceback."""

    signature: str
    text: str


def check(target: Target, data: bytes) -> Find | None:
    """Run one input; return the find, or None if the parser succeeds or raises a documented error."""
    _clock.inputs += 1
    try:
        target.run(data)
    except target.expected:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # any other exception of the parser is a find
        return _find(error)
    return None


def _find(error: BaseException) -> Find:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/fuzz/target.py" not in frame.filename]
    inner = [frame for frame in frames if "kubenode" in frame.filename or "module_utils" in frame.filename] or frames
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in inner[-_FRAMES:]]
    text = "".join([*traceback.format_list(frames[-12:]), _cut(f"{type(error).__name__}: {error}")])
    return Find(" ".join([type(error).__name__, *places]), text)


def _cut(text: str, most: int = 2000) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the processor time of each input and the memory of this process.

    Wall-clock time is unbounded: the machine may be busy.
    """
    former = signal.signal(signal.SIGVTALRM, _clock.tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS, CPU_SECONDS)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
