# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait in tests until a condition holds, with a limit far beyond the time that any working machine takes.

The limit only ends a test whose condition never holds. A machine that is ten times as slow passes the same tests. Speed
is measured by ``make bench``. ``make lint`` refuses tests that assert on a clock (tests/tools/clocks.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 300.0  # seconds


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE, pause: float = 0.05) -> Any:
    """Return the first true answer of the condition; fail if none comes within ``seconds``.

    ``seconds`` is at least PATIENCE. The pauses are at least ``pause``, and three times as long as the condition takes:
    a condition that starts programs leaves most of the processor to the work that it waits for, and to other tests.
    """
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"not within {seconds:.0f} s: {condition.__doc__ or condition}")
        time.sleep(max(pause, 3 * (now - begun)))
