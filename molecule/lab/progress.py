# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress on standard error: each step, with the time since the start."""

from __future__ import annotations

import sys
import time


class Progress:
    """Prints each step with the seconds since this object was made: ``[  7.9s] node1 answers``."""

    def __init__(self, prefix: str = "") -> None:
        self.began = time.monotonic()
        self.prefix = prefix

    @property
    def elapsed(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self.began

    def __call__(self, text: str) -> None:
        """Print one step."""
        print(f"[{self.elapsed:6.1f}s] {self.prefix}{text}", file=sys.stderr, flush=True)
