# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocation of virtual servers to Services: one Service holds each, the others that claim it wait.

A claim is ranked by its class first: cluster IP, node port, load balancer address, external IP. API server and load
balancers assign the first three, while a user may write any external IP. Within a class, the claim wins that this node
saw in an earlier turn (see :meth:`VipAllocator.advance`), or that held the virtual server before a restart
(:meth:`VipAllocator.resume`). Claims that were first seen in the same turn are ranked by the Service's creation time,
then by namespace and name. So the order of events within a turn does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest

from ..model.ipvs import VirtualServerKey
from .service_vips import Contribution, Name, Origin, ServiceVip, conflict
from .union import Union

Age = tuple[str, str, str]  # creation time, then namespace and name
NEVER: Age = ("", "", "")
VipHolders = Mapping[VirtualServerKey, Name]  # virtual server -> the Service that holds it
_Rank = tuple[int, int, Age]
_EARLIER = 0  # the turn of a holder that held the virtual server before the present turn
_REMEMBERED = (Origin.LOAD_BALANCER, Origin.EXTERNAL_IP)  # the API server assigns the others only once


class VipAllocator:
    """Gives each virtual server to one Service, and adds that Service's claim to the union.

    Args:
        union: the items of all held claims.
        contributions: the claims of each Service.
        ages: the age of each Service.
    """

    def __init__(self, union: Union, contributions: Mapping[Name, Contribution], ages: Mapping[Name, Age]) -> None:
        self._union = union
        self._contributions = contributions
        self._ages = ages
        self._turn = _EARLIER + 1
        self._holders: dict[VirtualServerKey, Name] = {}
        self._new: set[VirtualServerKey] = set()  # held by a claim of the present turn
        self._waiting: dict[VirtualServerKey, dict[Name, int]] = {}  # with the turn in which each claim was first seen
        self._contested: dict[Name, set[VirtualServerKey]] = {}
        self._resumed_holders: dict[VirtualServerKey, Name] = {}
        self._remembered: dict[VirtualServerKey, Name] = {}
        self._unwritten: set[VirtualServerKey] = set()  # whose remembered holder may have changed

    def get(self, key: VirtualServerKey | None) -> Name | None:
        """Return the Service that holds a virtual server, None if there is none."""
        return self._holders.get(key) if key is not None else None

    def conflicts(self) -> Iterator[tuple[Name, list[str]]]:
        """Yield the Services whose claims another one holds, with one sentence for each field and value."""
        for name, keys in self._contested.items():
            claims = self._contributions[name].claims
            sentences = []
            for key in sorted(keys):
                holder = self._holders[key]
                sentences.append(conflict(name, key, claims[key], holder, self._contributions[holder].claims[key]))
            yield name, list(dict.fromkeys(sentences))

    def contested(self) -> dict[Origin, int]:
        """Count the claims that wait, by class."""
        counts = dict.fromkeys(Origin, 0)
        for name, keys in self._contested.items():
            for key in keys:
                counts[self._contributions[name].claims[key].origin] += 1
        return counts

    def losers(self, most: int) -> dict[Name, int]:
        """Return the first Services, by name, that do not get what they claim; each with its number of claims."""
        return {name: len(self._contested[name]) for name in nsmallest(most, self._contested)}

    # across turns and restarts

    def advance(self) -> None:
        """End the turn: new claims rank after all known ones."""
        self._turn += 1
        self._new.clear()
        self._unwritten.update(key for key in self._resumed_holders if key not in self._holders)
        self._resumed_holders = {}

    def resume(self, saved_holders: VipHolders) -> None:
        """Rank the claims of these holders before all claims of the present turn.

        The holders are those that :meth:`take_holders` gave before a restart.
        """
        self._resumed_holders = dict(saved_holders)
        self._remembered = dict(saved_holders)
        for key, name in saved_holders.items():
            part = self._contributions.get(name)
            if part is not None and key in part.claims:
                self.release(name, key, part.claims[key])
                self.request(name, key, part.claims[key])

    def take_holders(self) -> dict[VirtualServerKey, Name | None]:
        """Return the changed holders of external IPs and load balancer addresses since the last call.

        The value is None for a virtual server that no longer has a holder.
        """
        changes: dict[VirtualServerKey, Name | None] = {}
        for key in self._unwritten:
            holder = self._holders.get(key)
            if holder is not None and self._contributions[holder].claims[key].origin not in _REMEMBERED:
                holder = None
            if holder != self._remembered.get(key):
                changes[key] = holder
                if holder is None:
                    del self._remembered[key]
                else:
                    self._remembered[key] = holder
        self._unwritten.clear()
        return changes

    # claims

    def request(self, name: Name, key: VirtualServerKey, claim: ServiceVip) -> None:
        """Add a claim; the Service gets the virtual server if no claim ranks before this one."""
        since = _EARLIER if self._resumed_holders.get(key) == name else self._turn
        if key in self._holders:
            self._compete(name, key, claim, since)
        else:
            self._hold(name, key, claim, since)
            self._union.add(key, claim)

    def release(self, name: Name, key: VirtualServerKey, claim: ServiceVip) -> None:
        """Drop a claim; the first in rank of the waiting claims gets the virtual server."""
        if self._holders[key] != name:
            self._wait_no_more(name, key)
        elif key in self._waiting:
            heir = self._first_waiting(key)
            self._inherit(heir, key)
            self._union.replace(key, claim, self._contributions[heir].claims[key])
        else:
            del self._holders[key]
            self._new.discard(key)
            if key in self._remembered:
                self._unwritten.add(key)
            self._union.remove(key, claim)

    def change(self, name: Name, key: VirtualServerKey, old: ServiceVip, new: ServiceVip) -> None:
        """Replace a claim of a Service; the new claim inherits the turn of the old one."""
        if self._holders[key] == name:
            if old.origin is not new.origin:
                self._unwritten.add(key)
                if key in self._waiting:
                    since = self._since(key)
                    heir = self._first_waiting(key)
                    if self._waiting_rank(heir, key) < (new.origin, since, self._ages[name]):
                        self._inherit(heir, key)
                        self._wait(name, key, since)
                        self._union.replace(key, old, self._contributions[heir].claims[key])
                        return
            self._union.replace(key, old, new)
        elif old.origin is not new.origin:
            since = self._waiting[key][name]
            self._wait_no_more(name, key)
            self._compete(name, key, new, since)

    def _compete(self, name: Name, key: VirtualServerKey, claim: ServiceVip, since: int) -> None:
        holder = self._holders[key]
        held = self._contributions[holder].claims[key]
        if (claim.origin, since, self._ages[name]) < (held.origin, self._since(key), self._ages[holder]):
            self._wait(holder, key, self._since(key))
            self._hold(name, key, claim, since)
            self._union.replace(key, held, claim)
        else:
            self._wait(name, key, since)

    def _since(self, key: VirtualServerKey) -> int:
        """Return the turn of the holder's claim."""
        return self._turn if key in self._new else _EARLIER

    def _hold(self, name: Name, key: VirtualServerKey, claim: ServiceVip, since: int) -> None:
        self._holders[key] = name
        (self._new.add if since == self._turn else self._new.discard)(key)
        if claim.origin in _REMEMBERED or key in self._remembered:
            self._unwritten.add(key)

    def _first_waiting(self, key: VirtualServerKey) -> Name:
        return min(self._waiting[key], key=lambda name: self._waiting_rank(name, key))

    def _waiting_rank(self, name: Name, key: VirtualServerKey) -> _Rank:
        return self._contributions[name].claims[key].origin, self._waiting[key][name], self._ages[name]

    def _inherit(self, heir: Name, key: VirtualServerKey) -> None:
        since = self._waiting[key][heir]
        self._wait_no_more(heir, key)
        self._hold(heir, key, self._contributions[heir].claims[key], since)

    def _wait(self, name: Name, key: VirtualServerKey, since: int) -> None:
        self._waiting.setdefault(key, {})[name] = since
        self._contested.setdefault(name, set()).add(key)

    def _wait_no_more(self, name: Name, key: VirtualServerKey) -> None:
        del self._waiting[key][name]
        if not self._waiting[key]:
            del self._waiting[key]
        self._contested[name].discard(key)
        if not self._contested[name]:
            del self._contested[name]
