# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of netfilter: the chains of iptables and nftables that see a packet, in the order of their priorities."""

from __future__ import annotations

from typing import Callable

from ..model.iptables import ChainKey
from ..model.nftables import ChainKey as NftChainKey
from ..model.nftables import NftChain
from . import iptables_walk, nft_walk
from .flow import Outcome
from .view import NodeView

# Tables of iptables at each hook, with their priorities.
_TABLES = {
    "prerouting": ((-300, "raw"), (-150, "mangle"), (-100, "nat")),
    "input": ((-150, "mangle"), (0, "filter"), (50, "security")),
    "forward": ((-150, "mangle"), (0, "filter"), (50, "security")),
    "output": ((-300, "raw"), (-150, "mangle"), (-100, "nat"), (0, "filter"), (50, "security")),
    "postrouting": ((-150, "mangle"), (100, "nat")),
}
FIRST, LAST = -(1 << 31), 1 << 31
IPVS_INPUT = 98  # IPVS takes packets here, before later chains of the hook see them
IPVS_OUTPUT = -99
_Walk = Callable[[Outcome], "list[Outcome]"]


def pass_hook(
    view: NodeView, hook: str, start: Outcome, after: int = FIRST, before: int = LAST, with_nat: bool = True
) -> list[Outcome]:
    """Return the outcomes of a packet after a hook's chains with priorities between two limits.

    Without ``with_nat``, chains of type nat are left out: they see the first packet of a connection only, and only
    until a translation is decided.
    """
    outcomes = [start._replace(verdict="accept")]
    for is_nat, walk in _walks(view, hook, start.packet.family, after, before):
        if is_nat and not with_nat:
            continue
        following: list[Outcome] = []
        for outcome in outcomes:
            translated = outcome.packet.translation if hook == "postrouting" else outcome.packet.is_dnat
            tracked = outcome.packet.state != "UNTRACKED"
            if outcome.verdict != "accept" or (is_nat and (translated or not tracked)):
                following.append(outcome)
            else:
                following.extend(walk(outcome._replace(verdict="")))
        outcomes = iptables_walk.distinct(following)
    return outcomes


def _walks(view: NodeView, hook: str, fam: int, after: int, before: int) -> list[tuple[bool, _Walk]]:
    """Return whether each chain is of type nat, and the function that follows a packet through it, in order."""
    found: list[tuple[int, int, bool, _Walk]] = []
    for priority, table in _TABLES[hook]:
        key = ChainKey(fam, table, hook.upper())
        if after < priority < before and (view.rules.get(key) or view.policies.get(key, "ACCEPT") != "ACCEPT"):
            found.append((priority, len(found), table == "nat", _iptables(view, key)))
    for priority, nft_key, chain in nft_walk.hooked(view, hook, fam):
        if after < priority < before:
            is_nat = chain.hook is not None and chain.hook.type == "nat"
            found.append((priority, len(found), is_nat, _nftables(view, nft_key, chain)))
    return [(is_nat, walk) for _priority, _index, is_nat, walk in sorted(found, key=lambda item: item[:2])]


def _iptables(view: NodeView, key: ChainKey) -> _Walk:
    return lambda outcome: iptables_walk.walk(view, key, outcome)


def _nftables(view: NodeView, key: NftChainKey, chain: NftChain) -> _Walk:
    return lambda outcome: nft_walk.walk(view, key, chain, outcome)
