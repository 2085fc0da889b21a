# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedule the checks of draining real servers.

Checks are frequent while connections end, and rare while none does. A check also runs when a real server reaches its
maximum drain time.
"""

from __future__ import annotations

import time
from typing import Callable

from ..loop import Loop, Timer
from ..pass_result import STOPPED, PassResult
from .reconciler import A_TURN, Reconciler

_FIRST = 1.0  # seconds
_NEXT = 0.1  # if more drain than one turn checks
_SHARE = 0.01  # of one processor, at most, for checks that find no ended connection


class DrainTimer:
    """Checks draining real servers, from :meth:`watch` on until none is left.

    ``passed`` gets the result of a check with steps, done or failed. ``failed`` gets the error that stopped a check.
    """

    def __init__(
        self,
        loop: Loop,
        reconciler: Reconciler,
        passed: Callable[[PassResult], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._reconciler = reconciler
        self._passed = passed
        self._failed = failed
        self._timer: Timer | None = None

    def watch(self, seconds: float = _FIRST) -> None:
        """Check in so many seconds, or when the first real server reaches its maximum; an earlier check stays due."""
        if not self._reconciler.draining:
            return
        now, bound = time.monotonic(), self._reconciler.bound()
        pending = self._timer is not None and self._timer.pending
        due = self._timer.when if self._timer is not None and pending else now + seconds
        if now < bound < due:
            if self._timer is not None:
                self._timer.cancel()
            pending, due = False, bound
        if not pending:
            self._timer = self._loop.after(due - now, self._look)

    def rest(self) -> None:
        """Check nothing until the next :meth:`watch`."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        start = time.thread_time()
        try:
            report = self._reconciler.drain()
        except STOPPED as error:
            self._failed(error)
            return
        if report is not None and (report.done or report.failed):
            self._passed(report)
        pause = _NEXT if len(self._reconciler.draining) > A_TURN else _FIRST
        # if some have ended, the others of the same change most likely have, too
        if report is None or not report.done:
            pause = max(pause, (time.thread_time() - start) / _SHARE)
        self.watch(pause)
