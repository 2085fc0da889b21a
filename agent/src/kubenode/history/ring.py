# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writer of the ring: appends records to a log, seals full logs, writes checkpoints, and removes the oldest files.

A record is in the file as soon as :meth:`Ring.flush` returns, so that the end of the process loses nothing. Sealed logs
and checkpoints are on the disk before they replace anything. Files that this release cannot read are renamed and kept.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Callable, NamedTuple

from ..engine.model import State
from . import disk, files, records
from .files import CHECKPOINT, LOG, LOG_HEAD, SEALED, Checkpoint, Names
from .records import Content, Lost, Passed, Record, Wanted

NAME = re.compile(r"(\d{16})\.(log|sealed|state)")
_BLOCK = 4096  # bytes in which a file takes room
_SHARE_OF_LOG = 16  # a log has at most this part of the ring
_LONGEST_LOG = 1 << 20
_SHARE_OF_LINE = 1000  # a line has at most one record, item or step for so many bytes of a log; they take some 100 each
_SHARE_OF_RECORDS = 8  # a checkpoint follows when the records since the last one take this part of the ring
_SHARE_OF_CHECKPOINT = 4  # a larger checkpoint is not written: two of them and their records have to fit
FOREIGN = ".foreign"


class _File(NamedTuple):
    """A file of the ring: number of its first record, form, room that it takes."""

    number: int
    form: str
    room: int

    @property
    def name(self) -> str:
        return file_name(self.number, self.form)


class Ring:
    """The ring of one directory, which takes at most ``most`` bytes. One thread uses it.

    Every method raises OSError if the disk refuses; then the caller calls :meth:`lose`.
    """

    def __init__(self, directory: str, most: int, notice: Callable[[str], None]) -> None:
        self.needs_checkpoint = False  # for the next call of :meth:`checkpoint`
        self._directory = directory
        self._most = most
        self._notice = notice
        self._log_most = min(most // _SHARE_OF_LOG, _LONGEST_LOG)
        self._files: list[_File] = []  # sealed logs and checkpoints, and logs that cannot be continued
        self._next = 1  # number of the next record
        self._first = 1  # of the log
        self._log = -1  # its descriptor
        self._length = 0  # of its readable part
        self._buffer: list[Record] = []
        self._buffered = 0  # records, items and steps in the buffer
        self._last: Checkpoint | None = None
        self._changed = True  # whether records since the last checkpoint may change the state
        self._since = 0  # bytes of sealed records since then
        self._size = 0  # bytes of the last checkpoint

    def open(self) -> None:
        """Read the names and heads of the files; continue the last log."""
        self.close()
        self._prepare()
        self._files, self._last, self._next, self._changed, self._since = [], None, 1, False, 0
        logs: list[tuple[int, str, int]] = []
        sealed_until = 0
        for name in sorted(os.listdir(self._directory)):
            path = os.path.join(self._directory, name)
            if name.endswith(".new"):
                os.unlink(path)
            match = NAME.fullmatch(name)
            if match is None:
                continue
            number, form, size = int(match[1]), match[2], os.lstat(path).st_size
            if form == LOG:
                logs.append((number, path, size))
                continue
            try:
                head = disk.start(path)
                if form == SEALED:
                    sealed_until = max(sealed_until, files.span_of(head).last)
                else:
                    checkpoint = files.head_of(head)
                    if self._last is None or checkpoint.number > self._last.number:
                        self._last, self._size = checkpoint, size
            except (ValueError, PermissionError) as error:
                self._set_aside(path, error)
                continue
            self._files.append(_File(number, form, _room(size)))
        self._next = max(sealed_until + 1, self._last.number if self._last is not None else 1)
        self._changed = self._last is None or sealed_until >= self._last.number
        self._since = sum(each.room for each in self._files if each.form == SEALED and self._is_later(each.number))
        for number, path, size in logs:
            if any(each.number == number and each.form == SEALED for each in self._files):
                os.unlink(path)  # the process ended between sealing it and removing it
            else:
                self._continue(number, path, size)
        self._make_room(0)

    def _prepare(self) -> None:
        """Create the directory; rename a file in its place."""
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
        except FileExistsError:
            self._set_aside(self._directory, ValueError("it is no directory"))
            os.makedirs(self._directory, mode=0o700)

    def _set_aside(self, path: str, error: Exception) -> None:
        """Rename a file that this release cannot read. A former one of that name is replaced."""
        with suppress(OSError):
            os.rename(path, path + FOREIGN)
        self._notice(f"{path} cannot be used: {error}; it is renamed to {path}{FOREIGN}")

    def _is_later(self, number: int) -> bool:
        return self._last is None or number >= self._last.number

    def _continue(self, number: int, path: str, size: int) -> None:
        """Take over a log of an earlier process; a line that was cut off at its end goes."""
        try:
            if size > 2 * self._most:
                raise ValueError(f"it has {size} bytes")
            descriptor = disk.opened(path, os.O_RDWR | os.O_APPEND)
            try:
                data = disk.whole(descriptor)
                log = files.parse_log(data)
            except ValueError:
                os.close(descriptor)
                raise
        except (ValueError, PermissionError) as error:
            self._set_aside(path, error)
            return
        if log.lines:
            self._next = max(self._next, log.lines[-1].number + 1)
        self._changed |= any(each.type in _CHANGING and self._is_later(each.number) for each in log.lines)
        if log.is_damaged or self._log >= 0 or not log.lines:
            os.close(descriptor)
            if not log.lines and not log.is_damaged:
                os.unlink(path)
                return
            self._files.append(_File(number, LOG, _room(size)))
            self._next += 1  # a gap, which readers notice
            self._changed = True
            return
        os.ftruncate(descriptor, log.length)
        self._log, self._first, self._length = descriptor, number, log.length

    def close(self) -> None:
        """Close the log."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    # records

    def append(self, moment: int, content: Content) -> None:
        """Add a record; :meth:`flush` writes it."""
        self._buffer.append(Record(self._next, moment, content))
        self._next += 1
        self._buffered += 1
        if isinstance(content, Wanted):
            self._changed = True
            self._buffered += len(content.items)
        elif isinstance(content, Passed):
            self._buffered += len(content.steps)
        if self._buffered * _SHARE_OF_LINE >= self._log_most:
            self.flush()

    def flush(self) -> None:
        """Write the records that were added; seal the log if it is full."""
        if not self._buffer:
            return
        if self._log < 0:
            self._first = self._buffer[0].number
            path = os.path.join(self._directory, file_name(self._first, LOG))
            self._log = os.open(path, disk.CREATE | os.O_RDWR | os.O_APPEND, 0o600)
            self._length = 0
        line = files.log_line(records.encode(self._buffer))
        data = line if self._length else LOG_HEAD + line
        if os.fstat(self._log).st_nlink == 0:
            raise OSError(0, "another process has removed the log")
        if os.write(self._log, data) < len(data):
            raise OSError(0, "the disk is full")
        self._length += len(data)
        self._drop_buffer()
        if self._length >= self._log_most:
            self._seal()

    def lose(self, moment: int, reason: str, count: int = 0) -> None:
        """Give up the records that could not be written, and ``count`` more that were not added."""
        if self._log >= 0:
            with suppress(OSError):
                os.ftruncate(self._log, self._length)
        self._drop_buffer()
        self.open()
        self._next += count + 1
        self.append(moment, Lost(records.clean(reason)))
        self._changed = self.needs_checkpoint = True

    def _drop_buffer(self) -> None:
        self._buffer.clear()
        self._buffered = 0

    def _seal(self) -> None:
        os.lseek(self._log, 0, os.SEEK_SET)
        data = disk.whole(self._log)
        sealed = files.seal(data)
        self._make_room(len(sealed))
        disk.replace(self._directory, file_name(self._first, SEALED), sealed)
        self._files.append(_File(self._first, SEALED, _room(len(sealed))))
        os.unlink(os.path.join(self._directory, file_name(self._first, LOG)))
        self.close()
        self._since += _room(len(sealed))
        if self._since >= max(self._size, self._most // _SHARE_OF_RECORDS):
            self.needs_checkpoint = True

    # checkpoints

    def checkpoint(self, moment: int, state: State, names: Names, between: Callable[[], object] = lambda: None) -> None:
        """Write the state before the next record; skip it if the last checkpoint has it, and need not move on.

        ``between`` may add and flush later records meanwhile.
        """
        self.flush()
        is_known = self._last is not None and not self._changed and not self.needs_checkpoint
        self.needs_checkpoint, self._changed, self._since = False, False, 0
        head, data = files.checkpoint(self._next, moment, state, names, between)
        if is_known and self._last is not None and self._last.digest == head.digest:
            return
        if len(data) > self._most // _SHARE_OF_CHECKPOINT:
            self._notice(
                f"history keeps no states: one takes {len(data)} bytes, more than a quarter of history.maxSize"
                f" ({self._most}); set it to at least {_SHARE_OF_CHECKPOINT * len(data) + 1}"
            )
            self._changed = True
            return
        self._make_room(len(data))
        disk.replace(self._directory, file_name(head.number, CHECKPOINT), data)
        self._files = [each for each in self._files if (each.number, each.form) != (head.number, CHECKPOINT)]
        self._files.append(_File(head.number, CHECKPOINT, _room(len(data))))
        self._last, self._size = head, len(data)

    def _make_room(self, size: int) -> None:
        """Remove the oldest files until a new one of this size fits beside the log, twice: sealing copies it."""
        self._files.sort(key=lambda each: (each.number, each.form != CHECKPOINT))
        room = self._most - 2 * _room(self._log_most) - _room(size)
        while self._files and sum(each.room for each in self._files) > room:
            oldest = self._files.pop(0)
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._directory, oldest.name))


_CHANGING = ("Wanted", "Lost")


def file_name(number: int, form: str) -> str:
    """Return the name of a file in the ring's directory."""
    return f"{number:016d}.{form}"


def _room(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
