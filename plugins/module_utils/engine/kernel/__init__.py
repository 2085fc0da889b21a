# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's tables: one module each, with the functions ``read`` and ``apply``.

``read(...)`` returns the table's kinds of items as a :data:`~..model.State`, of any owner.

``apply(steps, keep_going)`` executes steps in batches and returns a :class:`Result`: the steps that are done, and those
that failed with a reason each. Without ``keep_going`` it stops at the first failure; only then may steps be missing in
the result. A batch that the kernel takes as a whole (iptables) fails as a whole.

Both raise :class:`~..errors.MissingError` if the node lacks what the table needs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Callable, NamedTuple, TypeVar

from ..model.step import Step

Returned = TypeVar("Returned")


class Failure(NamedTuple):
    """A failed step, with the reason in words."""

    step: Step
    message: str


class Result(NamedTuple):
    """Outcome of steps.

    If the conversation with the kernel ended between request and answer, ``done`` also has the steps whose outcome is
    unknown. The caller may undo them, too: undoing a step that was not done changes nothing.
    """

    done: list[Step]
    failed: list[Failure]


def finished(slices: Generator[None, None, Returned], between: Callable[[], None] = lambda: None) -> Returned:
    """Run a generator that yields after each slice of its work, and return its result.

    Between two slices, only ``between`` runs.
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: Returned = end.value
            return result
        between()
