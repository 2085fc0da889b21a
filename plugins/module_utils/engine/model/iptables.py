# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables: chains that are ours, and jumps into them from built-in chains.

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
    """One rule of ours in a built-in chain; usually a jump into a chain of ours."""

    family: int
    table: str
    chain: str
    rule: str

    def __str__(self) -> str:
        """Return for example ``IPv4 nat PREROUTING: -j KUBE-SERVICES``."""
        return f"IPv{self.family} {self.table} {self.chain}: {self.rule}"


WHERE = ("first", "prepended", "last")


class RulePosition(NamedTuple):
    """Where a rule is wanted in a built-in chain, one of :data:`WHERE`, and its order among ours there (from 1).

    ``first`` and ``last`` are kept up: what somebody else puts before or behind it moves it again. Rules that another
    owner of the ledger keeps in the same place do not count as being in the way. ``prepended`` is put first when it is
    made, and stays where others then push it, as what kube-proxy makes does (``EnsureRule`` with ``Prepend``): Calico's
    Felix, for one, keeps its own rules first, and two that both do so never come to rest.
    """

    where: str = "first"
    order: int = 1


def written(rule: str) -> str:
    """Return the text of a rule without the `` # 2`` behind one that repeats an earlier rule of its built-in chain."""
    return _REPETITION.sub("", rule)
