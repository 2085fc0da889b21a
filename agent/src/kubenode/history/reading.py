# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of a ring, while the agent may write them.

The agent's user owns them. So root reads them in a process with the rights of their owner (``engine/privsep.py``), and
decodes them strictly.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Callable, NamedTuple

from ..engine.errors import EngineError, LedgerError
from ..engine.model import State
from ..engine.privsep import OwnerProcess
from . import files, items
from .files import CHECKPOINT, SEALED, Checkpoint, Names, Span
from .records import Line
from .ring import NAME, file_name

_MOST_FILES = 100_000
_MOST_BYTES = 1 << 26  # of a file
_PATIENCE = 30.0  # seconds for one answer of the process that reads
DAMAGED = "Damaged"
_UNREADABLE = object()
_HEAD = 1000  # bytes that hold the first line of a file


class HistoryError(EngineError):
    """The history cannot be read, or does not have the answer."""


class _Directory:
    """Files of one directory; arguments and results are JSON values."""

    def __init__(self, path: str) -> None:
        self._path = path

    def names(self) -> list[str]:
        """Return the names of the ring's files, and of what else is there."""
        return sorted(os.listdir(self._path))[:_MOST_FILES]

    def extent(self) -> tuple[int, int]:
        """Return the bytes of the ring's files, and the moment of the last write to them."""
        size, last = 0, 0
        for name in filter(NAME.fullmatch, self.names()):
            with suppress(FileNotFoundError):  # the agent has removed it meanwhile
                status = os.lstat(os.path.join(self._path, name))
                size, last = size + status.st_size, max(last, int(status.st_mtime * 1000))
        return size, last

    def read(self, name: str, most: int) -> str | None:
        """Return the first ``most`` bytes of a file, in base64; None if it does not exist."""
        path = os.path.join(self._path, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(0, "it is no regular file")
            return base64.b64encode(file.read(most)).decode()


class _Known(NamedTuple):
    """A file by its name."""

    number: int
    form: str


class First(NamedTuple):
    """Number and moment of the oldest record. A number above 1: older records were removed to make room."""

    number: int
    moment: int


class Reader:
    """Open history of a directory, for a ``with`` block.

    ``problems`` are sentences about files that cannot be read. All others count.

    Raises:
        HistoryError: there is no history, or it cannot be read.
    """

    def __init__(self, directory: str) -> None:
        self.problems: list[str] = []
        self._path = directory
        self._process: OwnerProcess | None = None
        self._directory = _Directory(directory)
        try:
            status = os.lstat(directory)
            if not stat.S_ISDIR(status.st_mode):
                raise HistoryError(f"the history {directory} cannot be read: it is no directory; remove it")
            if os.geteuid() == 0 and status.st_uid != 0:
                uid, gid = status.st_uid, status.st_gid
                self._process = OwnerProcess(uid, gid, lambda: _Directory(directory), _PATIENCE)
        except FileNotFoundError:
            raise HistoryError(
                f"there is no history {directory}: the agent writes it, unless history.enabled is false"
            ) from None
        except (OSError, LedgerError) as error:
            raise self._unreadable(directory, error) from error

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()

    def first(self) -> First | None:
        """Return the oldest record; None if there is none, or if its file cannot be read."""
        known = min((each for each in self._files() if each.form != CHECKPOINT), default=None)
        if known is not None and known.form == SEALED:
            span = self._use(known, files.span_of, _HEAD)
            return First(span.first, span.since) if isinstance(span, Span) else None
        line = next(self.lines(), None)
        return First(line.number, line.moment) if line is not None and line.type != DAMAGED else None

    def extent(self) -> tuple[int, int]:
        """Return the bytes of the files, and the moment of the last write to them.

        Raises:
            HistoryError: they cannot be read.
        """
        try:
            size, last = map(items.number, self._call("extent"))
        except (OSError, LedgerError, ValueError, TypeError) as error:
            raise self._unreadable(self._path, error) from error
        return size, last

    def checkpoints(self) -> list[Checkpoint]:
        """Return the heads of all checkpoints, the oldest first."""
        heads = []
        for known in self._files():
            if known.form == CHECKPOINT:
                head = self._use(known, files.head_of, _HEAD)
                if isinstance(head, Checkpoint):
                    heads.append(head)
        return heads

    def state(self, head: Checkpoint) -> tuple[State, Names] | None:
        """Return the state and the names of a checkpoint; None if it cannot be read."""
        whole = self._use(_Known(head.number, CHECKPOINT), files.parse_checkpoint)
        return whole[1:] if isinstance(whole, tuple) else None

    def lines(self, number: int = 0, since: int = 0) -> Iterator[Line]:
        """Yield the records from a number on, in their order.

        Sealed logs at the beginning that end before the moment ``since`` are not read. A line of the type DAMAGED, with
        a number behind a gap, stands for records that cannot be read.
        """
        moment = 0
        for known in sorted(each for each in self._files() if each.form != CHECKPOINT):
            if known.form == SEALED and self._is_before(known, number, since):
                continue
            since = 0
            lines, is_damaged = self._log(known)
            for line in lines:
                if line.number >= number:
                    number, moment = line.number + 1, line.moment  # a log and its sealed form may both be there
                    yield line
            if is_damaged:
                yield Line(number + 1, moment, None, DAMAGED)

    def _is_before(self, known: _Known, number: int, since: int) -> bool:
        span = self._use(known, files.span_of, _HEAD)
        return isinstance(span, Span) and (span.last < number or span.until < since)

    def _log(self, known: _Known) -> tuple[list[Line], bool]:
        """Return the records of a log, and whether further ones cannot be read."""
        if known.form != SEALED:
            log = self._use(known, files.parse_log)
            if isinstance(log, files.Log):
                if log.is_damaged:
                    self._complain(f"{self._named(known)} is damaged; its records behind the damage are left out")
                return log.lines, log.is_damaged
            if log is _UNREADABLE:
                return [], True
            known = _Known(known.number, SEALED)  # sealed meanwhile, or removed
        lines = self._use(known, files.unseal)
        return (lines or [], False) if lines is not _UNREADABLE else ([], True)

    def _files(self) -> list[_Known]:
        try:
            names = self._call("names")
        except (OSError, LedgerError) as error:
            raise self._unreadable(self._path, error) from error
        known = []
        for name in names if isinstance(names, list) else ():
            match = NAME.fullmatch(name) if isinstance(name, str) else None
            if match is not None:
                known.append(_Known(int(match[1]), match[2]))
            elif not str(name).endswith(".new"):
                self._complain(f"{os.path.join(self._path, str(name))!r} is no file of this history, and is ignored")
        return known

    def _use(self, known: _Known, parse: Callable[[bytes], Any], most: int = _MOST_BYTES) -> Any:
        """Return a file as ``parse`` returns it; None if it does not exist, _UNREADABLE if it is a problem."""
        try:
            text = self._call("read", file_name(*known), most)
            return None if text is None else parse(base64.b64decode(text, validate=True))
        except (OSError, LedgerError, ValueError, TypeError) as error:
            reason = getattr(error, "strerror", None) or error
            self._complain(f"{self._named(known)} cannot be read: {reason}")
            return _UNREADABLE

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._process is not None:
            return self._process.call(method, *arguments)
        return getattr(self._directory, method)(*arguments)

    def _named(self, known: _Known) -> str:
        return os.path.join(self._path, file_name(*known))

    def _complain(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < 20:
            self.problems.append(problem)

    def _unreadable(self, path: str, error: Exception) -> HistoryError:
        reason = getattr(error, "strerror", None) or error
        remedy = "" if os.geteuid() == 0 else "; run as root"
        return HistoryError(f"the history {path} cannot be read: {reason}{remedy}")
