# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Items of every node, independent of Services: link, sets, chains, jumps, sysctls, and routes of the service networks.

Services determine two properties only: the size of each set, and the rules in the chains. A rule on an empty set is
left out.
"""

from __future__ import annotations

from typing import Any

from ..model import State
from ..model.iptables import ChainKey, Rules
from ..model.link import STATIC, Link, RouteKey
from . import rules, sets
from .context import layout, service_cidrs
from .node_addresses import DUMMY, LOOPBACK
from .node_facts import NodeFacts
from .settings import Config
from .sysctls import sysctls
from .union import Union


class StaticState:
    """The static items, and those of them that changed since :meth:`take`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._items: State = {}
        self._changes: State = {}
        self._filled: dict[int, frozenset[str]] = {}
        self._kinds = {
            sets.set_name(fam, name): (fam, name, kind)
            for fam, name, kind in sets.wanted_sets(config.no_endpoints == "reject")
        }
        self._want("link", {DUMMY: Link()})
        self._want("jump", {**rules.jumps(4), **rules.jumps(6)})
        self._want("set", {name: sets.header(fam, kind) for name, (fam, _base, kind) in self._kinds.items()})

    def use(self, facts: NodeFacts) -> None:
        """Use new facts; :meth:`follow` updates the chains."""
        self._layouts = {fam: layout(fam, self._config, facts) for fam in (4, 6)}
        self._filled.clear()
        self._want("sysctl", sysctls(self._config, facts))
        nets = [net for fam in (4, 6) for net in service_cidrs(fam, self._config, facts)]
        self._want("route", {RouteKey(LOOPBACK, net): STATIC for net in nets})

    def state(self) -> State:
        """Return all items; the caller may change the dictionaries."""
        return {kind: dict(items) for kind, items in self._items.items()}

    def take(self) -> State:
        """Return the items changed since the last call: the new value, or None for unwanted ones."""
        changes = self._changes
        self._changes = {}
        return changes

    def follow(self, union: Union) -> None:
        """Size the sets for their members, and let chains refer to sets with members only."""
        if union.resized:
            headers = self._items["set"]
            for name in union.resized:
                fam, _base, kind = self._kinds[name]
                self._put("set", name, sets.header(fam, kind, union.set_sizes[name]), headers.get(name))
        chains: dict[ChainKey, Rules] = {}
        for fam in (4, 6):
            changed = union.rules_changed(fam)
            if not (changed or union.resized or fam not in self._filled):
                continue
            filled = frozenset(
                base for name, (its, base, _kind) in self._kinds.items() if its == fam and union.set_sizes.get(name)
            )
            if changed or filled != self._filled.get(fam):
                self._filled[fam] = filled
                own = [rule for _key, its in sorted(union.rules[fam].items()) for rule in its]
                chains.update(rules.chains(self._layouts[fam], filled, own))
        union.resized.clear()
        before = self._items.setdefault("chain", {})
        for key, value in chains.items():
            self._put("chain", key, value, before.get(key))

    def _want(self, kind: str, items: dict[Any, Any]) -> None:
        before = dict(self._items.setdefault(kind, {}))
        for key, value in items.items():
            self._put(kind, key, value, before.pop(key, None))
        for key in before:
            del self._items[kind][key]
            self._changes.setdefault(kind, {})[key] = None

    def _put(self, kind: str, key: Any, value: Any, before: Any) -> None:
        if value != before:
            self._items[kind][key] = value
            self._changes.setdefault(kind, {})[key] = value
