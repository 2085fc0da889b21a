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

from .engine.errors import cut

LEVELS = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # syslog priorities
FORMATS = ("text", "json")
_WINDOW = 300.0  # seconds in which a line is not repeated
# seconds for which a line is remembered: a line written again in the second half reports its suppressed repetitions
_KEPT = 2 * _WINDOW
_MEMORY = 1000  # different lines that are remembered
_LONGEST = {"warning": 1000, "error": 1000}  # characters of a field; lines that may be remembered must be small
_LONGEST_OTHER = 30000  # of a field at other levels; a line of the journal holds it (LineMax in journald.conf(5))
_MOST = 50  # lines per message in that time, so that bulk changes cannot flood the log

Element = TypeVar("Element")


class _Quota:
    """Quota of one message: since when, lines written, lines suppressed, and whether the suppression was logged."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = 0
        self.held = 0
        self.suppression_logged = False


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
        # by hash of the line, oldest first: time of writing, number of suppressed repetitions
        self._seen: dict[int, tuple[float, int]] = {}
        self._quotas: dict[str, _Quota] = {}  # by message

    def debug(self, message: str, **fields: object) -> None:
        """Log a detail for debugging."""
        self._line("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Log an event."""
        self._count(message)
        self._line("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Log a condition that deserves attention; a repetition within five minutes is only counted."""
        fields = _short("warning", fields)
        if not self._repeated("warning", message, fields):
            self._line("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Log a failure; a repetition within five minutes is only counted."""
        fields = _short("error", fields)
        if not self._repeated("error", message, fields):
            self._line("error", message, fields)

    def first(self, message: str, things: Sequence[Element]) -> Sequence[Element]:
        """Return the first of the things, up to the line limit of this message: 50 lines in five minutes.

        If the limit cuts the things, one line in that time says how many there were.
        """
        now = self._clock()
        quota = self._quotas.setdefault(message, _Quota(now))
        if now - quota.since >= _WINDOW:
            quota.since, quota.lines, quota.suppression_logged = now, 0, False
        chosen = things[: max(0, _MOST - quota.lines)]
        quota.held += len(things) - len(chosen)
        if quota.held and not quota.suppression_logged:
            fields = {"all": quota.held + len(chosen), "reason": f"line limit reached; {len(chosen)} lines follow"}
            self._line("warning", message, fields)
            quota.held, quota.suppression_logged = 0, True
        return chosen

    def _repeated(self, level: str, message: str, fields: dict[str, object]) -> bool:
        """Tell whether the same line was written lately; a line written again gets its number of repetitions."""
        key = hash((level, message, *(f"{name}={value}" for name, value in fields.items())))
        now = self._clock()
        written, held = self._seen.get(key, (now - _WINDOW, 0))
        if now - written < _WINDOW:
            self._seen[key] = (written, held + 1)
            return True
        if held:
            fields["repeated"] = held
        self._seen.pop(key, None)
        while self._seen and (len(self._seen) >= _MEMORY or now - next(iter(self._seen.values()))[0] >= _KEPT):
            self._seen.pop(next(iter(self._seen)))
        self._seen[key] = (now, 0)
        self._count(message)
        return False

    def _count(self, message: str) -> None:
        if message in self._quotas:
            self._quotas[message].lines += 1

    def _line(self, level: str, message: str, fields: dict[str, object]) -> None:
        priority = LEVELS[level]
        if priority > self.level:
            return
        fields = _short(level, fields)
        if self._json:
            record = {"time": _timestamp(), "level": level, "message": message, **fields}
            text = json.dumps(record, default=str, ensure_ascii=False)
        else:
            pairs = "".join(f" {name}={_quoted(str(value))}" for name, value in fields.items())
            text = f"{message}{pairs}" if self._journal else f"{_timestamp()} {level.upper():7} {message}{pairs}"
        self._write(f"<{priority}>{text}\n" if self._journal else f"{text}\n")


def _short(level: str, fields: dict[str, object]) -> dict[str, object]:
    """Return the fields with long values cut."""
    most = _LONGEST.get(level, _LONGEST_OTHER)
    texts = {name: str(value) for name, value in fields.items()}
    return {name: value if len(texts[name]) <= most else cut(texts[name], most) for name, value in fields.items()}


def _quoted(text: str) -> str:
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


def _timestamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def _is_journal() -> bool:
    """Tell whether standard error is the journal's stream (systemd.exec(5)).

    The variable alone does not tell: a process with redirected standard error inherits it, too.
    """
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
        pass  # the reader of standard error has gone; the agent serves without a log
