# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The union of contributions, as items. How many claims want an item is counted, never searched for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from ..model import Items, State
from ..model.ipset import MemberKey
from ..model.ipvs import RealServer, RealServerKey, VirtualServerKey
from ..model.link import STATIC, AddressKey, RouteKey
from .service_vips import ChainRule, ServiceVip

Item = tuple[str, Any]  # kind, key
_KINDS = ("member", "virtual_server", "real_server", "address", "route")
_BINDINGS: dict[type, tuple[str, Any]] = {AddressKey: ("address", True), RouteKey: ("route", STATIC)}


def shared_items(claims: Iterable[ServiceVip], members: Iterable[MemberKey]) -> Iterator[Item]:
    """Yield the items of these claims and members that several claims may want."""
    for claim in claims:
        if claim.address is not None:
            yield _BINDINGS[type(claim.address)][0], claim.address
        for member in claim.members:
            yield "member", member
    for member in members:
        yield "member", member


class Union:
    """The items of all held claims, the number of claims for each, and the changes since :meth:`take`."""

    def __init__(self) -> None:
        self.items: State = {kind: {} for kind in _KINDS}
        self.set_sizes: dict[str, int] = {}
        self.resized: set[str] = set()
        self.rules: dict[int, dict[VirtualServerKey, tuple[ChainRule, ...]]] = {4: {}, 6: {}}
        self._rules_changed = {4: True, 6: True}
        self._changes: State = {kind: {} for kind in _KINDS}
        self._again: dict[Hashable, int] = {}  # further claims for an item, beyond the first
        self._weights: dict[int, RealServer] = {}
        self._served: set[VirtualServerKey] = set()

    def take(self) -> State:
        """Return the items changed since the last call: the new value, or None for unwanted ones."""
        changes = self._changes
        self._changes = {kind: {} for kind in _KINDS}
        return changes

    def take_served(self) -> set[VirtualServerKey]:
        """Return the virtual servers whose serving endpoints changed since the last call (see :class:`ServiceVip`)."""
        served, self._served = self._served, set()
        return served

    def rules_changed(self, fam: int) -> bool:
        """Tell, once, whether the rules that come from Services have changed."""
        changed = self._rules_changed[fam]
        self._rules_changed[fam] = False
        return changed

    def add(self, key: VirtualServerKey, claim: ServiceVip) -> None:
        """Add a claim's items."""
        self._set("virtual_server", key, claim.server)
        reals, changes = self.items["real_server"], self._changes["real_server"]
        for address, port, weight in claim.targets:
            real = RealServerKey(key, address, port)
            reals[real] = changes[real] = self._real(weight)
        self.add_members(claim.members)
        self._add_address(claim)
        if claim.rules:
            self._set_rules(key, claim.rules)
        if claim.serving:
            self._served.add(key)

    def remove(self, key: VirtualServerKey, claim: ServiceVip) -> None:
        """Remove a claim's items."""
        self._drop("virtual_server", key)
        for address, port, _weight in claim.targets:
            self._drop("real_server", RealServerKey(key, address, port))
        self.remove_members(claim.members)
        self._remove_address(claim)
        if claim.rules:
            self._set_rules(key, ())

    def replace(self, key: VirtualServerKey, old: ServiceVip, new: ServiceVip) -> None:
        """Replace a claim's items by another's; items of both stay untouched."""
        if old.server != new.server:
            self._set("virtual_server", key, new.server)
        if old.targets != new.targets:
            before, after = set(old.targets), set(new.targets)
            kept = {(address, port) for address, port, _weight in after}
            for address, port, _weight in before - after:
                if (address, port) not in kept:
                    self._drop("real_server", RealServerKey(key, address, port))
            for address, port, weight in after - before:
                self._set("real_server", RealServerKey(key, address, port), self._real(weight))
        self.replace_members(old.members, new.members)
        if old.address != new.address:
            self._remove_address(old)
            self._add_address(new)
        if old.rules != new.rules:
            self._set_rules(key, new.rules)
        if old.serving != new.serving:
            self._served.add(key)

    def replace_members(self, old: tuple[MemberKey, ...], new: tuple[MemberKey, ...]) -> None:
        """Replace the members of a claim."""
        if old != new:
            before, after = set(old), set(new)
            self.add_members(after - before)
            self.remove_members(before - after)

    def add_members(self, members: Iterable[MemberKey]) -> None:
        """Count one more claim for members."""
        held, changes, again, sizes = self.items["member"], self._changes["member"], self._again, self.set_sizes
        for key in members:
            if key in held:
                again[key] = again.get(key, 0) + 1
            else:
                held[key] = changes[key] = ""
                sizes[key[0]] = sizes.get(key[0], 0) + 1
                self.resized.add(key[0])

    def remove_members(self, members: Iterable[MemberKey]) -> None:
        """Count one claim less for members."""
        for key in members:
            if not self._still_wanted(key):
                self._drop("member", key)
                self.set_sizes[key.set] -= 1
                self.resized.add(key.set)

    def _still_wanted(self, key: Hashable) -> bool:
        times = self._again.get(key, 0)
        if times > 1:
            self._again[key] = times - 1
        elif times:
            del self._again[key]
        return times > 0

    def _add_address(self, claim: ServiceVip) -> None:
        key = claim.address
        if key is None:
            return
        kind, value = _BINDINGS[type(key)]
        if key in self.items[kind]:
            self._again[key] = self._again.get(key, 0) + 1
        else:
            self._set(kind, key, value)

    def _remove_address(self, claim: ServiceVip) -> None:
        if claim.address is not None and not self._still_wanted(claim.address):
            self._drop(_BINDINGS[type(claim.address)][0], claim.address)

    def _set_rules(self, key: VirtualServerKey, rules: tuple[ChainRule, ...]) -> None:
        self._rules_changed[key.family] = True
        if rules:
            self.rules[key.family][key] = rules
        else:
            del self.rules[key.family][key]

    def _real(self, weight: int) -> RealServer:
        server = self._weights.get(weight)
        if server is None:
            server = self._weights[weight] = RealServer(weight)
        return server

    def _set(self, kind: str, key: Any, value: Any) -> None:
        self.items[kind][key] = value
        self._changes[kind][key] = value

    def _drop(self, kind: str, key: Any) -> None:
        items: Items = self.items[kind]
        del items[key]
        self._changes[kind][key] = None
