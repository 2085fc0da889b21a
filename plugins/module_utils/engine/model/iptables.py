# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables: user-defined chains, and rules in built-in chains, usually jumps into them.

A rule is text, in exactly the spelling of ``iptables-save``, without the leading ``-A CHAIN``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_REPETITION = re.compile(r" # \d+$")
Rules = tuple[str, ...]
BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}


class ChainKey(NamedTuple):
    """A chain: family 4 or 6, table, name."""

    family: int
    table: str
    chain: str

    def __str__(self) -> str:
        """Return for example ``IPv4 nat KUBE-SERVICES``."""
        return f"IPv{self.family} {self.table} {self.chain}"


class JumpKey(NamedTuple):
    """A rule in a built-in chain, usually a jump into a user-defined chain."""

    family: int
    table: str
    chain: str
    rule: str

    def __str__(self) -> str:
        """Return for example ``IPv4 nat PREROUTING: -j KUBE-SERVICES``."""
        return f"IPv{self.family} {self.table} {self.chain}: {self.rule}"


WHERE = ("first", "prepended", "last")


class RulePosition(NamedTuple):
    """Desired position of a rule in a built-in chain: one of :data:`WHERE`, and the rank there (from 1).

    ``first`` and ``last`` are kept: the rule is moved again if another process inserts one before or behind it. Rules
    of other owners in the ledger may stand there, too. ``prepended`` inserts the rule first and never moves it later,
    as kube-proxy does (``EnsureRule`` with ``Prepend``). Calico's Felix keeps its own rules first; two programs that
    both do so never come to rest.
    """

    where: str = "first"
    order: int = 1


def written(rule: str) -> str:
    """Return the text of a rule without the `` # 2`` that marks a repetition in its built-in chain."""
    return _REPETITION.sub("", rule)
