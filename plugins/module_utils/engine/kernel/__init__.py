# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's tables: one module each, with the same two verbs.

``read(...)`` returns the table's kinds of items as a :data:`~..model.State`, foreign things included.

``apply(steps, keep_going)`` makes steps true, in batches, and returns a :class:`Result`: which steps are done and which
failed, each with a sentence that says why. Without ``keep_going`` it stops at the first failure. Done and failed steps
together may be fewer than those given only if it stopped. A batch that the kernel takes as a whole (iptables) fails as
a whole.

Both raise :class:`~..errors.MissingError` if the node lacks what the table needs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Callable, NamedTuple, TypeVar

from ..model.step import Step

Found = TypeVar("Found")


class Failure(NamedTuple):
    """A step that could not be done, and why, in words."""

    step: Step
    message: str


class Result(NamedTuple):
    """What became of steps.

    If the conversation with the kernel ended between question and answer, ``done`` also has steps of which nobody knows
    whether they were. Whoever undoes it may undo them, too: taking back what was not done changes nothing.
    """

    done: list[Step]
    failed: list[Failure]


def finished(slices: Generator[None, None, Found], between: Callable[[], None] = lambda: None) -> Found:
    """Run a generator that yields after each slice of its work, and return its result.

    Between two slices, only ``between`` runs.
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: Found = end.value
            return found
        between()
