# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the desired state with items of nftables in the place of iptables chains and IP sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import ReadState, State
from ..model.ipset import MemberKey
from ..model.nftables import ChainKey, ElementKey, NftChain, SetKey
from .nft_rules import translate
from .nft_sets import TABLES, disjoint, fields_of, named_set
from .nft_state import nft_state
from .nft_words import chain_name

_REPLACED = frozenset(("set", "member", "chain", "jump"))
_Group = tuple[SetKey, tuple[str, ...]]  # the set, and all fields but the network


class NftChanges:
    """Translation of one change after the other.

    It remembers the networks of source ranges: those within another network have no element, so the elements for one
    load balancer depend on one another.
    """

    def __init__(self) -> None:
        self._networks: dict[_Group, set[str]] = {}

    def whole(self, state: ReadState) -> State:
        """Return the whole desired state in items of nftables (:func:`.nft_state.nft_state`)."""
        self._networks = {}
        converted = nft_state({kind: items for kind, items in state.items() if kind != "member"})
        converted["nft_element"] = self._elements(state.get("member", {}), _addresses(state))
        return converted

    def changed(self, changes: State) -> State:
        """Return changes in items of nftables; the value None stands for an item that is no longer desired.

        There are no changes of jumps: they follow from the configuration alone, whose change makes a whole state.

        Raises:
            InputError: a set or rule that kube-proxy does not have.
        """
        converted: State = {kind: items for kind, items in changes.items() if kind not in _REPLACED}
        if members := changes.get("member"):
            converted["nft_element"] = self._elements(members, _addresses(changes))
        if sets := changes.get("set"):
            converted["nft_set"] = {
                (named := named_set(name)).key: value and named.value for name, value in sets.items()
            }
        if chains := changes.get("chain"):
            converted["nft_chain"] = _chains(chains)
        return converted

    def _elements(
        self, members: Mapping[MemberKey, str | None], addresses: Mapping[str, str]
    ) -> dict[ElementKey, str | None]:
        changed: dict[ElementKey, str | None] = {}
        groups: dict[_Group, set[str]] = {}  # with the networks as they were
        for (name, member), value in members.items():
            named, fields = named_set(name), fields_of(member, addresses)
            if not named.value.interval:
                changed[ElementKey(named.key, fields)] = value
                continue
            group = (named.key, fields[:-1])
            networks = self._networks.setdefault(group, set())
            groups.setdefault(group, set(networks))
            (networks.discard if value is None else networks.add)(fields[-1])
        for (key, start), former in groups.items():
            before, after = set(disjoint(former)), set(disjoint(self._networks[key, start]))
            changed.update((ElementKey(key, (*start, net)), None) for net in before - after)
            changed.update((ElementKey(key, (*start, net)), "") for net in after - before)
            if not after:
                del self._networks[key, start]
        return changed


def _addresses(items: ReadState) -> dict[str, str]:
    """Return the texts of addresses that the elements share with virtual and real servers."""
    return {key.address: key.address for kind in ("virtual_server", "real_server") for key in items.get(kind, ())}


def _chains(chains: Mapping[Any, Any]) -> dict[ChainKey, NftChain | None]:
    converted: dict[ChainKey, NftChain | None] = {}
    for key, rules in chains.items():
        translated = None if rules is None else [rule for text in rules for rule in translate(key, text)]
        value = None if translated is None else NftChain(None, tuple(translated))
        converted[ChainKey(TABLES[key.family], chain_name(key.table, key.chain))] = value
    return converted
