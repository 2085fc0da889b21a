# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event loop of the daemon: file descriptors, timers and signals, in one thread.

Signal handlers only set flags and wake the loop. The loop calls back for a signal between two other callbacks, never
inside one.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from heapq import heappop, heappush
from typing import Any, Callable, NamedTuple

Callback = Callable[[], None]
_LONGEST_WAIT = 86400.0  # seconds; epoll_wait(2) counts milliseconds in an int


class Timer:
    """A callback at a time, unless :meth:`cancel` is called before."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callback) -> None:
        self.when = when
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Do not call back."""
        self.callback = None

    @property
    def pending(self) -> bool:
        """Tell whether the callback is still due."""
        return self.callback is not None


class _Entry(NamedTuple):
    """A timer in the heap: the earliest first, those of one moment in the order of their numbers."""

    when: float
    number: int
    timer: Timer


class Loop:
    """Runs callbacks until :meth:`stop`. A callback that raises ends the loop, so callbacks handle their errors."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[_Entry] = []
        self._count = 0
        self._signals: dict[int, Callback] = {}
        self._raised: list[int] = []
        self._running = False
        self._wake: tuple[int, int] | None = None  # pipe written by signals

    def watch(self, file: Any, callback: Callback, *, write: bool = False) -> None:
        """Call back whenever ``file`` (descriptor, or object with ``fileno``) is readable, or writable if ``write``."""
        events = selectors.EVENT_WRITE if write else selectors.EVENT_READ
        known = self._selector.get_map().get(file)
        if known is not None and known.fileobj is file:
            self._selector.modify(file, events, callback)
            return
        if known is not None:
            self._selector.unregister(known.fd)  # closed without :meth:`forget`; the number was reused
        self._selector.register(file, events, callback)

    def forget(self, file: Any) -> None:
        """Stop watching ``file``; do nothing if it is not watched, or is closed and its number was reused."""
        try:
            known = self._selector.get_map().get(file)
        except ValueError:  # closed, and not watched
            return
        if known is not None and known.fileobj is file:
            self._selector.unregister(file)

    def rest(self, file: Any, callback: Callback, seconds: float = 1.0) -> None:
        """Stop watching ``file`` for ``seconds``.

        Its data cannot be read now, and would call back again and again.
        """
        self.forget(file)
        self.after(seconds, lambda: None if file.fileno() < 0 else self.watch(file, callback))

    def accept(self, listening: Any, callback: Callback) -> tuple[Any, Any] | None:
        """Return the connection that waits at a listening socket, not blocking, and its peer's address.

        None if no connection waits, or no descriptor is free. Then ``callback``, which watches the socket, is called
        again when that may have changed.
        """
        try:
            connection, peer = listening.accept()
        except (BlockingIOError, ConnectionError):
            return None  # the client is gone already
        except OSError:
            self.rest(listening, callback)  # the process has no free descriptor
            return None
        connection.setblocking(False)
        return connection, peer

    def after(self, seconds: float, callback: Callback) -> Timer:
        """Call back once, in ``seconds`` or a little later."""
        timer = Timer(time.monotonic() + seconds, callback)
        self._count += 1
        heappush(self._timers, _Entry(timer.when, self._count, timer))
        return timer

    def on_signal(self, number: int, callback: Callback) -> None:
        """Call back after a signal, between two other callbacks."""
        if self._wake is None:
            self._wake = os.pipe()
            for end in self._wake:
                os.set_blocking(end, False)
            signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
            self.watch(self._wake[0], self._drain)
        self._signals[number] = callback
        signal.signal(number, lambda received, _frame: self._raised.append(received))

    def stop(self) -> None:
        """End :meth:`run` after the present callback."""
        self._running = False

    def run(self) -> None:
        """Run until stopped."""
        self._running = True
        while self._running:
            self._run_signals()
            self._run_timers()
            if not self._running:
                break
            for key, _events in self._selector.select(self._patience()):
                # an earlier callback may have closed it, and its number may be reused
                if self._running and self._selector.get_map().get(key.fd) is key:
                    key.data()

    def close(self) -> None:
        """Close the loop's descriptors."""
        self._selector.close()
        if self._wake is not None:
            signal.set_wakeup_fd(-1)
            for end in self._wake:
                os.close(end)
            self._wake = None

    def _patience(self) -> float | None:
        if self._raised:
            return 0.0
        while self._timers and not self._timers[0].timer.pending:
            heappop(self._timers)
        return min(max(0.0, self._timers[0].when - time.monotonic()), _LONGEST_WAIT) if self._timers else None

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._running and self._timers and self._timers[0].when <= now:
            timer = heappop(self._timers).timer
            callback = timer.callback
            timer.cancel()
            if callback is not None:
                callback()

    def _run_signals(self) -> None:
        while self._running and self._raised:
            self._signals[self._raised.pop(0)]()

    def _drain(self) -> None:
        try:
            if self._wake is not None:
                os.read(self._wake[0], 4096)
        except BlockingIOError:
            pass
