# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function soon after a request, and limit its share of time.

The limit matters when another process reverts the agent's changes again and again.
"""

from __future__ import annotations

import time
from typing import Callable, NamedTuple

from ..loop import Loop, Timer


class Limits(NamedTuple):
    """Limits of the calls: a call waits ``calm`` seconds for more requests, and all take at most ``share`` of the time.

    Calls that were not needed earlier count, up to ``burst`` seconds: a few in a row do not wait for each other.
    """

    calm: float
    share: float
    burst: float


class Pace:
    """Calls ``what`` once after requests, within limits. ``cost`` returns the seconds that the last call took."""

    def __init__(self, loop: Loop, what: Callable[[], None], cost: Callable[[], float], limits: Limits) -> None:
        self._loop = loop
        self._what = what
        self._cost = cost
        self._limits = limits
        self._timer: Timer | None = None
        self._last: float | None = None  # start of the last call
        self._left = limits.burst  # seconds that calls could take before the last one

    def soon(self) -> None:
        """Request a call. Requests before the call are merged into one."""
        if self._timer is None or not self._timer.pending:
            pause = -self._available(time.monotonic()) / self._limits.share
            self._timer = self._loop.after(max(self._limits.calm, pause), self._now)

    def _available(self, now: float) -> float:
        """Return the seconds that calls may take now, below zero after more than their share."""
        if self._last is None:
            return self._limits.burst
        return min(self._limits.burst, self._left - self._cost() + (now - self._last) * self._limits.share)

    def _now(self) -> None:
        now = time.monotonic()
        self._left, self._last = self._available(now), now
        self._what()
