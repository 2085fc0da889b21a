# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""What a task says about one set, against what the kernel holds: only what differs goes on.

A member that stands in the task exactly as ``ipset save`` prints it is dealt with by set arithmetic, without a look at it. The rest is
spelled as ipset does (:mod:`.engine.model.ipset_member`); what only ipset itself can spell is left to :mod:`._ipset_ask`.
"""

from __future__ import annotations

from itertools import compress
from operator import not_
from typing import NamedTuple

from .engine.errors import EngineError, InputError
from .engine.model.ipset import keeps_members, same_set
from .engine.model.ipset_member import Member, Speller, same_options


class Given(NamedTuple):
    """A set as the task gives it.

    ``header`` is the wanted one; None: the set shall not be. ``members`` and ``gone`` are Lines of members that shall and shall
    not be. Where ``exact``, other members go as well.
    """

    place: str
    name: str
    header: object
    members: object
    gone: object
    exact: bool

    def subject(self):
        """Return how to call the set in errors."""
        return f"{self.place} ({self.name})"


class Change(NamedTuple):
    """The header that is wanted, and the members in question: as they shall be and as they are, text to options."""

    header: object
    want: dict
    have: dict


class UnclearError(Exception):
    """Only ipset itself can tell what a member means, or that it cannot be one; ``error`` is what is wrong as far as one knows."""

    def __init__(self, error=None):
        super().__init__(str(error))
        self.error = error


def compare(given, saved, spell=None):
    """Return the :class:`Change` that the task wants of one set.

    Args:
        given: the set as the task gives it, with a header.
        saved: the set as the kernel holds it, None if it does not.
        spell: from a member's text to a Member; by default as far as that can be known without asking ipset.

    Raises:
        UnclearError: a member cannot be spelled.
        EngineError: a member is there twice, or there are too many.
    """
    texts, header = given.members.texts, given.header
    refill = saved is not None and not keeps_members(saved.header, header)
    if not texts and not given.gone.texts and not given.exact and not refill:
        return Change(header, {}, {})
    steady = saved is not None and same_set(saved.header, header)
    present = set(saved.members()) if saved is not None else set()
    rest = present.difference(texts) if steady else present
    verbatim = len(present) - len(rest)
    new = () if verbatim == len(texts) else range(len(texts))
    if new and steady:
        new = list(compress(new, map(not_, map(present.__contains__, texts))))  # without a line of Python for each
    if verbatim + len(new) != len(texts):
        _refuse_repetition(given.members)
    left = dict(_apart(text) for text in sorted(rest))
    named = _Verbatim(saved, present, rest) if steady else ()
    spell = spell or Speller(header)
    want, places = {}, {}
    for index in new:
        member, options = _spelled(given.members, index, spell)
        _once(given, given.members, index, member, places, named)
        if refill or member not in left or not same_options(left[member], options):
            want[member] = options
    going = {}
    for index in range(len(given.gone.texts)):
        member, _options = _spelled(given.gone, index, spell)
        _once(given, given.gone, index, member, places, named)
        going[member] = None
    _check_room(given, len(texts))
    if given.exact:
        have = {member: options for member, options in left.items() if member in want or member not in places or member in going}
    else:
        have = {member: left[member] for member in (*want, *going) if member in left}
    if refill:
        have = left
        if not given.exact:
            want = {**{member: options for member, options in left.items() if member not in going}, **want}
    return Change(header, want, have)


def _apart(text):
    member, _blank, options = text.partition(" ")
    return member, options


def plainly(text):
    """Return a member as it is written."""
    return Member(*_apart(text))


def _spelled(lines, index, spell):
    try:
        found = spell(lines.texts[index])
    except InputError as error:
        raise UnclearError(InputError(lines.place(index), error.field, error.value, error.expected)) from error
    if found is None:
        raise UnclearError
    return found


class _Verbatim:
    """The members that the task names exactly as ipset does; only looked for if there is a need."""

    def __init__(self, saved, present, rest):
        self._bare, self._present, self._rest = saved.bare, present, rest
        self._members = None

    def __contains__(self, member):
        if self._bare:
            return member in self._present and member not in self._rest
        if self._members is None:
            self._members = {_apart(text)[0] for text in self._present - self._rest}
        return member in self._members


def _once(given, lines, index, member, places, named):
    """Remember where a member stands; raises an EngineError if it stood somewhere before."""
    if member in named:
        earlier = next(at for at, text in enumerate(given.members.texts) if _apart(text)[0] == member)
        first = given.members.called(earlier)
    elif member in places:
        first = places[member]
    else:
        places[member] = lines.called(index)
        return
    raise EngineError(f"{lines.called(index)} and {first} are the same; name each thing once")


def _refuse_repetition(lines):
    seen = {}
    for index, text in enumerate(lines.texts):
        if text in seen:
            raise EngineError(f"{lines.called(index)} and {lines.called(seen[text])} are the same; name each thing once")
        seen[text] = index


def _check_room(given, count):
    for name in ("maxelem", "size"):
        limit = given.header.option(name)
        forced = any(option == "forceadd" for option, _value in given.header.options)
        if limit and count > int(limit) and not forced:
            raise InputError(given.subject(), name, limit, f"room for its {count} members")
