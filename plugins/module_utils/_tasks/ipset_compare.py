# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Compare a task's set with the kernel's, and keep only the differences.

Members that the task spells exactly as ``ipset save`` prints them are compared as whole lines.
:mod:`.engine.syntax.ipset_member` spells the others as ipset does. :mod:`.ipset_ask` spells those that only ipset can
spell.
"""

from __future__ import annotations

from collections import deque
from itertools import filterfalse
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, NamedTuple

from ..engine.errors import EngineError, InputError
from ..engine.model.ipset import keeps_members, same_set
from .ipset_lines import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Callable

    from ..engine.kernel.ipset import Saved
    from ..engine.model.ipset import IPSet
    from ..engine.syntax.ipset_member import Member
    from .ipset_lines import Lines

    Spell = Callable[[str], "Member | None"]


class Given(NamedTuple):
    """Set as the task gives it, at its option path.

    ``header`` is the wanted header, or None if the set must be absent. ``members`` must be present, ``gone`` must be
    absent. With ``exact``, all other members must be absent, too.
    """

    option_path: str
    name: str
    header: IPSet | None
    members: Lines
    gone: Lines
    exact: bool

    @property
    def wanted_header(self) -> IPSet:
        """Wanted header of a set that must be present.

        Raises:
            ValueError: the set must be absent.
        """
        if self.header is None:
            raise ValueError(f"{self.subject()} has no wanted header: it shall be absent")
        return self.header

    def subject(self) -> str:
        """Return the set for an error: its option path and its name."""
        return f"{self.option_path} ({self.name})"


class Change(NamedTuple):
    """Desired header, and the differing members as desired and as present, text to options."""

    header: IPSet
    want: dict[str, str]
    have: dict[str, str]


class UnclearError(Exception):
    """Error for a member that only ipset itself can interpret or refuse.

    ``error`` is the error that is known without ipset, or None.
    """

    def __init__(self, error: InputError | None = None) -> None:
        super().__init__(str(error))
        self.error = error


def compare(given: Given, saved: Saved | None, spell: Spell | None = None) -> Change:
    """Return the :class:`Change` that the task asks for in one set.

    Args:
        given: the set as the task gives it, with a header.
        saved: the set in the kernel, None if it is absent.
        spell: converts a member's text to a Member, or to None if only ipset can; by default a :class:`Speller`.

    Raises:
        UnclearError: a member cannot be spelled.
        EngineError: a member is listed twice, or the set has no room for all members.
    """
    if not given.members and not given.gone and not given.exact and not _refills(given, saved):
        return Change(given.wanted_header, {}, {})
    steady = saved is not None and same_set(saved.header, given.wanted_header)
    rest = set(saved.lines()) if saved is not None else set()
    new = _strike_out(rest, given.members) if steady else None
    if steady and not new and not rest and not given.gone:
        return Change(given.wanted_header, {}, {})
    return _differing(given, saved, spell, new, rest)


def _refills(given: Given, saved: Saved | None) -> bool:
    """Tell whether no member of the present set can stay in the new one."""
    return saved is not None and not keeps_members(saved.header, given.wanted_header)


def _strike_out(rest: set[bytes], lines: Lines) -> set[bytes]:
    """Remove lines from ``rest``, each once; return those that are not in it, or that are repeated."""
    new, left = set(), iter(lines)
    while True:
        try:
            deque(map(rest.remove, left), 0)  # a loop in C, as there may be hundreds of thousands
        except KeyError as error:
            new.add(error.args[0])
        else:
            return new


def _differing(
    given: Given, saved: Saved | None, spell: Spell | None, new: set[bytes] | None, rest: set[bytes]
) -> Change:
    """Return the change, from the members that the task does not spell as ipset prints them.

    Args:
        given: as in :func:`compare`.
        saved: as in :func:`compare`.
        spell: as in :func:`compare`.
        new: the task's lines that the kernel does not have or that are repeated, None for all.
        rest: the kernel's lines that the task does not have; all if ``new`` is None.
    """
    from ..engine.model.member_options import same_options
    from ..engine.syntax.ipset_member import Speller

    spell, refill = spell or Speller(given.wanted_header), _refills(given, saved)
    left = dict(_apart(decoded(line[:-1])) for line in sorted(rest))
    texts = {index: decoded(line[:-1]) for index, line in enumerate(given.members) if new is None or line in new}
    named = {index: _spelled(given.members, index, text, spell) for index, text in texts.items()}
    going = {index: _spelled(given.gone, index, text, spell) for index, text in enumerate(given.gone.texts)}
    gone = {each.member for each in going.values()}
    about = {each.member for each in named.values()} | gone
    twice = len(about) < len(named) + len(going)
    if new is not None and saved is not None and not twice:
        # Without options, a repeated member is a repeated line, and so in ``new``, unless it was respelled.
        respelled = {each.member for index, each in named.items() if each.member != texts[index]} | gone
        twice = _names(given.members, new, respelled if saved.bare() else about)
    if twice:
        _refuse_repetition((given.members, named), (given.gone, going))
    _check_room(given)
    want = {
        member: options
        for member, options in named.values()
        if refill or member not in left or not same_options(left[member], options)
    }
    if refill:
        stay = {} if given.exact else {member: options for member, options in left.items() if member not in gone}
        return Change(given.wanted_header, {**stay, **want}, left)
    if given.exact:
        have = {
            member: options
            for member, options in left.items()
            if member in want or member not in about or member in gone
        }
    else:
        have = {member: left[member] for member in (*want, *gone) if member in left}
    return Change(given.wanted_header, want, have)


def _apart(text: str) -> tuple[str, str]:
    member, _blank, options = text.partition(" ")
    return member, options


def plainly(text: str) -> Member:
    """Return a member in the given spelling."""
    from ..engine.syntax.ipset_member import Member

    return Member(*_apart(text))


def _spelled(lines: Lines, index: int, text: str, spell: Spell) -> Member:
    try:
        member = spell(text)
    except InputError as error:
        raise UnclearError(InputError(lines.option_path(index), error.field, error.value, error.expected)) from error
    if member is None:
        raise UnclearError
    return member


def _names(lines: Lines, new: set[bytes], members: Collection[str]) -> bool:
    """Tell whether a line outside of ``new``, which needed no spelling, names one of the members."""
    texts = {encoded(member) for member in members}
    # a loop in C, as in _strike_out
    words = map(methodcaller("split", None, 1), filterfalse(new.__contains__, lines))
    return bool(texts) and any(map(texts.__contains__, map(itemgetter(0), words)))


def _refuse_repetition(*named: tuple[Lines, Mapping[int, Member]]) -> None:
    """Raise EngineError for the first repeated member in Lines, each with its spelled members by index."""
    seen: dict[str, tuple[Lines, int]] = {}
    for lines, spelled in named:
        for index, text in enumerate(lines.texts):
            member = spelled[index].member if index in spelled else _apart(text)[0]
            if member in seen:
                first, first_index = seen[member]
                raise EngineError(
                    f"{lines.called(index)} and {first.called(first_index)} are the same; name each item once"
                )
            seen[member] = lines, index


def _check_room(given: Given) -> None:
    count = len(given.members)
    for name in ("maxelem", "size"):
        limit = given.wanted_header.option(name)
        forced = any(option == "forceadd" for option, _value in given.wanted_header.options)
        if limit and count > int(limit) and not forced:
            raise InputError(given.subject(), name, limit, f"room for its {count} members")
