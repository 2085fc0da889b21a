# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``iptables-save`` into chains and the rules of built-in chains."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...model.iptables import ChainKey, JumpKey
from ..decoding import decoding
from .tool import save

Parsed = dict[tuple[str, str], list[str]]


def read(families: Collection[int] = (4, 6), tables: Collection[str] | None = None) -> dict[str, dict[Any, Any]]:
    """Return the kinds ``chain`` (user-defined chains) and ``jump`` (rules of the built-in chains, with position).

    A rule that repeats an earlier one of its built-in chain has `` # 2``, `` # 3`` ... behind its text, so that every
    rule has its own key.

    Args:
        families: 4, 6 or both; one process each.
        tables: only these. Reading never loads an unused table.

    Raises:
        MissingError: no iptables, or not root.
        KernelError: iptables failed.
    """
    chains: dict[Any, Any] = {}
    jumps: dict[Any, Any] = {}
    for family in families:
        own, built_in = parse(save(family))
        for (table, chain), rules in own.items():
            if tables is None or table in tables:
                chains[ChainKey(family, table, chain)] = tuple(rules)
        for (table, chain), rules in built_in.items():
            if tables is None or table in tables:
                for position, rule in enumerate(_distinct(rules), 1):
                    jumps[JumpKey(family, table, chain, rule)] = position
    return {"chain": chains, "jump": jumps}


def parse(saved: str) -> tuple[Parsed, Parsed]:
    """Return the rules by table and chain, of user-defined and of built-in chains.

    Raises:
        KernelError: a rule is in no chain, a chain has no policy, or a table has no end.
    """
    own: Parsed = {}
    built_in: Parsed = {}
    rules: dict[str, list[str]] = {}
    table = ""
    with decoding("what iptables-save prints of the kernel's rules"):
        for line in saved.split("\n"):  # not splitlines: a comment may contain other line separators
            if line.startswith("-A "):
                _verb, chain, rule = (line + " ").split(" ", 2)
                rules[chain].append(rule[:-1])
            elif line.startswith(":"):
                chain, policy = line[1:].split(" ")[:2]
                rules[chain] = (own if policy == "-" else built_in).setdefault((table, chain), [])
            elif line.startswith("*"):
                table, rules = line[1:], {}
            elif line == "COMMIT":
                table = ""
        if table:  # iptables-save ends without an error if it cannot write
            raise ValueError(f"the table {table} is cut off")
    return own, built_in


def _distinct(rules: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    keys = []
    for rule in rules:
        count = seen[rule] = seen.get(rule, 0) + 1
        keys.append(rule if count == 1 else f"{rule} # {count}")
    return keys
