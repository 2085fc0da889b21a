# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a pass: steps done and failed, drift, durations. Its record, and the interface of its subscribers."""

from __future__ import annotations

from typing import NamedTuple

from ..engine.errors import EngineError
from ..engine.kernel import Failure
from ..engine.model import ReadState
from ..engine.plan import Conflict, Step

# What ends a pass, and not the agent. OSError: code that is imported late, while no descriptor is free.
STOPPED = (EngineError, OSError)
KERNEL_EVENT = "kernel event"  # reason of a pass after an event of a change by another process


class PassResult(NamedTuple):
    """Result of a pass: steps done and failed, items of other owners, and its duration.

    ``drift`` are changes made by another process and reverted in this pass.
    """

    full: bool
    done: list[Step]
    failed: list[Failure]
    conflicts: list[Conflict]
    drift: list[Step]
    seconds: float
    tables: dict[str, float]  # seconds spent writing, by table


NOTHING_TO_DO = PassResult(False, [], [], [], [], 0.0, {})


class PassRecord:
    """State of the node by its passes so far.

    ``trouble`` says why the last pass did not get through ("" if it did), ``last`` is the last full pass, ``failures``
    maps a step's text to the kernel's reason, ``conflicts`` are items of other owners.
    """

    def __init__(self) -> None:
        self.trouble = ""
        self.last: PassResult | None = None
        self.failures: dict[str, str] = {}
        self.conflicts: list[str] = []

    def add(self, result: PassResult) -> None:
        """Add a pass."""
        if result.full:
            self.last = result
            self.failures = {}
            self.conflicts = [conflict.describe() for conflict in result.conflicts]
        for step in result.done if self.failures else ():
            self.failures.pop(step.describe(), None)
        self.failures.update((failure.step.describe(), failure.message) for failure in result.failed)


class PassSubscriber:
    """Base of the agent's parts that follow its passes. A method that a part does not override does nothing."""

    def queued(self) -> None:
        """A change waits for a pass."""

    def changing(self, delta: ReadState, whole: bool) -> None:
        """Note that the desired state changes: the reconciler gets ``delta`` next (:meth:`.Reconciler.accept`)."""

    def delayed(self) -> None:
        """A pass was not possible or failed in part, and will be retried."""

    def passed(self, result: PassResult, reason: str) -> None:
        """A pass has ended, perhaps without anything to do."""
