# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thread that writes the history: a disk that hangs must not delay a pass.

The loop only hands over values that do not change; the thread spells them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Callable, NamedTuple

from ...engine.model import State
from ...history.files import Names
from ...history.records import Content
from ...history.ring import Ring

# Seconds between two writes. A kill costs the records of this time, and of the change that is being applied.
_PAUSE = 0.5
_RETRY = 60.0  # seconds after a failure
_MOST_WAITING = 5_000  # records that wait for a disk that hangs; further ones are given up


class Snapshot(NamedTuple):
    """The whole desired state with the names of its virtual servers; both are copies."""

    moment: int
    state: State
    names: Names


class HistoryWriter(threading.Thread):
    """Writes records to a ring, in their order.

    ``wants_snapshot`` asks for a :class:`Snapshot`. ``trouble`` says why the history cannot be written ("" if it can),
    and ``notices`` has sentences for the log.
    """

    def __init__(self, directory: str, most: int) -> None:
        super().__init__(name="history", daemon=True)
        self.trouble = ""
        self.notices: deque[str] = deque(maxlen=20)
        self.wants_snapshot = False
        self._ring = Ring(directory, most, self.notices.append)
        self._entries: deque[tuple[int, Content | Snapshot | Callable[[], Content]]] = deque()  # with their moments
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._dropped = 0  # records that were given up
        self._refused = 0  # records that found the queue full
        self._lost_at = 0  # moment of the first of them
        self._retry_at = 0.0
        self._is_open = False

    def put(self, moment: int, made: Content | Snapshot | Callable[[], Content]) -> None:
        """Add a record or a snapshot for the next :meth:`wake`. The thread calls a function that makes a record."""
        if len(self._entries) >= _MOST_WAITING:
            self._refused += 1
        else:
            self._entries.append((moment, made))

    def wake(self) -> None:
        """Let the thread write what was added."""
        if self._entries and not self._work.is_set():  # else the thread reads the entries after it has cleared this
            self._work.set()

    def stop(self, seconds: float) -> None:
        """Write what is waiting and end the thread; wait for at most so many seconds."""
        self._stopping.set()
        self._work.set()
        self.join(seconds)

    def run(self) -> None:
        """Write records as they come."""
        while not self._stopping.is_set():
            self._work.wait()
            self._work.clear()
            self._write()
            self._stopping.wait(_PAUSE)
        self._write()
        self._ring.close()

    def _write(self) -> None:
        if self.trouble and time.monotonic() < self._retry_at and not self._stopping.is_set():
            self._drop()
            return
        try:
            self._open()
            snapshot = self._append()
            while snapshot is not None:
                self._entries.popleft()
                moment, state, names = snapshot
                self._ring.checkpoint(moment, state, names, self._append)
                snapshot = self._append()
            self.wants_snapshot = self.wants_snapshot or self._ring.needs_checkpoint
            self.trouble = ""
        except Exception as error:  # whatever it is, it costs only the history
            self._dropped += 1
            self._drop()
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            self.trouble = f"history cannot be written: {reason}"
            self._is_open = False
            self._retry_at = time.monotonic() + _RETRY

    def _append(self) -> Snapshot | None:
        """Write the records before the next snapshot; return the snapshot, which stays in the queue."""
        snapshot, first = None, True
        while self._entries and snapshot is None:
            if self._refused:
                self._dropped += self._refused
                self._refused = 0
                raise OSError(0, "the disk is too slow")
            moment, made = self._entries[0]
            if isinstance(made, Snapshot):
                snapshot = made
                continue
            self._entries.popleft()
            if first:
                self._lost_at, first = moment, False
            self._ring.append(moment, made() if callable(made) else made)
        self._ring.flush()
        return snapshot

    def _open(self) -> None:
        if self._is_open:
            return
        if self.trouble:
            self._ring.lose(self._lost_at, self.trouble, self._dropped)
        else:
            self._ring.open()
        self._is_open, self._dropped = True, 0

    def _drop(self) -> None:
        """Give up all entries, so that they take no memory; the next record tells of it."""
        while self._entries:
            self._entries.popleft()
            self._dropped += 1
