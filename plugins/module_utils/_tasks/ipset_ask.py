# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Ask ipset to spell members that only ipset can spell: ranges, names of hosts and services, protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..engine.errors import EngineError
from ..engine.kernel import ipset
from ..engine.kernel.command import run
from ..engine.kernel.ipset.replace import contents
from ..engine.kernel.ipset.tool import blamed, complaint
from ..engine.kernel.scratch import in_scratch
from .ipset_lines import Lines

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Callable

    from ..engine.model.ipset import IPSet
    from ..engine.model.step import Step
    from ..engine.plan import Plan
    from .ipset_compare import Given


class Making(NamedTuple):
    """Set to create in a scratch namespace."""

    name: str
    header: IPSet
    lines: Lines


def ask(unclear: Collection[Given]) -> dict[str, Given] | None:
    """Return the given sets by name, with members in ipset's spelling; None if no scratch namespace is possible.

    Raises:
        EngineError: the kernel refuses a set or a member; the text names it, and the member's position.
    """
    making = [Making(each.name, each.wanted_header, each.members) for each in unclear]
    making += [Making(_gone(index), each.wanted_header, each.gone) for index, each in enumerate(unclear)]

    def made() -> dict[str, list[str]]:
        make(making)
        return {name: sorted(saved.members()) for name, saved in ipset.read_saved().items()}

    answers = in_scratch(made)
    if answers is None:
        return None
    return {
        each.name: each._replace(
            members=Lines.of(answers[each.name], _at(f"{each.option_path}.members")),
            gone=Lines.of(answers[_gone(index)], _at(f"{each.option_path}.absent_members")),
        )
        for index, each in enumerate(unclear)
    }


def _at(option_path: str) -> Callable[[int], str]:
    return lambda _index: option_path


def try_out(made: Plan) -> None:
    """Create the sets of a plan in a scratch namespace, so that check mode reports a set that the kernel refuses.

    Raises:
        EngineError: the kernel refuses a set, or a member of a set that gets another header.
    """
    sets = [_making(step, made.steps) for step in made.steps if step.kind == "set" and step.after is not None]
    if sets:
        in_scratch(lambda: make(sets))


def _making(step: Step, steps: list[Step]) -> Making:
    """Return the set to create, with the members to try out.

    A new set has none: its members were checked when they were spelled. A list:set has none: its members need the sets
    that they name.
    """
    texts: list[str] = []
    if step.before is not None and step.after.type != "list:set":
        members = [other for other in steps if other.kind == "member" and other.key.set == step.key]
        texts = [f"{member} {options}".rstrip() for member, options in contents(step, members).items()]
    return Making(step.key, step.after, Lines.of(texts, lambda _index: f"what set {step.key} would hold"))


def _gone(index: int) -> str:
    return f"\x01{index}"  # a name that no task gives to a set


def make(making: list[Making]) -> None:
    """Create sets in this namespace.

    Raises:
        EngineError: the kernel refuses a set or a member, or a member is listed twice; the text names it.
    """
    refused = _refusal(making)
    if refused is None:
        return
    which, index, why = refused
    if index is None:
        raise EngineError(f"set {which.name}: {which.header.text()}: {why}")
    if "already added" in why:
        first = _same_as(which, index)
        raise EngineError(
            f"{which.lines.called(index)} and {which.lines.called(first)} are the same; name each item once"
        )
    text, option_path = which.lines.texts[index], which.lines.option_path(index)
    raise EngineError(f"{option_path}: member {text!r} of set {which.name} ({which.header.type}): {why}")


def _refusal(making: list[Making]) -> tuple[Making, int | None, str] | None:
    """Create sets; return the refused set, the index of its refused member and the reason, or None.

    The index is None if the kernel refuses the set itself. ``ipset restore`` runs without ``-exist``, so that a
    repeated member is refused.
    """
    lines: list[tuple[str, Making, int | None]]
    lines = [(f"create {each.name} {each.header.text()}", each, None) for each in making]
    for each in making:
        lines += [(f"add {each.name} {text}", each, index) for index, text in enumerate(each.lines.texts)]
    ended = run(["ipset", "restore"], "".join(f"{line[0]}\n" for line in lines))
    if not ended.status:
        return None
    refused = complaint(ended.errors)
    number = refused.line if refused.line >= 0 else blamed([line[0] for line in lines])
    _text, which, index = lines[number]
    return which, index, refused.text


def _same_as(which: Making, index: int) -> int:
    """Return the index of the earlier member that is the same as that at ``index``, by binary search."""
    lines, low, high, probe = which.lines.texts, 0, index, 0
    while high - low > 1:
        middle, probe = (low + high) // 2, probe + 1
        texts = [*lines[low:middle], lines[index]]
        if _refusal([Making(f"probe-{probe}", which.header, Lines.of(texts, which.lines.option_path))]) is None:
            low = middle
        else:
            high = middle
    return low
