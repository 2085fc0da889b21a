# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``plan(have, want, owned)``: return the steps from the present to the desired state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Callable, NamedTuple

from ..model import Keys, ReadState
from ..model.ipset import keeps_members
from ..model.kinds import KINDS, name
from ..model.step import Step

# Kinds that the kernel keeps in hash tables. It resizes these at any time (IPVS's since Linux 7), so two readings of
# one state may differ in their order. A plan must not: check mode says what the run then does.
HASHED = frozenset(("virtual_server", "real_server", "member", "nft_element", "address", "route"))


class Conflict(NamedTuple):
    """A desired item that exists and belongs to another owner; ``owner`` is "" if the ledger knows none."""

    kind: str
    key: Any
    owner: str

    def describe(self) -> str:
        """Return one sentence that names the item and its owner."""
        item = name(self.kind, self.key)
        if self.owner:
            return f"{item} belongs to owner {self.owner!r}"
        return f"{item} exists already and has no owner; it is left unchanged (adopt takes it over)"


class Plan(NamedTuple):
    """Ordered steps, and the desired items that were left out because they have another owner.

    ``adopted`` are the items that match the desired state already and become ours without a step.
    """

    steps: list[Step]
    conflicts: list[Conflict]
    adopted: dict[str, list[Any]]

    def lines(self) -> list[str]:
        """Return the steps for people, one line each."""
        return [step.describe() for step in self.steps]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the steps as plain data."""
        return [step.as_json() for step in self.steps]


def plan(
    have: ReadState,
    want: ReadState,
    owned: Keys,
    *,
    others: Mapping[str, Mapping[Any, str]] | None = None,
    adopt: bool = False,
) -> Plan:
    """Compare and order.

    Args:
        have: what the kernel holds (all of it, foreign things included).
        want: all that this owner wants.
        owned: the keys per kind that the ledger says are this owner's. What is owned and not wanted is removed. An item
            with a parent (a member, a real server) is owned through its parent.
        others: the keys per kind that other owners claim, with their names.
        adopt: take over unowned items.
    """
    others = others or {}
    steps: list[Step] = []
    conflicts: list[Conflict] = []
    adopted: dict[str, list[Any]] = {}
    refused: dict[str, set[Any]] = {}
    blamed: set[tuple[str, Any]] = set()
    for kind in sorted(set(have) | set(want), key=list(KINDS).index):
        has, wants = have.get(kind, {}), want.get(kind, {})
        parent = KINDS[kind].parent
        mine = _ownership(kind, owned, want, adopt)
        foreign = others.get(kind, {})
        blocked = refused[kind] = _refused(kind, wants, foreign, refused, conflicts)
        if kind == "jump":
            jumps = {key: position for key, position in wants.items() if key not in blocked}
            steps.extend(_jump_steps(has, jumps, mine, {*owned.get(kind, ()), *foreign}))
            existing = [key for key in jumps if adopt and key in has and key not in owned.get(kind, ())]
            if existing:
                adopted[kind] = existing
            continue
        same = KINDS[kind].same
        replaced = _replaced_sets(have, want) if kind == "member" else ()
        unwanted = len(has)
        for key, value in wants.items():
            before = has.get(key)
            if before is not None:
                unwanted -= 1
                if before == value and not adopt and not replaced:
                    continue  # nearly all of a large state
            if key in blocked:
                continue
            ours = mine(key)
            changes = before is None or not same(before, value) or (replaced and key.set in replaced)
            foreign_parent = parent is not None and not ours and parent[1](key) in have.get(parent[0], {})
            if changes and not ours and (before is not None or foreign_parent):
                item = (parent[0], parent[1](key)) if parent and foreign_parent else (kind, key)
                if item not in blamed:  # one conflict for all children of a parent
                    conflicts.append(Conflict(*item, ""))
                    blamed.add(item)
                blocked.add(key)
            elif changes:
                steps.append(Step(kind, key, before, value))
            if adopt and before is not None and parent is None and key not in owned.get(kind, ()):
                adopted.setdefault(kind, []).append(key)
        gone = [key for key in has if key not in wants and mine(key)] if unwanted else []
        for key in _in_order(kind, gone, have):
            steps.append(Step(kind, key, has[key], None))
    if steps:
        from .order import ordered  # late: most runs of a module have no steps

        steps = ordered(steps)
    return Plan(steps, conflicts, adopted)


def _in_order(kind: str, gone: list[Any], have: ReadState) -> list[Any]:
    """Return keys in the order of their deletion: by name if the kernel hashes them, else as read."""
    if kind == "member":  # those of a list:set have an order of their own
        lists = {key for key, header in have.get("set", {}).items() if header.type == "list:set"}
        return sorted(gone, key=lambda key: (key.set, "" if key.set in lists else key.member))
    return sorted(gone) if kind in HASHED else gone


def _refused(
    kind: str,
    wants: Mapping[Any, Any],
    foreign: Mapping[Any, str],
    refused: Mapping[str, set[Any]],
    conflicts: list[Conflict],
) -> set[Any]:
    """Return the keys that have another owner, which are conflicts, or a refused parent."""
    parent = KINDS[kind].parent
    blocked = set()
    unwelcome = refused.get(parent[0]) if parent else None
    for key in wants if unwelcome or foreign else ():
        if parent and unwelcome and parent[1](key) in unwelcome:
            blocked.add(key)
        elif key in foreign:
            conflicts.append(Conflict(kind, key, foreign[key]))
            blocked.add(key)
    return blocked


def _jump_steps(
    have: Mapping[Any, int],
    want: Mapping[Any, Any],
    mine: Callable[[Any], bool],
    claimed: Collection[Any],
) -> Iterator[Step]:
    """Return the steps that put every wanted jump in its place and take the others of ours out."""
    from .jumps import move_jumps

    return move_jumps(have, want, [key for key in have if mine(key)], claimed)


def _replaced_sets(have: ReadState, want: ReadState) -> Collection[str]:
    """Return the sets whose replacement gives members another meaning.

    Every member is written into the new set.
    """
    replaced = set()
    for key, value in want.get("set", {}).items():
        before = have.get("set", {}).get(key)
        if before is not None and not keeps_members(before, value):
            replaced.add(key)
    return replaced


def _ownership(kind: str, owned: Keys, want: ReadState, adopt: bool) -> Callable[[Any], bool]:
    """Return the test whether an existing item of this kind is ours, or becomes ours by adoption."""
    parent = KINDS[kind].parent
    parent_kind, parent_of = parent if parent else (kind, _itself)
    keys = owned.get(parent_kind, ())
    taken: Collection[Any] = want.get(parent_kind, {}) if adopt else ()
    return lambda key: parent_of(key) in keys or parent_of(key) in taken


def _itself(key: Any) -> Any:
    return key
