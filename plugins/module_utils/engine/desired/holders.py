# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a virtual server that several Services claim: the oldest of them; the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..model.ipvs import VirtualServerKey
from .contribution import Claim, Contribution, Name, conflict
from .union import Union

Age = tuple[str, str, str]  # creation time, then namespace and name
NEVER: Age = ("", "", "")


class Holders:
    """Gives each virtual server to one Service, and adds that one's claim to the union.

    Args:
        union: what the held claims add up to.
        contributions: what each Service claims now.
        ages: how old each is.
    """

    def __init__(self, union: Union, contributions: Mapping[Name, Contribution], ages: Mapping[Name, Age]) -> None:
        self._union = union
        self._contributions = contributions
        self._ages = ages
        self._holders: dict[VirtualServerKey, Name] = {}
        self._waiting: dict[VirtualServerKey, set[Name]] = {}
        self._contested: dict[Name, set[VirtualServerKey]] = {}

    def get(self, key: VirtualServerKey | None) -> Name | None:
        """Return who has a virtual server, None if nobody has."""
        return self._holders.get(key) if key is not None else None

    def conflicts(self) -> Iterator[tuple[Name, list[str]]]:
        """Yield the Services that do not get what they claim, each with its sentences."""
        for name, keys in self._contested.items():
            claims = self._contributions[name].claims
            yield name, list(dict.fromkeys(conflict(name, key, claims[key], self._holders[key]) for key in sorted(keys)))

    def request(self, name: Name, key: VirtualServerKey, claim: Claim) -> None:
        """Give a virtual server to a Service, if no older one has it."""
        holder = self._holders.get(key)
        if holder is None:
            self._holders[key] = name
            self._union.add(key, claim)
        elif self._ages[name] < self._ages[holder]:
            self._holders[key] = name
            self._union.replace(key, self._contributions[holder].claims[key], claim)
            self._wait(holder, key)
        else:
            self._wait(name, key)

    def release(self, name: Name, key: VirtualServerKey, claim: Claim) -> None:
        """Take a virtual server away from a Service; the oldest of those that wait gets it."""
        if self._holders[key] != name:
            self._wait_no_more(name, key)
        elif key in self._waiting:
            heir = min(self._waiting[key], key=self._ages.__getitem__)
            self._wait_no_more(heir, key)
            self._holders[key] = heir
            self._union.replace(key, claim, self._contributions[heir].claims[key])
        else:
            del self._holders[key]
            self._union.remove(key, claim)

    def _wait(self, name: Name, key: VirtualServerKey) -> None:
        self._waiting.setdefault(key, set()).add(name)
        self._contested.setdefault(name, set()).add(key)

    def _wait_no_more(self, name: Name, key: VirtualServerKey) -> None:
        self._waiting[key].discard(name)
        if not self._waiting[key]:
            del self._waiting[key]
        self._contested[name].discard(key)
        if not self._contested[name]:
            del self._contested[name]
