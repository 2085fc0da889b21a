# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a plan: claim, hand runs of steps to the tables, forget; undo or go on when a step fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Callable, NamedTuple

from .errors import KernelError, LedgerError
from .kernel import Failure, Result
from .ledger import Ledger
from .model.kinds import KINDS, name
from .plan import Plan, Step

Apply = Callable[[list[Step], bool], Result]
Tables = Mapping[str, Apply]


class ApplyError(KernelError):
    """A step failed, or the ledger after all steps.

    ``failed`` has the failed steps with their reasons. ``undone`` has the steps that were undone, ``stuck`` those that
    could not be. If no step failed, ``reason`` says what failed after them.

    """

    def __init__(self, failed: list[Failure], undone: list[Step], stuck: list[Failure], reason: str = "") -> None:
        lines = [reason] if reason else [_sentence(failure) for failure in failed]
        if undone or not stuck:
            lines.append(f"{len(undone)} earlier step(s) were undone" if undone else "nothing was changed")
        lines.extend(f"could not be undone: {failure.step.describe()}: {failure.message}" for failure in stuck)
        super().__init__("; ".join(lines))
        self.failed = failed
        self.undone = undone
        self.stuck = stuck
        self.reason = reason


def _sentence(failure: Failure) -> str:
    item = name(failure.step.kind, failure.step.key)
    if failure.message.startswith(item):
        return failure.message
    return f"{failure.step.describe()} failed: {failure.message}"


class Outcome(NamedTuple):
    """Outcome of a plan's execution; ``failed`` is empty without ``keep_going``."""

    done: list[Step]
    failed: list[Failure]


def execute(plan: Plan, tables: Tables, ledger: Ledger, owner: str, *, keep_going: bool = False) -> Outcome:
    """Execute a plan in its order.

    Claims are written before an item is created or removed, and forgotten after it is removed. So a crash in between
    leaves a claim on an absent item, never an item without an owner. An item of kube-proxy needs its claim, too: what
    tells that it is kube-proxy's may be removed before it (a node port's virtual server: the member). A failure leaves
    the ledger as it was, except for steps that stay done.

    Args:
        plan: the steps, and the items to adopt.
        tables: ``apply`` of each table, by the table's name (:data:`.kernel.tables.TABLES`).
        ledger: the open ledger, which receives the claims.
        owner: the owner of the items.
        keep_going: report a step that fails and do the rest, except for its children. Otherwise the first failure
            undoes all steps before it. The agent keeps going.

    Raises:
        LedgerError: the ledger cannot be written; nothing was done, or with ``keep_going`` perhaps everything.
        ApplyError: a step failed, or the ledger after all steps (only without ``keep_going``). All steps were undone,
            as far as possible.
        KernelError: a table cannot be used at all (only with ``keep_going``). Earlier steps stay done.
    """
    creations = [
        (step.kind, step.key) for step in plan.steps if step.before is None and KINDS[step.kind].parent is None
    ]
    adopted = [(kind, key) for kind, keys in plan.adopted.items() for key in keys]
    deletions = [(step.kind, step.key) for step in plan.steps if step.after is None and KINDS[step.kind].parent is None]
    ledger.rehearse(owner, deletions)
    fresh = ledger.claim(owner, creations + adopted + deletions)
    done, failed = _run(plan.steps, tables, keep_going, contained=not keep_going)
    reason = ""
    if keep_going or not failed:
        gone = {(step.kind, step.key) for step in done if step.after is None}
        # Earlier claims stay: an item whose creation failed may still be there.
        gone.update(
            fresh.intersection(
                (failure.step.kind, failure.step.key) for failure in failed if failure.step.before is None
            )
        )
        try:
            ledger.forget(owner, [item for item in gone if KINDS[item[0]].parent is None])
            return Outcome(done, failed)
        except LedgerError as error:
            if keep_going:
                raise
            reason = str(error).removesuffix("; nothing was changed")
    undone, stuck = undo(done, tables)
    with suppress(LedgerError):  # a claim on an absent item does no harm
        ledger.forget(owner, fresh.difference((failure.step.kind, failure.step.key) for failure in stuck))
    restored = {(step.kind, step.key) for step in undone}
    with suppress(LedgerError):  # the ledger may have forgotten before it failed: restored items need their claims
        ledger.claim(owner, [item for item in deletions if item in restored and item not in fresh])
    raise ApplyError(failed, undone, stuck, reason)


def undo(done: Sequence[Step], tables: Tables) -> Result:
    """Undo steps as far as possible, the last one first. The caller updates the ledger."""
    return _run([step.inverse() for step in reversed(done)], tables, True, contained=True)


def _run(steps: list[Step], tables: Tables, keep_going: bool, contained: bool) -> Result:
    """Hand runs of steps to their tables.

    With ``contained``, a table that cannot be used at all is a failure like any other. Without it, its KernelError is
    raised.
    """
    done: list[Step] = []
    failed: list[Failure] = []
    broken: dict[str, set[Any]] = {}
    for table, group in groupby(steps, key=lambda step: KINDS[step.kind].table):
        run = [step for step in group if not _hangs_on(step, broken)]
        if not run:
            continue
        try:
            result = tables[table](run, keep_going)
        except KernelError as error:
            if not contained:
                raise
            result = Result([], [Failure(run[0], str(error))])
        done.extend(result.done)
        for failure in result.failed:
            broken.setdefault(failure.step.kind, set()).add(failure.step.key)
        # a child's failure that follows from its parent's is not reported
        failed.extend(failure for failure in result.failed if not _hangs_on(failure.step, broken))
        if result.failed and not keep_going:
            break
    return Result(done, failed)


def _hangs_on(step: Step, broken: dict[str, set[Any]]) -> bool:
    parent = KINDS[step.kind].parent
    return parent is not None and parent[1](step.key) in broken.get(parent[0], ())
