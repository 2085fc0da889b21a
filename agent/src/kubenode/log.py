# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines on standard error: text or JSON, with levels, and without floods of the same line.

Not :mod:`logging`, which costs a small node a tenth of a second of every start. Under systemd each line carries its
priority (sd-daemon(3)) and no time, since the journal has both.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Callable, TypeVar

LEVELS = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # syslog priorities
FORMATS = ("text", "json")
_WINDOW = 300.0  # seconds in which a line is not repeated
_MEMORY = 1000  # different lines that are remembered
_MOST = 50  # lines of one kind in that time: who empties a table of a large node, or does it again and again, gets no hundred thousand

Thing = TypeVar("Thing")


class _Quota:
    """How many lines one kind of things has had since when, how many had to do without, and whether that was said since."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = 0
        self.held = 0
        self.said = False


class Log:
    """Writes lines; ``level`` is the least important one that is written."""

    def __init__(
        self,
        level: str = "info",
        form: str = "text",
        *,
        write: Callable[[str], object] | None = None,
        journal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.level = LEVELS[level]
        self._json = form == "json"
        self._write = write or _to_stderr
        self._journal = _is_journal() if journal is None else journal
        self._clock = clock
        self._seen: dict[tuple[str, ...], tuple[float, int]] = {}
        self._quotas: dict[str, _Quota] = {}  # by message

    def debug(self, message: str, **fields: object) -> None:
        """Say what only somebody who looks for a fault wants to know."""
        self._line("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Say what happened."""
        self._line("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Say what somebody should look at; a repetition within five minutes is only counted."""
        if not self._repeated("warning", message, fields):
            self._line("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Say what does not work; a repetition within five minutes is only counted."""
        if not self._repeated("error", message, fields):
            self._line("error", message, fields)

    def first(self, message: str, things: Sequence[Thing]) -> Sequence[Thing]:
        """Return those of the things that may have a line with this message each: such lines are fifty in five minutes at the most.

        How many there were is said, once in that time, if not all may.
        """
        now = self._clock()
        quota = self._quotas.setdefault(message, _Quota(now))
        if now - quota.since >= _WINDOW:
            quota.since, quota.lines, quota.said = now, 0, False
        chosen = things[: max(0, _MOST - quota.lines)]
        quota.held += len(things) - len(chosen)
        if quota.held and not quota.said:
            fields = {"all": quota.held + len(chosen), "reason": f"so many lately; {len(chosen)} of them follow"}
            self._line("warning", message, fields)
            quota.held, quota.said = 0, True
        return chosen

    def _repeated(self, level: str, message: str, fields: dict[str, object]) -> bool:
        """Tell whether this very line was written lately; one that was held back says so when it is written again."""
        key = (level, message, *(f"{name}={value}" for name, value in fields.items()))
        now = self._clock()
        written, held = self._seen.get(key, (now - _WINDOW, 0))
        if now - written < _WINDOW:
            self._seen[key] = (written, held + 1)
            return True
        if held:
            fields["repeated"] = held
        while len(self._seen) >= _MEMORY:
            self._seen.pop(next(iter(self._seen)))
        self._seen.pop(key, None)
        self._seen[key] = (now, 0)
        if message in self._quotas:
            self._quotas[message].lines += 1
        return False

    def _line(self, level: str, message: str, fields: dict[str, object]) -> None:
        priority = LEVELS[level]
        if priority > self.level:
            return
        if self._json:
            record = {"time": _timestamp(), "level": level, "message": message, **fields}
            text = json.dumps(record, default=str, ensure_ascii=False)
        else:
            pairs = "".join(f" {name}={_quoted(str(value))}" for name, value in fields.items())
            text = f"{message}{pairs}" if self._journal else f"{_timestamp()} {level.upper():7} {message}{pairs}"
        self._write(f"<{priority}>{text}\n" if self._journal else f"{text}\n")


def _quoted(text: str) -> str:
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


def _timestamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def _is_journal() -> bool:
    """Tell whether standard error itself is the journal's: the variable is inherited by who has been redirected (systemd.exec(5))."""
    try:
        mine = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{mine.st_dev}:{mine.st_ino}"


def _to_stderr(line: str) -> None:
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody reads it any more: no reason to stop serving
