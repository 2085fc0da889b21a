# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Doing something soon after it was asked for, but not all the time: somebody else may undo what we do again and again."""

from __future__ import annotations

import time
from typing import Callable

from .loop import Loop, Timer


class Pace:
    """Calls ``what`` once, ``calm`` seconds after :meth:`soon` or later: it takes no more than this share of the time.

    ``cost`` says how many seconds it took last.
    """

    def __init__(self, loop: Loop, what: Callable[[], None], cost: Callable[[], float], *, calm: float, share: float) -> None:
        self._loop = loop
        self._what = what
        self._cost = cost
        self._calm = calm
        self._share = share
        self._timer: Timer | None = None
        self._last = 0.0

    def soon(self) -> None:
        """Ask for it; more questions than one are one until then."""
        if self._timer is None or not self._timer.pending:
            pause = self._last + self._cost() / self._share - time.monotonic()
            self._timer = self._loop.after(max(self._calm, pause), self._now)

    def _now(self) -> None:
        self._last = time.monotonic()
        self._what()
