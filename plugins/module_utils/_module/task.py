# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Run a converging module: lock, read, plan, report or execute.

Check mode and diff mode use the plan of a real run, so that they report exactly what a real run does.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.warnings import warn

from .._confirm import protocol as _confirm
from ..engine.errors import ConflictError, EngineError, LedgerError
from ..engine.ledger import LASTING, Ledger
from ..engine.model.kinds import KINDS, name
from ..engine.node_lock import DIRECTORY, node_lock
from ..engine.plan import Plan, plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Callable, Protocol

    from ..engine.apply import ApplyError, Tables
    from ..engine.ledger import Item
    from ..engine.model import ReadState
    from ..engine.model.step import Step

    Keys = Mapping[str, Collection[Any]]

    class Refinement(Protocol):
        """Changes a plan before it is carried out."""

        @property
        def told(self) -> Mapping[str, Any] | Iterable[tuple[str, Any]]: ...
        def refine(self, made: Plan) -> Plan: ...

    Read = Callable[["LedgerView"], ReadState]
    Wish = Callable[[Any, "LedgerView"], "TaskChange"]
    Prepared = tuple[Read, Wish, Tables]
    Reread = Callable[[Collection[Item]], ReadState]

_SHOWN = 50  # elements of a list


class TaskChange(NamedTuple):
    """Change that a task asks for.

    ``want`` maps kinds to desired items. ``absent`` maps kinds to keys to remove. The children (real servers, members)
    of a desired parent are exactly the desired ones. For the parents that ``lenient`` names under the children's kind,
    only the children listed in ``absent`` are removed. ``scope`` maps kinds without a parent to the keys that ``purge``
    may remove; kinds that are not in it are never purged. ``refinement`` is None or changes the plan before it is
    executed: ``refine(plan)`` returns the changed plan, and ``told`` is then a part of the module's result. ``common``
    maps kinds to unowned keys that any task may change. Original values of sysctls among them are saved until the task
    ``leaves`` the node. ``released`` maps kinds to keys that stay but become unowned, and of which the ledger keeps
    nothing.
    """

    want: ReadState
    absent: Keys
    lenient: Keys
    scope: Keys
    refinement: Refinement | None = None
    common: Keys = MappingProxyType({})
    leaves: bool = False
    released: Keys = MappingProxyType({})


class LedgerView(NamedTuple):
    """View of the ledger: the keys of this owner, and the keys of other owners with their names, per kind.

    ``lock`` is the node's lock.
    """

    ledger: Ledger | None
    owned: dict[str, set[Any]]
    others: dict[str, dict[Any, str]]
    lock: int | None = None

    @property
    def open_ledger(self) -> Ledger:
        """Ledger of a task that changes the node. Only check mode runs without one.

        Raises:
            LedgerError: there is none.
        """
        if self.ledger is None:
            raise LedgerError("ledger: not open in check mode, expected a run that changes the node")
        return self.ledger


@contextmanager
def failing(module: AnsibleModule) -> Iterator[None]:
    """Turn the engine's errors into the module's failure."""
    try:
        yield
    except EngineError as error:
        details = {}
        # an ApplyError, whose module is only imported where something is applied
        if hasattr(error, "failed") and hasattr(error, "undone"):
            details["failed_steps"] = [
                dict(failure.step.as_json(), message=failure.message) for failure in error.failed
            ]
            details["undone"] = [step.describe() for step in error.undone]
        module.fail_json(msg=str(error), **details)


@contextmanager
def surroundings(check_mode: bool, owner: str, directory: str = DIRECTORY) -> Iterator[LedgerView]:
    """Hold the node's lock and the open ledger. In check mode neither is created where there is none."""
    if check_mode and not os.path.exists(os.path.join(directory, "ledger.db")):
        yield LedgerView(None, {}, {})
        return
    with node_lock() as lock:
        ledger = Ledger(directory)
        try:
            yield LedgerView(ledger, ledger.owned(owner), ledger.others(owner), lock)
        finally:
            for problem in ledger.problems:
                warn(problem)
            if directory == LASTING and not check_mode:
                ledger.remove_if_empty()
            ledger.close()


def run(
    spec: dict[str, Any], prepare: Callable[[dict[str, Any]], Prepared], reread: Reread | None = None, **options: Any
) -> None:
    """Run a converging module from its argument spec.

    Args:
        spec: the argument spec.
        prepare: maps the module's parameters and ``check_mode`` to ``(read, wish, tables)``: ``read(around)`` returns
            the present items, ``wish(have, around)`` the change that the task asks for, ``tables`` are the tables'
            ``apply`` by name. Raises EngineError for wrong input.
        reread: for modules with ``confirm_timeout``: maps (kind, key) pairs to the present items among them.
        options: further arguments for AnsibleModule.
    """
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True, **options)
    with failing(module):
        params = {**module.params, "check_mode": module.check_mode}
        read, wish, tables = prepare(params)
        owner = params["owner"]
        with _confirm.begin(module, tables, reread) as guard, surroundings(module.check_mode, owner) as around:
            have = read(around)
            wanted = wish(have, around)
            made = compute(have, wanted, around, params)
            if not module.check_mode:
                _confirm.refuse_pending(owner)
                with _confirm.over(guard, made, wanted.absent, around, owner):
                    carry_out(made, wanted, have, tables, around, owner)
            result = report(module, made)
    if guard:
        result.update(guard.told)
    if wanted.refinement:
        result.update(wanted.refinement.told)
        for warning in result.pop("warnings", ()):
            module.warn(warning)
    module.exit_json(invocation={"module_args": brief(module.params)}, **result)


def brief(given: Any) -> Any:
    """Return parameters as a result repeats them: of a long list, only its length.

    ``ansible-playbook -vvv`` shows them.

    Ansible walks through all of a result several times on both sides; a table's worth of options took a third of the
    module's time.
    """
    if isinstance(given, dict):
        return {name: brief(value) for name, value in given.items()}
    if isinstance(given, list):
        return [brief(value) for value in given] if len(given) <= _SHOWN else f"{len(given)} elements"
    return given


def compute(have: ReadState, wish: TaskChange, around: LedgerView, params: dict[str, Any]) -> Plan:
    """Return the plan of a task.

    Only what the task is about goes to the planner as owned; the rest of this owner's things stands there like somebody
    else's.

    Raises:
        ConflictError: something named belongs to somebody else.
    """
    owner, purge = params["owner"], params["purge"]
    adopt = params["adopt"] or purge == "all"
    want = _with_lenient_children(have, wish)
    owned: dict[str, set[Any]] = {}
    others = {kind: dict(keys) for kind, keys in around.others.items()}
    for kind in {*around.owned, *wish.absent, *wish.scope}:
        if KINDS[kind].parent:
            continue
        mine, claimed = around.owned.get(kind, ()), around.others.get(kind, {})
        scope, absent = wish.scope.get(kind, ()), wish.absent.get(kind, ())
        about = {*want.get(kind, ()), *absent}
        if purge != "none":
            about.update(scope)
        owned[kind] = {key for key in mine if key in about}
        others.setdefault(kind, {}).update((key, owner) for key in mine if key not in about)
        for key in absent:
            if key in have.get(kind, ()) and key not in mine:
                _refuse_removal(kind, key, claimed, adopt)
                owned[kind].add(key)
        if purge == "all":
            owned[kind].update(key for key in scope if key not in claimed and key not in want.get(kind, ()))
    changeable: Keys = {**owned, **wish.common}
    if not adopt:
        _refuse_foreign_children(have, want, changeable, others)
    made = plan(have, want, changeable, others=others, adopt=adopt)
    if made.conflicts:
        raise ConflictError("; ".join(conflict.describe() for conflict in made.conflicts) + "; nothing was changed")
    return wish.refinement.refine(made) if wish.refinement else made


def _with_lenient_children(have: ReadState, wish: TaskChange) -> dict[str, dict[Any, Any]]:
    want = {kind: dict(items) for kind, items in wish.want.items()}
    for kind, parents in wish.lenient.items():
        parent = KINDS[kind].parent
        if parent is None:
            raise ValueError(f"{kind} has no parent: only children are lenient")
        parent_of = parent[1]
        gone = wish.absent.get(kind, ())
        stay = {
            key: value for key, value in have.get(kind, {}).items() if parent_of(key) in parents and key not in gone
        }
        want[kind] = {**stay, **want.get(kind, {})}
    return want


def _refuse_foreign_children(
    have: ReadState, want: ReadState, owned: Keys, others: Mapping[str, Mapping[Any, str]]
) -> None:
    """Raise ConflictError for a child that must go from a parent that is not ours.

    The planner would leave such a child where it is.
    """
    for kind in want:
        parent = KINDS[kind].parent
        if parent is None:
            continue
        kind_above, parent_of = parent
        for key in have.get(kind, ()):
            above = parent_of(key)
            if key not in want[kind] and above in want.get(kind_above, ()) and above not in owned.get(kind_above, ()):
                item = name(kind_above, above)
                if above in others.get(kind_above, ()):
                    raise ConflictError(f"{item} belongs to owner {others[kind_above][above]!r}; nothing was changed")
                raise ConflictError(
                    f"{item} has no owner and keeps its {name(kind, key)} (adopt takes it over); nothing was changed"
                )


def _refuse_removal(kind: str, key: Any, others: Mapping[Any, str], allowed: bool) -> None:
    if key in others:
        raise ConflictError(f"{name(kind, key)} belongs to owner {others[key]!r}; nothing was changed")
    if not allowed:
        raise ConflictError(
            f"{name(kind, key)} has no owner and is not removed (adopt takes it over); nothing was changed"
        )


def report(module: AnsibleModule, made: Plan) -> dict[str, Any]:
    """Return what a module returns: ``changed``, ``plan``, ``lines`` and, if asked for, ``diff``."""
    result = {"changed": bool(made.steps or made.adopted), "plan": made.as_json(), "lines": made.lines()}
    result["adopted"] = sorted(name(kind, key) for kind, keys in made.adopted.items() for key in keys)
    if module._diff:
        result["diff"] = difference(made.steps)
    return result


def difference(steps: Iterable[Step]) -> dict[str, dict[str, Any]]:
    """Return before and after of the items that change, by name.

    An item that changes and then goes is only in before.
    """
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for step in steps:
        item = name(step.kind, step.key)
        if step.before is not None and item not in after:
            before[item] = _shown(step.kind, step.key, step.before)
        after.pop(item, None)
        if step.after is not None:
            after[item] = _shown(step.kind, step.key, step.after)
    return {"before": before, "after": after}


def _shown(kind: str, key: Any, value: Any) -> str | list[str]:
    return list(value) if kind == "chain" else KINDS[kind].text(key, value)


def carry_out(
    made: Plan,
    wish: TaskChange,
    have: ReadState,
    tables: Tables,
    around: LedgerView,
    owner: str,
) -> None:
    """Execute a plan, and remove claims on released items and on items that shall not exist and do not."""
    gone = [(kind, key) for kind, keys in wish.absent.items() for key in keys if key not in have.get(kind, ())]
    left = [(kind, key) for kind, keys in wish.released.items() for key in keys]
    ledger = around.open_ledger
    ledger.rehearse(owner, [*gone, *left])
    with _noted(made, wish, around, owner):
        if made.steps or made.adopted:
            from ..engine.apply import execute

            execute(made, tables, ledger, owner)
        try:
            if wish.leaves:
                from ..engine.proxy import saved_sysctls

                saved_sysctls.forget(ledger, owner)
            ledger.forget(owner, [*((kind, key) for kind, key in gone if key in around.owned.get(kind, ())), *left])
            for kind, keys in wish.released.items():
                ledger.note(owner, kind, [(key, "") for key in keys])
        except LedgerError as error:
            raise taken_back(error, made, tables, around, owner) from error


def _noted(made: Plan, wish: TaskChange, around: LedgerView, owner: str) -> AbstractContextManager[None]:
    if not made.steps or "sysctl" not in wish.common or wish.leaves:
        return nullcontext()
    from ..engine.proxy import saved_sysctls

    return saved_sysctls.noted(around.open_ledger, owner, made.steps)


def taken_back(error: EngineError, made: Plan, tables: Tables, around: LedgerView, owner: str) -> ApplyError:
    """Undo a plan that was carried out, for what had to follow failed; return the error that says so.

    The owner's claims are again those from when the lock was taken, except for steps that could not be undone.
    """
    from ..engine.apply import ApplyError, undo

    ledger = around.open_ledger
    before = {(kind, key) for kind, keys in around.owned.items() for key in keys}
    with suppress(LedgerError):  # it may be what failed; a claim on something that is not there does no harm
        ledger.claim(owner, before)
    done, stuck = undo(made.steps, tables)
    left = {(failure.step.kind, failure.step.key) for failure in stuck}
    with suppress(LedgerError):
        now = {(kind, key) for kind, keys in ledger.owned(owner).items() for key in keys}
        ledger.forget(owner, now - before - left)
    if isinstance(error, ApplyError):
        return ApplyError(error.failed, [*error.undone, *done], [*error.stuck, *stuck], error.reason)
    return ApplyError([], done, stuck, str(error).removesuffix("; nothing was changed"))
