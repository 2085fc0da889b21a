# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state with tables of nftables in the place of iptables chains and IP sets.

A built-in chain of iptables becomes a base chain that has its jumps as rules. Each sees packets where iptables' does:

====================  ==========  ===========  ================================================================
base chain            hook        priority     place
====================  ==========  ===========  ================================================================
``nat-prerouting``    prerouting  -100 dstnat  after connection tracking (-200), before the packet is routed
``nat-output``        output      -100         before IPVS sees the node's own packets (-99, -98)
``nat-postrouting``   postrouting 100 srcnat   after IPVS: its packets leave by this hook
``filter-input``      input       0 filter     before IPVS takes the packet (98, 99)
``filter-forward``    forward     0 filter     before IPVS translates answers (99, 100)
``filter-output``     output      0 filter     after IPVS: the packet is for the real server, or an answer
====================  ==========  ===========  ================================================================

The priorities are those of iptables' tables. The kernel runs all chains of type ``nat``, of iptables and of nftables,
in one hook of its own with these priorities, for new connections only; the chain's priority orders it among them.

A verdict ends something else: ``ACCEPT`` ends the whole table of iptables, ``accept`` only this base chain. Chains of
other programs still see the packet, and may drop it or translate its addresses.
"""

from __future__ import annotations

from ..errors import InputError
from ..model import ReadState, State
from ..model.iptables import WHERE, JumpKey, written
from ..model.nftables import ChainKey, Hook, NftChain, Rule
from .nft_rules import translate
from .nft_sets import TABLES, elements, named_set
from .nft_words import chain_name

_BASE_CHAINS = {
    ("nat", "PREROUTING"): Hook("nat", "prerouting", -100),
    ("nat", "OUTPUT"): Hook("nat", "output", -100),
    ("nat", "POSTROUTING"): Hook("nat", "postrouting", 100),
    ("filter", "INPUT"): Hook("filter", "input", 0),
    ("filter", "FORWARD"): Hook("filter", "forward", 0),
    ("filter", "OUTPUT"): Hook("filter", "output", 0),
}
_REPLACED = frozenset(("chain", "jump", "set", "member"))


def nft_state(state: ReadState) -> State:
    """Return a desired state with ``nft_table``, ``nft_set``, ``nft_element`` and ``nft_chain``.

    They replace the kinds ``set``, ``member``, ``chain`` and ``jump``; all other kinds stay.

    Raises:
        InputError: a set or rule that kube-proxy does not have.
    """
    changed: State = {kind: dict(items) for kind, items in state.items() if kind not in _REPLACED}
    named = [named_set(name) for name in state.get("set", {})]
    changed["nft_set"] = {item.key: item.value for item in named}
    changed["nft_element"] = dict.fromkeys(elements(state.get("member", {})), "")
    changed["nft_chain"] = _chains(state)
    tables = {key.table for kind in ("nft_set", "nft_chain") for key in changed[kind]}
    changed["nft_table"] = {table: 0 for table in TABLES.values() if table in tables}
    return changed


def _chains(state: ReadState) -> dict[ChainKey, NftChain]:
    """Return the base chains with the jumps, in their order, and the other chains."""
    chains: dict[ChainKey, NftChain] = {}
    jumps = state.get("jump", {})
    ordered: dict[tuple[int, str, str], list[JumpKey]] = {}
    for key in sorted(jumps, key=lambda key: (WHERE.index(jumps[key].where), jumps[key].order)):
        ordered.setdefault((key.family, key.table, key.chain), []).append(key)
    for (family, table, chain), keys in ordered.items():
        if (table, chain) not in _BASE_CHAINS:
            raise InputError("nftables", "chain", f"{table} {chain}", "a built-in chain that kube-proxy has jumps in")
        hook = _BASE_CHAINS[table, chain]
        rules = [rule for key in keys for rule in translate(key, written(key.rule))]
        chains[ChainKey(TABLES[family], f"{hook.type}-{hook.hook}")] = NftChain(hook, tuple(rules))
    for key, texts in state.get("chain", {}).items():
        translated: list[Rule] = []
        for text in texts:
            translated.extend(translate(key, text))
        chains[ChainKey(TABLES[key.family], chain_name(key.table, key.chain))] = NftChain(None, tuple(translated))
    return chains
