# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Pattern of the converging modules: a module is a :class:`ModuleTask`, and ``run(Task)`` is its ``main``.

A :class:`PlannedTask` plans all its items at once, a :class:`ConfirmableTask` also has the option ``confirm_timeout``.

Check mode and diff mode use the plan of a real run, so that they report exactly what a real run does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from ansible.module_utils.basic import AnsibleModule

from .._confirm import protocol as _confirm
from ..engine.errors import LedgerError
from ..engine.node_lock import DIRECTORY
from .argspec import check_owner
from .planning import open_ledger_view, plan_change
from .result import brief, failing, report

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from .._confirm.guard import Guard
    from ..engine.apply import Apply, ApplyError
    from ..engine.errors import EngineError
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.plan import Plan
    from .planning import LedgerView, TaskChange


class ModuleTask(ABC):
    """Task of a converging module, for one run on one node.

    Every module defines ``spec`` and ``tables``, and checks its options in ``__init__``.

    Attributes:
        spec: the argument spec.
        directory: the ledger's directory.
        tables: the tables' ``apply`` by name.
        owner: the items' owner.
        purge: whether items in the change's scope are removed: ``none``, ``owned`` or ``all``.
        adopt: whether unowned items become the owner's.

    Raises:
        EngineError: wrong input.
    """

    spec: ClassVar[dict[str, Any]]
    directory: ClassVar[str] = DIRECTORY
    tables: dict[str, Apply]

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        self.module = module
        self.params = params
        self.owner = check_owner(params["owner"])
        self.purge: str = params.get("purge", "none")
        self.adopt: bool = params.get("adopt", False)

    @abstractmethod
    def converge(self, view: LedgerView, guard: Guard | None = None) -> dict[str, Any]:
        """Read, plan, and execute unless in check mode; return the module's result. The caller holds the lock."""


class PlannedTask(ModuleTask):
    """Task with one plan for all its items, made of the present items and of the change that the task asks for.

    The methods that are not abstract are optional.

    Attributes:
        plan: what :meth:`converge` planned.
    """

    plan: Plan

    @abstractmethod
    def read(self, view: LedgerView) -> State:
        """Return the present items."""

    @abstractmethod
    def change(self, have: State, view: LedgerView) -> TaskChange:
        """Return the change that the task asks for, given the present items."""

    def refine(self, made: Plan) -> Plan:
        """Return the plan to execute, or raise EngineError if it is bound to fail."""
        return made

    def noted(self, _made: Plan, _view: LedgerView) -> AbstractContextManager[None]:
        """Return a context for the execution that writes notes to the ledger, and removes them on failure."""
        return nullcontext()

    def result(self) -> dict[str, Any]:
        """Return the module's own result fields, after the execution."""
        return {}

    def converge(self, view: LedgerView, guard: Guard | None = None) -> dict[str, Any]:
        have = self.read(view)
        change = self.change(have, view)
        self.plan = self.refine(plan_change(have, change, view, self.owner, self.purge, self.adopt))
        if not self.module.check_mode:
            _confirm.refuse_pending(self.owner)
            gone = {**change.absent, **change.released}
            guarded = guard.armed(self.plan, gone, view, self.owner) if guard else nullcontext()
            with guarded, self.noted(self.plan, view):
                self._carry_out(change, have, view)
        return {**report(self.module, self.plan), **(guard.result_fields if guard else {}), **self.result()}

    def _carry_out(self, change: TaskChange, have: State, view: LedgerView) -> None:
        """Execute the plan, and remove claims on released items and on unwanted items that are already absent."""
        gone = [(kind, key) for kind, keys in change.absent.items() for key in keys if key not in have.get(kind, ())]
        left = [(kind, key) for kind, keys in change.released.items() for key in keys]
        ledger = view.open_ledger
        ledger.rehearse(self.owner, [*gone, *left])
        if self.plan.steps or self.plan.adopted:
            from ..engine.apply import execute

            execute(self.plan, self.tables, ledger, self.owner)
        try:
            ours = [(kind, key) for kind, key in gone if key in view.owned.get(kind, ())]
            ledger.forget(self.owner, [*ours, *left])
            for kind, keys in change.released.items():
                ledger.note(self.owner, kind, [(key, "") for key in keys])
        except LedgerError as error:
            raise self.taken_back(error, view) from error

    def taken_back(self, error: EngineError, view: LedgerView) -> ApplyError:
        """Undo the executed plan after a later failure; return the error that reports both.

        The owner's claims are again those from when the lock was taken, except for steps that could not be undone.
        """
        from ..engine.apply import ApplyError, undo

        ledger = view.open_ledger
        before = {(kind, key) for kind, keys in view.owned.items() for key in keys}
        with suppress(LedgerError):  # the ledger itself may have failed; a claim on an absent item does no harm
            ledger.claim(self.owner, before)
        done, stuck = undo(self.plan.steps, self.tables)
        left = {(failure.step.kind, failure.step.key) for failure in stuck}
        with suppress(LedgerError):
            now = {(kind, key) for kind, keys in ledger.owned(self.owner).items() for key in keys}
            ledger.forget(self.owner, now - before - left)
        if isinstance(error, ApplyError):
            return ApplyError(error.failed, [*error.undone, *done], [*error.stuck, *stuck], error.reason)
        return ApplyError([], done, stuck, str(error).removesuffix("; nothing was changed"))


class ConfirmableTask(PlannedTask):
    """Task whose change the node undoes unless the controller confirms it: it has the option ``confirm_timeout``."""

    @abstractmethod
    def reread(self, items: Collection[Item]) -> State:
        """Return the present items among (kind, key) pairs; further items in the result do no harm."""


def run(kind: type[ModuleTask]) -> None:
    """Run a converging module."""
    module = AnsibleModule(argument_spec=kind.spec, supports_check_mode=True)
    with failing(module):
        task = kind(module, module.params)
        guarded: AbstractContextManager[Guard | None] = nullcontext()
        if isinstance(task, ConfirmableTask):
            guarded = _confirm.begin(module, task.tables, task.reread, task.directory)
        with guarded as guard, open_ledger_view(module.check_mode, task.owner, task.directory) as view:
            result = task.converge(view, guard)
    module.exit_json(invocation={"module_args": brief(module.params)}, **result)
