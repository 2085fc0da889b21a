# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Plan a task against the ledger: ledger view, task change, and the plan from both and the observed state."""

from __future__ import annotations

import os
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.common.warnings import warn

from ..engine.errors import ConflictError, LedgerError
from ..engine.ledger import LASTING, Ledger
from ..engine.model.kinds import KINDS, name
from ..engine.node_lock import DIRECTORY, node_lock
from ..engine.plan import Plan, plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..engine.model import Keys, ReadState


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
            LedgerError: the ledger is not open.
        """
        if self.ledger is None:
            raise LedgerError("ledger: not open in check mode, expected a run that changes the node")
        return self.ledger


class Owners:
    """Owners of items: ``owners(kind, key)`` is the owner's name, "" if the ledger knows none."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view

    def __call__(self, kind: str, key: Any) -> str:
        return self._view.others.get(kind, {}).get(key, "")

    def keys(self, kind: str) -> list[Any]:
        """Return the keys of one kind that the ledger lists."""
        return sorted(self._view.others.get(kind, ()))

    def notes(self, owner: str, kind: str) -> dict[Any, str]:
        """Return the ledger's notes on an owner's keys."""
        return self._view.ledger.notes(owner, kind) if self._view.ledger else {}


@contextmanager
def open_ledger_view(check_mode: bool, owner: str, directory: str = DIRECTORY) -> Iterator[LedgerView]:
    """Hold the node's lock and the open ledger. In check mode without a ledger, hold and create neither."""
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


class TaskChange(NamedTuple):
    """Change that a task asks for.

    ``want`` maps kinds to desired items. ``absent`` maps kinds to keys to remove. ``scope`` maps kinds without a parent
    to the keys that ``purge`` may remove; kinds that are not in it are never purged. The children (real servers,
    members) of a desired parent are exactly the desired ones. For the parents that ``keep_unlisted`` names under the
    children's kind, only the children listed in ``absent`` are removed. ``common`` maps kinds to unowned keys that any
    task may change. ``released`` maps kinds to keys that stay but become unowned, and that the ledger forgets.
    """

    want: ReadState
    absent: Keys
    scope: Keys = MappingProxyType({})
    keep_unlisted: Keys = MappingProxyType({})
    common: Keys = MappingProxyType({})
    released: Keys = MappingProxyType({})


def plan_change(have: ReadState, change: TaskChange, view: LedgerView, owner: str, purge: str, adopt: bool) -> Plan:
    """Return the plan of a task.

    Only the items that the task names or may purge are this owner's for the planner. The owner's other items are
    treated like another owner's.

    Raises:
        ConflictError: a named item belongs to another owner.
    """
    adopt = adopt or purge == "all"
    want = _with_unlisted_children(have, change)
    owned: dict[str, set[Any]] = {}
    others = {kind: dict(keys) for kind, keys in view.others.items()}
    for kind in {*view.owned, *change.absent, *change.scope}:
        if KINDS[kind].parent:
            continue
        mine, claimed = view.owned.get(kind, ()), view.others.get(kind, {})
        scope, absent = change.scope.get(kind, ()), change.absent.get(kind, ())
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
    changeable: Keys = {**owned, **change.common}
    if not adopt:
        _refuse_foreign_children(have, want, changeable, others)
    made = plan(have, want, changeable, others=others, adopt=adopt)
    if made.conflicts:
        raise ConflictError("; ".join(conflict.describe() for conflict in made.conflicts) + "; nothing was changed")
    return made


def _with_unlisted_children(have: ReadState, change: TaskChange) -> dict[str, dict[Any, Any]]:
    want = {kind: dict(items) for kind, items in change.want.items()}
    for kind, parents in change.keep_unlisted.items():
        parent = KINDS[kind].parent
        if parent is None:
            raise ValueError(f"{kind} has no parent: only children can be unlisted")
        parent_of = parent[1]
        gone = change.absent.get(kind, ())
        stay = {
            key: value for key, value in have.get(kind, {}).items() if parent_of(key) in parents and key not in gone
        }
        want[kind] = {**stay, **want.get(kind, {})}
    return want


def _refuse_foreign_children(
    have: ReadState, want: ReadState, owned: Keys, others: Mapping[str, Mapping[Any, str]]
) -> None:
    """Raise ConflictError for a child to remove from a parent that is not this owner's.

    The planner would leave such a child alone.
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
