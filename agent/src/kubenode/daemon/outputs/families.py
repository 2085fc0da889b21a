# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address families of items, of passes and of refused rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from ...engine.model import ReadState
from ...engine.model.kinds import KINDS
from ...engine.model.net import family as address_family
from ..pass_result import PassResult
from .metrics import FAMILIES

_NFTABLES = {"ip": 4, "ip6": 6}


def family_of(kind: str, key: Any) -> int:
    """Return the family of an item, 0 if it has none."""
    if kind in ("set", "member"):
        return 6 if (key if kind == "set" else key.set).startswith("KUBE-6-") else 4
    if kind in ("address", "route"):
        return address_family(key[1])
    if KINDS[kind].table == "nftables":
        return _NFTABLES.get(getattr(getattr(key, "set", key), "table", key).family, 0)
    return int(getattr(getattr(key, "server", key), "family", 0))


def families_of(result: PassResult, want: ReadState) -> set[int]:
    """Return the address families of a pass: those of its steps.

    A pass that compared everything adds the families of the desired virtual servers.
    """
    families: set[int] = set()
    steps = chain(result.done, (failure.step for failure in result.failed))  # no list: the first pass has all items
    servers = want.get("virtual_server", ()) if result.full else ()
    items = chain(((step.kind, step.key) for step in steps), (("virtual_server", key) for key in servers))
    for kind, key in items:
        families.add(family_of(kind, key))
        if families >= FAMILIES.keys():
            break
    return families


def rule_families(items: Iterable[tuple[str, Any]]) -> set[int]:
    """Return the address families of the rules among these kinds and keys."""
    return {family_of(kind, key) for kind, key in items if KINDS[kind].table in ("iptables", "nftables")}


def broken_families(failing: Mapping[str, Iterable[Any]]) -> set[int]:
    """Return the address families with failing rules: other failing items are retried one by one."""
    return rule_families((kind, key) for kind, keys in failing.items() for key in keys)
