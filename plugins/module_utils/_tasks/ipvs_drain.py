# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Drain: set a real server to weight 0, and remove it when its active connections have ended or the time is over.

The wait is part of applying the plan, before the first removal. If a later step fails, the undo restores the real
server with its weight.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..engine.errors import KernelError
from ..engine.kernel import Failure, Result, ipvs
from ..engine.node_lock import unlocked
from ..engine.plan import Step
from ..engine.plan.order import ordered

if TYPE_CHECKING:
    from ..engine.model.ipvs import RealServerKey
    from ..engine.plan import Plan

INTERVAL = 0.5  # seconds between two counts of connections


class Drain:
    """Drain of one task.

    Attributes:
        lock: the node's lock, released while this task waits; None in check mode on a node without a ledger.
        drained: seconds and remaining active connections of each real server, for the module's result.
        warnings: one sentence for each real server whose connections did not end in time.
    """

    def __init__(self, seconds: int) -> None:
        self.lock: int | None = None
        self.drained: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self._seconds = seconds
        self._keys: set[RealServerKey] = set()

    def refine(self, made: Plan) -> Plan:
        """Return the plan with a step to weight 0 before each removal of a real server that has another weight."""
        steps = []
        for step in made.steps:
            if step.kind == "real_server" and step.after is None:
                self._keys.add(step.key)
                quiet = step.before._replace(weight=0)
                if quiet != step.before:
                    steps.append(Step(step.kind, step.key, step.before, quiet))
                step = Step(step.kind, step.key, quiet, None)
            steps.append(step)
        return made._replace(steps=ordered(steps))

    def apply(self, steps: list[Step], keep_going: bool) -> Result:
        """Execute steps of the table ``ipvs``, and wait before the first removal of a draining real server."""
        here = next((at for at, step in enumerate(steps) if step.after is None and step.key in self._keys), None)
        if here is None:  # no draining real server is removed, as in an undo
            return ipvs.apply(steps, keep_going)
        first = ipvs.apply(steps[:here], keep_going)
        if first.failed and not keep_going:
            return first
        try:
            self._wait()
        except KernelError as error:
            return Result(first.done, [*first.failed, Failure(steps[here], str(error))])
        rest = ipvs.apply(steps[here:], keep_going)
        return Result(first.done + rest.done, first.failed + rest.failed)

    def _wait(self) -> None:
        """Count connections every :data:`INTERVAL` until none is active or the time is over.

        The first count follows after one interval, so that a handshake under way can complete.
        """
        start = time.monotonic()
        ended: dict[RealServerKey, float] = {}
        active: dict[RealServerKey, int] = {}
        with nullcontext() if self.lock is None else unlocked(self.lock):
            while True:
                time.sleep(INTERVAL)
                passed = round(time.monotonic() - start, 1)
                counts = ipvs.read_connections({key.server for key in self._keys})
                active = {key: counts[key][0] for key in self._keys if key not in ended and counts.get(key, (0, 0))[0]}
                ended.update((key, passed) for key in self._keys if key not in active and key not in ended)
                if not active or passed >= self._seconds:
                    break
        self.drained = [
            {"real_server": str(key), "seconds": ended.get(key, passed), "active_connections": active.get(key, 0)}
            for key in sorted(self._keys)
        ]
        self.warnings = [
            f"real server {key} had {count} active connection(s) left when drain_timeout ({self._seconds} s) was over;"
            " it was removed"
            for key, count in sorted(active.items())
        ]
