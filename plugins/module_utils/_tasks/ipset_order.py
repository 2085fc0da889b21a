# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Members of a list:set: sets that must exist, in an order that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.errors import InputError
from .ipset_lines import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.kernel.ipset import Saved
    from ..engine.model.ipset import IPSet
    from .ipset_compare import Given


def arranged(given: Given, saved: Saved | None, types: Mapping[str, str]) -> tuple[Given, IPSet | None]:
    """Return the task's list:set without ``before`` and ``after``, and the header of the present set.

    The kernel appends members and never moves one. If appending does not lead to the wanted order, both headers get an
    order. Then they differ, and a list in the wanted order replaces the present one. A new list is filled in the wanted
    order.

    Args:
        given: the list:set as the task gives it.
        saved: the list:set in the kernel, or None.
        types: the types of all sets that will exist, by name.

    Raises:
        InputError: a member is no set that will exist, or is itself a list; or ``before`` or ``after`` names a set that
            is not in the list.
    """
    present = [text.partition(" ")[0] for text in saved.members()] if saved is not None else []
    gone = {text.partition(" ")[0] for text in given.gone.texts}
    wanted = [] if given.exact else [member for member in present if member not in gone]
    plain = []
    for index, text in enumerate(given.members.texts):
        member, where, other, options = _apart(text)
        _check(given.members.option_path(index), member, types)
        plain.append(f"{member} {options}".rstrip())
        if not where:
            if member not in wanted:
                wanted.append(member)
            continue
        if other not in wanted or other == member:
            raise InputError(given.members.option_path(index), where, other, "another set in this list")
        if member in wanted:
            wanted.remove(member)
        wanted.insert(wanted.index(other) + (where == "after"), member)
    if saved is None:
        order = sorted(range(len(plain)), key=lambda index: wanted.index(plain[index].partition(" ")[0]))
        lines = Lines.of([plain[index] for index in order], lambda index: given.members.option_path(order[index]))
        return given._replace(members=lines), None
    given = given._replace(members=Lines.of(plain, given.members.option_path))
    kept = [member for member in present if member in wanted]
    appended = [member for member in (text.partition(" ")[0] for text in plain) if member not in present]
    if [*kept, *appended] == wanted:
        return given, saved.header
    return (
        given._replace(header=given.wanted_header._replace(order=tuple(wanted))),
        saved.header._replace(order=tuple(present)),
    )


def positioned_options(saved: Saved) -> dict[str, str]:
    """Return the options of a list's members, each with its position, from :class:`Saved`.

    With the position, an undo restores a removed member in its order. An undo runs backwards, so it restores the
    member behind it first.
    """
    texts = saved.members()
    following = [f"before {text.partition(' ')[0]}" for text in texts[1:]]
    return {
        member: f"{position} {options}".strip()
        for (member, _blank, options), position in zip((text.partition(" ") for text in texts), [*following, ""])
    }


def _apart(text: str) -> tuple[str, str, str, str]:
    """Return a member, ``before``, ``after`` or "", the other member that this refers to, and the options."""
    words = text.split(" ", 3)
    if len(words) > 2 and words[1] in ("before", "after"):
        return words[0], words[1], words[2], words[3] if len(words) > 3 else ""
    return words[0], "", "", text.partition(" ")[2]


def _check(option_path: str, member: str, types: Mapping[str, str]) -> None:
    if member not in types:
        raise InputError(option_path, "member", member, "a set that exists or that the task creates")
    if types[member] == "list:set":
        raise InputError(option_path, "member", member, "a set of another type: a list cannot hold a list")
