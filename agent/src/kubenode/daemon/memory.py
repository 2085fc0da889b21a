# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return free memory to the kernel regularly.

The C library keeps freed memory, and churn would touch more and more of its pages.
"""

from __future__ import annotations

import ctypes
from typing import Callable

from .loop import Loop

_PERIOD = 600.0  # seconds; the returned pages cost a page fault each when they are used again


def trim_regularly(loop: Loop) -> None:
    """Return free memory to the kernel now and every ten minutes, unless the C library (musl) has no malloc_trim."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        _trim(loop, trim)


def _trim(loop: Loop, trim: Callable[[int], int]) -> None:
    trim(0)
    loop.after(_PERIOD, lambda: _trim(loop, trim))
