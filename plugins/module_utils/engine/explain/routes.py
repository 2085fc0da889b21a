# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routing decisions: policy rules and routing tables, with the longest prefix and the lowest metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..model.net import contains, family, full_prefix, pack

LOCAL_TABLE, MAIN_TABLE, DEFAULT_TABLE = 255, 254, 253
_UNREACHABLE = ("blackhole", "unreachable", "prohibit", "throw")


class RouteEntry(NamedTuple):
    """One route. ``kind`` is ``unicast``, ``local``, ``broadcast``, ``multicast``, ``blackhole`` or ``unreachable``."""

    network: str
    kind: str = "unicast"
    link: str = ""
    gateway: str = ""
    source: str = ""
    metric: int = 0
    table: int = MAIN_TABLE

    @property
    def is_local(self) -> bool:
        """Tell whether the packet is for the node itself."""
        return self.kind == "local"

    @property
    def is_usable(self) -> bool:
        """Tell whether the packet can be sent."""
        return self.kind not in _UNREACHABLE


class PolicyRule(NamedTuple):
    """One policy rule (``ip rule``). "" and 0 match everything; ``others`` names selectors that are not judged."""

    family: int
    priority: int
    table: int
    source: str = ""
    destination: str = ""
    link: str = ""
    mark: int = 0
    mask: int = 0
    action: str = "lookup"
    others: str = ""


def usual_rules() -> tuple[PolicyRule, ...]:
    """Return the rules of a kernel that nobody has configured."""
    tables = ((0, LOCAL_TABLE), (32766, MAIN_TABLE), (32767, DEFAULT_TABLE))
    return tuple(PolicyRule(fam, priority, table) for fam in (4, 6) for priority, table in tables)


class Routes:
    """Routing tables of both families."""

    def __init__(self, entries: Iterable[RouteEntry], rules: Iterable[PolicyRule] = ()) -> None:
        self.entries = tuple(entries)
        self.rules = tuple(rules) or usual_rules()
        self._tables: dict[tuple[int, int], dict[int, dict[int, RouteEntry]]] = {}
        for entry in self.entries:
            base, _slash, length = entry.network.partition("/")
            prefixes = self._tables.setdefault((family(base), entry.table), {})
            nets = prefixes.setdefault(int(length), {})
            number = int.from_bytes(pack(base), "big") >> (full_prefix(family(base)) - int(length))
            present = nets.get(number)
            if present is None or entry.metric < present.metric:
                nets[number] = entry

    def lookup(self, destination: str, *, source: str = "", link: str = "", mark: int = 0) -> RouteEntry | None:
        """Return the route to a destination; None without one."""
        for rule in sorted(self.rules, key=lambda rule: rule.priority):
            if rule.family != family(destination) or rule.others:
                continue
            if rule.mask and mark & rule.mask != rule.mark:
                continue
            if rule.link and rule.link != (link or "lo"):
                continue
            if rule.source and not (source and contains(rule.source, source)):
                continue
            if rule.destination and not contains(rule.destination, destination):
                continue
            if rule.action != "lookup":
                return RouteEntry(f"{destination}/{full_prefix(rule.family)}", rule.action)
            found = self._in_table(rule.table, destination)
            if found is not None and found.kind != "throw":
                return found
        return None

    def _in_table(self, table: int, destination: str) -> RouteEntry | None:
        fam = family(destination)
        number, bits = int.from_bytes(pack(destination), "big"), full_prefix(fam)
        prefixes = self._tables.get((fam, table), {})
        for length in sorted(prefixes, reverse=True):
            entry = prefixes[length].get(number >> (bits - length))
            if entry is not None:
                return entry
        return None

    def unjudged(self, fam: int) -> tuple[str, ...]:
        """Return the policy rules of a family with selectors that :meth:`lookup` does not judge."""
        return tuple(
            f"policy rule {rule.priority} ({rule.others})" for rule in self.rules if rule.others and rule.family == fam
        )
