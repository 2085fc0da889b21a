# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of the agent: which objects the collector searches for cycles, and when free memory goes to the kernel.

The C library keeps freed memory, and churn touches more and more of its pages: about 0.1 MiB in each minute.
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Callable

from .loop import Loop

_PERIOD = 60.0  # seconds; the returned pages cost a page fault each when they are used again
_LEAST_PAUSE = 10_000  # times the duration of a call: 0.6 ms for a heap of 12 MiB, and up to 80 ms for one of 700 MiB
# Cycles are rare here. Searching the new objects of a large cluster for them would delay a change.
_GARBAGE = (10_000, 50, 20)


def keep_objects() -> None:
    """Collect cycles from now on, among later objects only: those that exist are there to stay."""
    gc.freeze()  # without collecting first: with 10,000 services that would take nine seconds of a lab node
    gc.enable()
    gc.set_threshold(*_GARBAGE)


def trim_regularly(loop: Loop) -> None:
    """Return free memory to the kernel now and about once a minute, unless the C library (musl) has no malloc_trim."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        _trim(loop, trim)


def _trim(loop: Loop, trim: Callable[[int], int]) -> None:
    start = time.monotonic()
    trim(0)
    loop.after(max(_PERIOD, _LEAST_PAUSE * (time.monotonic() - start)), lambda: _trim(loop, trim))
