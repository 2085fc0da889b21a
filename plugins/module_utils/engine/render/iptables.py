# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render chains and jumps as ``iptables-save`` prints them on a node without other rules."""

from __future__ import annotations

from ..model import ReadState
from ..model.iptables import BUILT_IN, WHERE, ChainKey, JumpKey

TABLES = ("filter", "nat")


def render_4(state: ReadState) -> str:
    """Return the IPv4 tables."""
    return _render(state, 4)


def render_6(state: ReadState) -> str:
    """Return the IPv6 tables."""
    return _render(state, 6)


def tables(state: ReadState, family: int) -> dict[str, dict[str, list[str]]]:
    """Return the rules of one family by table and chain, in print order.

    Built-in chains come first, then user-defined chains by name.
    """
    rules_of: dict[str, dict[str, list[str]]] = {}
    jumps: dict[tuple[str, str], list[JumpKey]] = {}
    positions = state.get("jump", {})
    for key in positions:
        if key.family == family:
            jumps.setdefault((key.table, key.chain), []).append(key)
    chains = state.get("chain", {})
    for table in TABLES:
        own = sorted(key.chain for key in chains if key.family == family and key.table == table)
        rules_of[table] = {}
        for chain in BUILT_IN[table]:
            ordered = sorted(
                jumps.get((table, chain), ()), key=lambda key: (WHERE.index(positions[key].where), positions[key].order)
            )
            rules_of[table][chain] = [key.rule for key in ordered]
        for chain in own:
            rules_of[table][chain] = list(chains[ChainKey(family, table, chain)])
    return rules_of


def _render(state: ReadState, family: int) -> str:
    lines = []
    for table, chains in tables(state, family).items():
        lines.append(f"*{table}")
        lines.extend(f":{chain} {'ACCEPT' if chain in BUILT_IN[table] else '-'} [0:0]" for chain in chains)
        lines.extend(f"-A {chain} {rule}" for chain, rules in chains.items() for rule in rules)
        lines.append("COMMIT")
    return "\n".join([*lines, ""])
