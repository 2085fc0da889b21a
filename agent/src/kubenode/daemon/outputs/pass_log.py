# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log each pass: steps that failed, items of other owners, reverted drift, and one line for the whole."""

from __future__ import annotations

from ..interfaces import AgentView
from ..pass_result import PassResult, PassSubscriber

_UNASKED = ("event", "period", "kernel event", "events lost")  # reasons of passes that may have had nothing to do
_FREQUENT = ("event", "draining")  # in a large cluster many times a second


class PassLog(PassSubscriber):
    """Writes a pass to the log. Lines about single items have a quota."""

    def __init__(self, agent: AgentView) -> None:
        self._agent = agent

    def passed(self, result: PassResult, reason: str) -> None:
        """Log what a pass did."""
        log, whose = self._agent.log, self._agent.desired.objects
        failed = log.first("step failed", result.failed)
        for failure, its in zip(failed, whose([failure.step for failure in failed])):
            log.error("step failed", **its, step=failure.step.describe(), reason=failure.message)
        conflicts = log.first("left alone", result.conflicts)
        for conflict, its in zip(conflicts, whose(conflicts)):
            log.warning("left alone", **its, reason=conflict.describe())
        for text in self._agent.reconciler.ledger.problems():
            log.warning("ledger row ignored", reason=text)
        if log.level >= 7:
            for step, its in zip(result.done, whose(result.done)):
                log.debug("step", **its, step=step.describe(), reason=reason)
        if result.failed:
            log.warning("converged in part", reason=reason, steps=len(result.done), failed=len(result.failed))
        elif len(result.done) > len(result.drift) or reason not in _UNASKED:  # drift has lines of its own
            say = log.debug if reason in _FREQUENT else log.info
            say("converged", reason=reason, steps=len(result.done), seconds=f"{result.seconds:.3f}")
        drift = log.first("drift healed", result.drift)
        for step, its in zip(drift, whose(drift)):
            log.warning("drift healed", **its, step=step.describe(), reason="changed by another process")
