# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thread that answers HTTP, with its own loop, so that the agent's passes, tools and locks delay no health check.

Handlers run in this thread. They only read what the agent's thread has written. Only this thread writes the HTTP
counters.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Callable, TypeVar

from ..loop import Loop
from .http_clients import Clients

Result = TypeVar("Result")
_LOOK_SECONDS = 1.0
_LOAD_SECONDS = 1.0  # until the start of the agent is over


class HttpThread:
    """Started by the first :meth:`call`.

    ``loop`` and ``clients`` belong to the thread. ``ended`` is called in the loop of the agent's thread if the thread
    ends by itself. ``report`` is called in the agent's thread with the text of an error that cost one client its
    connection.
    """

    def __init__(self, agent_loop: Loop, ended: Callable[[], None], report: Callable[[str], None]) -> None:
        self.loop = Loop()
        self.clients = Clients(self.loop, self._failed)
        self._agent_loop = agent_loop
        self._ended = ended
        self._report = report
        self._errors: deque[str] = deque(maxlen=1)
        self._calls: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._wake = (-1, -1)  # written by the agent's thread, read by this one
        self._tell = (-1, -1)  # written by this thread, read by the agent's

    def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in the thread; return its result, or raise its error.

        Raises:
            RuntimeError: the thread has ended.
        """
        if self._thread is None:
            self._start()
        outcome: list[Result] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                outcome.append(function())
            except BaseException as error:  # raised again where it was called
                errors.append(error)
            finally:
                done.set()

        self._calls.append(run)
        os.write(self._wake[1], b"x")
        while not done.wait(_LOOK_SECONDS):
            if self._thread is None or not self._thread.is_alive():
                raise RuntimeError("the thread that answers HTTP has ended")
        if errors:
            raise errors[0]
        return outcome[0]

    def stop(self) -> None:
        """End the thread; its loop and clients belong to the caller then."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._agent_loop.forget(self._tell[0])
        self._calls.append(self.loop.stop)
        os.write(self._wake[1], b"x")
        thread.join()
        for end in (*self._wake, self._tell[0]):
            os.close(end)

    def close(self) -> None:
        """End the thread and its loop."""
        self.stop()
        self.loop.close()

    def _start(self) -> None:
        self._wake = os.pipe()
        self._tell = os.pipe()
        for end in (*self._wake, *self._tell):
            os.set_blocking(end, False)
        self.loop.watch(self._wake[0], self._run_calls)
        self._agent_loop.watch(self._tell[0], self._report_errors)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.loop.after(_LOAD_SECONDS, _load)
        try:
            self.loop.run()
        finally:
            os.close(self._tell[1])

    def _run_calls(self) -> None:
        os.read(self._wake[0], 4096)
        while self._calls:
            self._calls.popleft()()

    def _failed(self, error: Exception) -> None:
        self._errors.append(f"{type(error).__name__}: {error}")
        try:
            os.write(self._tell[1], b"x")
        except BlockingIOError:
            pass  # the agent's thread has not read the ones before it yet

    def _report_errors(self) -> None:
        """Report errors; an end of file says that the thread has ended."""
        if not os.read(self._tell[0], 4096):
            self._agent_loop.forget(self._tell[0])
            self._ended()
        while self._errors:
            self._report(self._errors.popleft())


def _load() -> None:
    """Load the code that answers, unless a client came first. So the first health check does not wait for it."""
    try:
        from . import http_connection  # noqa: F401
    except OSError:
        pass  # no descriptor is free: the next client loads it
