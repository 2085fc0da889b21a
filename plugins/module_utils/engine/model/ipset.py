# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets: headers and members, in the words of ``ipset save``."""

from __future__ import annotations

from typing import NamedTuple

# Options that the kernel chooses or changes by itself; no task sets them.
VOLATILE_OPTIONS = frozenset(("hashsize", "bucketsize", "initval"))

# Options that decide which members are valid, and what they match.
_MEANING = ("family", "range", "netmask", "bitmask", "markmask")


class IPSet(NamedTuple):
    """A set's type and creation options, in the order in which ``ipset save`` prints them.

    For example ``IPSet("hash:ip,port", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536")))``; options
    without a value (``counters``, ``comment``) have the value "". ``order`` has the members of a list:set in their
    desired order if that must change; otherwise it is empty.
    """

    type: str
    options: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] = ()

    def option(self, name: str, default: str = "") -> str:
        """Return the value of one option."""
        for key, value in self.options:
            if key == name:
                return value
        return default

    def text(self) -> str:
        """Return ``TYPE OPTIONS`` as behind ``create NAME``."""
        return " ".join([self.type] + [f"{key} {value}" if value else key for key, value in self.options])


class MemberKey(NamedTuple):
    """A member: its set and its canonical text, for example ``10.96.0.10,tcp:80``."""

    set: str
    member: str


def same_set(one: IPSet, other: IPSet) -> bool:
    """Tell whether two headers are the same, except for options that the kernel chooses."""
    return one.type == other.type and one.order == other.order and _stable(one) == _stable(other)


def keeps_members(one: IPSet, other: IPSet) -> bool:
    """Tell whether the members of a set with one header mean the same in a set with the other."""
    return one.type == other.type and all(one.option(name) == other.option(name) for name in _MEANING)


def _stable(value: IPSet) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in value.options if pair[0] not in VOLATILE_OPTIONS)
