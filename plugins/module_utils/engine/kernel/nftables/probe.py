# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the kernel for the features of nftables that a service proxy needs."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import MissingError
from ...model.nftables import (
    Bits,
    ChainKey,
    Compare,
    DestinationNat,
    Hook,
    Masquerade,
    NftChain,
    NftSet,
    Random,
    Reject,
    Rule,
    SetKey,
    Statement,
    TableKey,
    Verdict,
)
from ...model.step import Step
from .transaction import MISSING
from .write import rehearse

CONCATENATED_NETWORKS = "concatenations with networks in sets (Linux 5.6)"
_NF_TABLES = "nf_tables"
_PROBE = "kubenode-probe"


class _Family(NamedTuple):
    """Words of an address family: its modules' suffix, its type of sets, and an address."""

    suffix: str
    type: str
    address: str


_FAMILIES = {"ip": _Family("ipv4", "ipv4_addr", "192.0.2.1"), "ip6": _Family("ipv6", "ipv6_addr", "2001:db8::1")}


def missing_features() -> list[str]:
    """Return the kernel modules and features that are missing, sorted; nothing if this kernel can do all.

    The kernel checks one transaction that is never completed, with a table, chains, a set and rules of every kind. It
    changes no rule. Like every check of such rules, it makes the kernel load the modules that they need, where it can.

    Raises:
        MissingError: this process has not the right.
        KernelError: the conversation failed.
    """
    probes = {(step.kind, step.key): (name, step) for family in _FAMILIES for name, step in _probes(family)}
    try:
        failures = rehearse([step for _name, step in probes.values()])
    except MissingError as error:
        if str(error) == MISSING:
            return [_NF_TABLES]
        raise
    without = {failure.step.key for failure in failures if failure.step.kind == "nft_table"}
    return sorted(
        {
            probes[failure.step.kind, failure.step.key][0]
            for failure in failures
            if failure.step.kind == "nft_table" or failure.step.key.table not in without
        }
    )


def _probes(family: str) -> list[tuple[str, Step]]:
    """Return steps, each with the module or feature that it needs."""
    table = TableKey(family, _PROBE)
    words = _FAMILIES[family]
    rules: dict[str, tuple[Statement, ...]] = {
        f"nft_fib_{words.suffix}": (Compare("fib daddr type", "local"),),
        f"nft_reject_{words.suffix}": (Reject("port-unreachable"),),
        "nft_ct": (Bits("ct state", 8), Bits("ct status", 0x20)),
        "nft_masq": (Masquerade(True),),
        "nft_nat": (DestinationNat(words.address, 80),),
        "nft_numgen": (Random(2),),
    }
    chains = {name: NftChain(None, (Rule(statements),)) for name, statements in rules.items()}
    chains["nft_chain_nat"] = NftChain(Hook("nat", "postrouting", 100), (Rule((Verdict("accept"),)),))
    source_ranges = NftSet((words.type, "inet_proto", "inet_service", words.type), True)
    return [
        (f"{_NF_TABLES} for family {family}", Step("nft_table", table, None, 0)),
        (CONCATENATED_NETWORKS, Step("nft_set", SetKey(table, "probe"), None, source_ranges)),
        *((name, Step("nft_chain", ChainKey(table, name), None, chain)) for name, chain in chains.items()),
    ]
