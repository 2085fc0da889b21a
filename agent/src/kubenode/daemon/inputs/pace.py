# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function soon after a request, and limit its share of time.

The limit matters when another process reverts the agent's changes again and again.
"""

from __future__ import annotations

import time
from typing import Callable

from ..loop import Loop, Timer


class Pace:
    """Calls ``what`` once, at least ``calm`` seconds after :meth:`soon`. The calls take at most ``share`` of the time.

    ``cost`` returns the seconds that the last call took.
    """

    def __init__(
        self, loop: Loop, what: Callable[[], None], cost: Callable[[], float], *, calm: float, share: float
    ) -> None:
        self._loop = loop
        self._what = what
        self._cost = cost
        self._calm = calm
        self._share = share
        self._timer: Timer | None = None
        self._last = 0.0

    def soon(self) -> None:
        """Request a call. Requests before the call are merged into one."""
        if self._timer is None or not self._timer.pending:
            pause = self._last + self._cost() / self._share - time.monotonic()
            self._timer = self._loop.after(max(self._calm, pause), self._now)

    def _now(self) -> None:
        self._last = time.monotonic()
        self._what()
