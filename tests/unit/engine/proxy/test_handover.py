# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Items that stay when the agent leaves a node to kube-proxy in another mode."""

from __future__ import annotations

import pytest
from support.kube_proxy import leftovers, recorded

from kubenode.engine.model import ReadState
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.nftables import TableKey
from kubenode.engine.proxy.handover import families, handed_over, unserved

MODE = leftovers.iptables_mode("10.96.0.10", 80, 30080, ["10.244.1.11:8080"], "10.244.0.0/16")
OWNED = {kind: set(items) for kind, items in recorded.cluster(recorded.load(recorded.RECORDINGS[0])).state().items()}


def written() -> tuple[set[tuple[str, str]], set[tuple[str, str, str]]]:
    """Return the chains and jumps that the stand-in for the iptables mode writes."""
    chains, table = set(), ""
    for line in MODE["rules"].splitlines():
        if line.startswith("*"):
            table = line[1:]
        if line.startswith(":"):
            chains.add((table, line[1:].split()[0]))
    jumps = {(table, *rule.removeprefix("-A ").split(" ", 1)) for table, rule in MODE["jumps"]}
    return chains, jumps


def test_shared_chains_and_jumps_stay_with_the_iptables_mode() -> None:
    chains, jumps = written()
    kept = handed_over(OWNED, "iptables", {4})
    assert kept == {
        "chain": {key for key in OWNED["chain"] if key.family == 4 and (key.table, key.chain) in chains},
        "jump": {key for key in OWNED["jump"] if key.family == 4 and (key.table, key.chain, key.rule) in jumps},
    }
    assert len(kept["chain"]) == 5
    assert len(kept["jump"]) == 4


def test_nothing_stays_with_the_nftables_mode() -> None:
    assert handed_over(OWNED, "nftables", {4, 6}) == {}


@pytest.mark.parametrize(
    ("mode", "have", "expected"),
    [
        ("iptables", {}, {4, 6}),
        ("iptables", {"chain": {ChainKey(4, "nat", "KUBE-NODEPORTS"): ()}}, {6}),
        ("iptables", {"chain": {ChainKey(4, "nat", "KUBE-SERVICES"): ()}}, {4, 6}),
        ("iptables", {"nft_table": {TableKey("ip", "kube-proxy"): 0}}, {4, 6}),
        ("nftables", {"nft_table": {TableKey("ip6", "kube-proxy"): 0}}, {4}),
        ("nftables", {"nft_table": {TableKey("ip", "kubenode"): 0}}, {4, 6}),
    ],
)
def test_families_without_rules_of_the_mode_are_unserved(mode: str, have: ReadState, expected: set[int]) -> None:
    assert unserved(have, {4, 6}, mode) == expected
    assert unserved(have, (), mode) == set()


def test_only_families_with_virtual_servers_are_awaited() -> None:
    assert families({"virtual_server": {VirtualServerKey("tcp", "10.96.0.1", 443, 4)}}) == {4}
    assert families({}) == set()
