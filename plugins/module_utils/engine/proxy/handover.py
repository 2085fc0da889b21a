# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handover to kube-proxy in another mode than ipvs: whether its rules serve, and which items are kube-proxy's then.

kube-proxy in iptables mode writes some chains under the names that the ipvs mode uses, too, and finds its jumps to them
in place. It leaves all other items of the ipvs mode. kube-proxy in nftables mode removes the items of the ipvs mode
when it starts, except IPv6 sets, and uses none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..model import ReadState
from ..model.iptables import ChainKey, JumpKey
from ..model.nftables import TableKey
from .takeover import balanced_by_rules

IPTABLES, NFTABLES = "iptables", "nftables"
MODES = (IPTABLES, NFTABLES)
TABLES = {4: TableKey("ip", "kube-proxy"), 6: TableKey("ip6", "kube-proxy")}

_CHAINS = {
    "nat": {"KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"},
    "filter": {"KUBE-FORWARD", "KUBE-PROXY-FIREWALL"},
}
# The iptables mode jumps to KUBE-PROXY-FIREWALL by another rule, so that jump is not among them.
_JUMPS = {
    ("nat", "PREROUTING", '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'),
    ("nat", "OUTPUT", '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'),
    ("nat", "POSTROUTING", '-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'),
    ("filter", "FORWARD", '-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD'),
}


def families(owned: Mapping[str, Collection[Any]]) -> set[int]:
    """Return the IP families of the owned virtual servers: kube-proxy must serve these before they go."""
    return {key.family for key in owned.get("virtual_server", ())}


def unserved(have: ReadState, wanted: Collection[int], mode: str) -> set[int]:
    """Return the IP families among ``wanted`` in which kube-proxy's rules of this mode do not exist yet.

    Args:
        have: present chains for iptables, present tables (``nft_table``) for nftables.
        wanted: IP families, 4 and 6.
        mode: one of :data:`MODES`.
    """
    if mode == NFTABLES:
        return {family for family in wanted if TABLES[family] not in have.get("nft_table", {})}
    chains: Mapping[ChainKey, Any] = have.get("chain", {})
    of = {family: {key: chains[key] for key in chains if key.family == family} for family in wanted}
    return {family for family in wanted if not balanced_by_rules({"chain": of[family]})}


def handed_over(owned: Mapping[str, Collection[Any]], mode: str, served: Collection[int]) -> dict[str, set[Any]]:
    """Return the owned items that kube-proxy in this mode has made its own, in the families that it serves."""
    if mode != IPTABLES:
        return {}
    chains: Collection[ChainKey] = owned.get("chain", ())
    jumps: Collection[JumpKey] = owned.get("jump", ())
    return {
        "chain": {key for key in chains if key.family in served and key.chain in _CHAINS.get(key.table, ())},
        "jump": {key for key in jumps if key.family in served and (key.table, key.chain, key.rule) in _JUMPS},
    }
