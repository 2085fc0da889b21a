# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain iptables' error messages, and name the remedy.

The legacy back end often gives no reason of its own.
"""

from __future__ import annotations

from collections.abc import Collection

from .read import parse
from .tool import save


def explain(family: int, table: str, line: str, words: str, batch: Collection[str] = ()) -> str:
    """Return why a line of a restore failed; reads the kernel only if that adds information.

    ``batch`` are all lines for the table.
    """
    verb, _blank, rest = line.partition(" ")
    chain, _blank, rule = rest.partition(" ")
    if "insmod" in words or "unable to initialize table" in words:
        return (
            f"the kernel has no table {table}; load the kernel module"
            f" {'iptable' if family == 4 else 'ip6table'}_{table}"
        )
    if verb == "-X":
        users = [user for user in referring(family, table, chain) if not _goes(user, batch)]
        return (
            f"chain {chain} is still used by: {'; '.join(users)}"
            if users
            else words or f"chain {chain} cannot be removed"
        )
    if verb == "-D":
        return f"the rule `{rule}` is no longer in chain {chain}"
    if verb == "-I":
        position, _blank, rule = rule.partition(" ")
        return f"rule `{rule}` at position {position} of chain {chain}: {words or _NOT_TAKEN}"
    if verb == "-A":
        return f"rule `{rule}`: {words or _NOT_TAKEN}"
    if line == "COMMIT":
        return (
            words
            or f"the kernel refused the changes of table {table}; its log (dmesg) may say which rule does not fit there"
        )
    return words or f"iptables did not take the line `{line}`"


def referring(family: int, table: str, chain: str) -> list[str]:
    """Return the rules that jump or go to a chain, as lines of ``iptables-save``."""
    users = []
    for chains in parse(save(family)):
        for (where, user), rules in chains.items():
            if where == table:
                users += [
                    f"-A {user} {rule}" for rule in rules if f" {rule} ".endswith((f" -j {chain} ", f" -g {chain} "))
                ]
    return users


def _goes(rule: str, batch: Collection[str]) -> bool:
    """Tell whether a batch deletes a rule, or flushes its chain."""
    return "-D" + rule[2:] in batch or f":{rule.split(' ')[1]} - [0:0]" in batch


_NOT_TAKEN = "iptables does not take it: there is no such chain, set or position, or it does not fit into this table"
