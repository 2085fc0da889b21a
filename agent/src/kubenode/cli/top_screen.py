# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Full-screen terminal by ANSI sequences: keys one by one, and the terminal as it was at the end.

Not ``curses``: some distributions leave it out of their Python, and this screen is only lines of text.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections import deque
from types import FrameType, TracebackType
from typing import Any

_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_REVERSE, _PLAIN = "\x1b[7m", "\x1b[m"
_NAMES = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[5~": "page up", "\x1b[6~": "page down", "\r": "\n", "\x7f": "\b"}
_KEYS = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)  # an escape sequence, or one character


class SignalError(Exception):
    """SIGTERM or SIGHUP was received. ``status`` is the exit status that a shell reports for it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


class Screen:
    """Terminal of standard input and output, for the duration of a ``with`` block."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._saved: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._wake = (-1, -1)  # written by signals: a resize ends the wait for a key
        self._typed: deque[str] = deque()  # keys that were read and not returned yet

    def __enter__(self) -> Screen:
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGTSTP] = signal.signal(
            signal.SIGTSTP, signal.SIG_IGN
        )  # the shell would get this screen
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._resized)
        self._saved = termios.tcgetattr(self._input)
        try:
            tty.setcbreak(self._input)  # Control-C still interrupts
            self._write(_ENTER)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)
        self._write(_LEAVE)
        for end in self._wake:
            os.close(end)

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return columns or 80, lines or 24

    def draw(self, lines: list[str], header: int) -> None:
        """Show lines from the top; the one with the number ``header`` in reverse."""
        columns, height = self.size
        shown = [printable(line)[:columns] for line in lines[:height]]
        if header < len(shown):
            shown[header] = f"{_REVERSE}{shown[header]:{columns}}{_PLAIN}"
        self._write(_HOME + f"{_REST_OF_LINE}\r\n".join(shown) + _REST_OF_LINE + _REST)

    def key(self, seconds: float) -> str:
        """Return the next key, "" if none was pressed within ``seconds`` or the terminal was resized.

        Keys with a name are ``up``, ``down``, ``page up`` and ``page down``.
        """
        if self._typed:
            return self._typed.popleft()
        ready, _write, _error = select.select([self._input, self._wake[0]], [], [], max(0.0, seconds))
        if self._wake[0] in ready:
            os.read(self._wake[0], 4096)
            return ""
        if not ready:
            return ""
        data = os.read(self._input, 64)
        if not data:
            raise EOFError  # the terminal is gone
        self._typed.extend(_NAMES.get(key, key) for key in _KEYS.findall(data.decode("utf-8", "replace")))
        return self._typed.popleft()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        try:
            os.write(self._wake[1], b"x")
        except BlockingIOError:
            pass  # it wakes already

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def printable(text: str) -> str:
    """Return a line without control characters, which a name could send to the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SignalError(number)
