# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of the demo: headings with the time since its start, notes, passed checks, the end."""

from __future__ import annotations

import sys
import time
from typing import NoReturn


class DemoError(Exception):
    """A check or a command of the demo failed; the text says which one, and where to look."""


def clock(seconds: float) -> str:
    """Return ``M:SS``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Screen:
    """Prints headings and lines, and keeps each step's time for the summary."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.steps: list[tuple[str, float]] = []  # title, when it began
        self._bold = "\033[1m{}\033[0m" if sys.stdout.isatty() else "{}"

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began

    def heading(self, title: str) -> None:
        """Begin a step."""
        self.steps.append((title, self.elapsed))
        line = f"=== {len(self.steps)}. {title} "
        self._print("\n" + self._bold.format(f"{line:=<112} [{clock(self.elapsed)}]"))

    def note(self, text: str) -> None:
        """Print the present action."""
        self._print(f"[{clock(self.elapsed)}] {text}")

    def passed(self, text: str) -> None:
        """Print a passed check."""
        self._print(f"[{clock(self.elapsed)}] ok: {text}")

    def text(self, text: str) -> None:
        """Print a table or another program's output."""
        self._print(text)

    def times(self) -> str:
        """Return how long each step took, one line each."""
        ends = [began for _, began in self.steps[1:]] + [self.elapsed]
        lines = [f"  {clock(end - began)}  {title}" for (title, began), end in zip(self.steps, ends, strict=True)]
        return "\n".join([*lines, f"  {clock(self.elapsed)}  in all"])

    def _print(self, text: str) -> None:
        print(text, flush=True)


def fail(text: str) -> NoReturn:
    """End the demo.

    Raises:
        DemoError: always.
    """
    raise DemoError(text)
