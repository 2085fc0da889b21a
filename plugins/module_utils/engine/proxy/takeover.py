# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takeover from kube-proxy: recognise its items by their well-known names.

A takeover keeps those that are desired and removes the others.

The names are those of every version since 1.8, of the modes ipvs and iptables. Chains of the kubelet (KUBE-FIREWALL,
KUBE-MARK-DROP, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT) are not included, nor are items with a merely similar name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..desired.node_addresses import DUMMY
from ..desired.rules import CHAINS
from ..desired.sets import CLUSTER_IP, EXTERNAL_IP, EXTERNAL_IP_LOCAL, LOAD_BALANCER, NODE_PORT, set_name
from ..desired.sets import SETS as _SETS
from ..model import ReadState
from ..model.iptables import ChainKey, JumpKey
from ..model.ipvs import VirtualServerKey

_FORMER_SETS = ("KUBE-LB-INGRESS-LOCAL", "KUBE-NODE-PORT-SCTP", "KUBE-NODE-PORT-LOCAL-SCTP")
SETS = frozenset(set_name(fam, base) for fam in (4, 6) for base in (*_SETS, *_FORMER_SETS))

# chains of the iptables mode: a hash of 16 characters in base 32
_BY_RULES = re.compile(r"KUBE-(SVC|SEP|SVL|EXT|FW|XLB)-[A-Z2-7]{16}\Z")
_OTHER_CHAINS = {
    "nat": {"KUBE-NODEPORTS", "KUBE-PROXY-CANARY", "KUBE-FIREWALL", "KUBE-FIRE-WALL"},
    "filter": {"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY"},
    "mangle": {"KUBE-PROXY-CANARY"},
}
_JUMP = re.compile(r'-m comment --comment "(?:kubernetes|kube-proxy) [^"]*" -j (\S+)\Z')
_BY_ADDRESS = (CLUSTER_IP, EXTERNAL_IP, EXTERNAL_IP_LOCAL, LOAD_BALANCER)


def left_behind(have: ReadState, others: Mapping[str, Collection[Any]]) -> dict[str, set[Any]]:
    """Return the items of kube-proxy on a node, for kinds without a parent.

    A virtual server is kube-proxy's if its address is on kube-ipvs0, or if kube-proxy's sets name its address and port
    or its node port.

    Args:
        have: present items by kind.
        others: items that other owners claim in the ledger, by kind; they are left out, whatever their name.
    """
    items = {
        "set": {name for name in have.get("set", ()) if name in SETS},
        "chain": {key for key in have.get("chain", ()) if _is_chain(key)},
        "jump": {key for key in have.get("jump", ()) if _is_jump(key)},
        "virtual_server": _servers(have),
        "address": {
            key for key in have.get("address", ()) if key.link == DUMMY and not key.address.startswith("fe80:")
        },
    }
    return {kind: {key for key in keys if key not in others.get(kind, ())} for kind, keys in items.items()}


def superseded(left: Mapping[str, Collection[Any]], want: ReadState) -> dict[str, set[Any]]:
    """Return the items of kube-proxy (``left``) that are not desired: a takeover removes them."""
    return {kind: set(keys) - want.get(kind, {}).keys() for kind, keys in left.items()}


def keys_to_read(owned: Mapping[str, Collection[Any]], adopt: bool) -> Mapping[str, Collection[Any]]:
    """Return the keys to read by name beside the desired ones: the owner's, and with ``adopt`` kube-proxy's sets."""
    return {**owned, "set": {*owned.get("set", ()), *SETS}} if adopt else owned


def balanced_by_rules(have: ReadState) -> bool:
    """Tell whether kube-proxy's iptables mode balances on this node, or refuses for Services without endpoints."""
    names = (key.chain for key in have.get("chain", ()) if key.table == "nat")
    return any(name == "KUBE-NODEPORTS" or _BY_RULES.match(name) for name in names)


def _is_chain(key: ChainKey) -> bool:
    if key.chain in CHAINS.get(key.table, ()) or key.chain in _OTHER_CHAINS.get(key.table, ()):
        return True
    return key.table == "nat" and _BY_RULES.match(key.chain) is not None


def _is_jump(key: JumpKey) -> bool:
    target = _JUMP.search(key.rule)
    return target is not None and _is_chain(ChainKey(key.family, key.table, target.group(1)))


def _servers(have: ReadState) -> set[VirtualServerKey]:
    bound = {key.address for key in have.get("address", ()) if key.link == DUMMY}
    members = {(key.set, key.member) for key in have.get("member", ()) if key.set in SETS}
    return {
        key for key in have.get("virtual_server", ()) if key.address in bound or not members.isdisjoint(_names(key))
    }


def _names(key: VirtualServerKey) -> list[tuple[str, str]]:
    """Return the members by which kube-proxy's sets would name a virtual server."""
    if key.protocol not in NODE_PORT:
        return []
    entry = f"{key.address},{key.protocol}:{key.port}"
    node_port = str(key.port) if key.protocol != "sctp" else entry
    names = [(set_name(key.family, base), entry) for base in _BY_ADDRESS]
    return [*names, (set_name(key.family, NODE_PORT[key.protocol]), node_port)]
