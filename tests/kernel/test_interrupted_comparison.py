# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison in slices that ends unfinished after it has read drift, on a real kernel.

The drift is repaired all the same. A later reading must not take it for the items that are believed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes.namespace import fresh, sh

from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import AddressKey, Link
from kubenode.engine.model.nftables import ElementKey, NftSet, SetKey, TableKey
from kubenode.engine.proxy.node import Node

# a reading takes 32 of them in every detail
SERVERS = [VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4) for number in range(1, 200)]
SET, MEMBER = "KUBE-TEST", "10.96.0.1"
TABLE = TableKey("ip", "kubenode-test")
NFT_SET = SetKey(TABLE, "addresses")
LINK = "kube-test0"
WANT: dict[str, dict[Any, Any]] = {
    "virtual_server": {key: VirtualServer() for key in SERVERS},
    "real_server": {RealServerKey(key, "10.244.0.1", 8080): RealServer(1) for key in SERVERS},
    "set": {SET: IPSet("hash:ip", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536")))},
    "member": {MemberKey(SET, MEMBER): ""},
    "nft_table": {TABLE: 0},
    "nft_set": {NFT_SET: NftSet(("ipv4_addr",))},
    "nft_element": {ElementKey(NFT_SET, (MEMBER,)): ""},
    "link": {LINK: Link()},
    "address": {AddressKey(LINK, MEMBER, 32): True},
}
DRIFTS = (
    ("ipvsadm", "-e", "-t", f"{SERVERS[-1].address}:80", "-r", "10.244.0.1:8080", "-m", "-w", "9"),
    ("ipset", "flush", SET),
    ("nft", "flush", "set", "ip", TABLE.name, NFT_SET.name),
    ("ip", "addr", "del", f"{MEMBER}/32", "dev", LINK),
)
LISTS = {
    "ipvsadm": ("-Sn",),
    "ipset": ("save",),
    "nft": ("list", "ruleset"),
    "ip": ("-br", "addr", "show", "dev", LINK),
}


@pytest.fixture
def reconciler(tmp_path: Path) -> Iterator[Reconciler]:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_set", "nf_tables"], check=True)
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    started = Reconciler(Node(), str(tmp_path))
    started.accept(WANT, whole=True)
    assert started.full().failed == []
    assert slices(started) > len(DRIFTS)
    yield started
    started.close()


def slices(reconciler: Reconciler) -> int:
    """Make a whole comparison; return the number of its slices."""
    return sum(1 for _slice in reconciler.compare())


def shown(*tools: str) -> list[str]:
    """Return what the tools show of their tables; by default all four tables."""
    return [sh(tool, *LISTS[tool]) for tool in tools or LISTS]


@pytest.mark.parametrize("interruption", [Reconciler.full, slices], ids=["full pass", "another comparison"])
@pytest.mark.parametrize("drift", DRIFTS, ids=[words[0] for words in DRIFTS])
def test_drift_that_was_read_is_repaired(
    reconciler: Reconciler, drift: tuple[str, ...], interruption: Callable[[Reconciler], object]
) -> None:
    tool = drift[0]
    all_wanted, wanted, whole = shown(), shown(tool), slices(reconciler)
    for number in range(1, whole + 1):
        sh(*drift)
        assert shown(tool) != wanted
        comparison = reconciler.compare()
        for _slice in range(number):
            next(comparison, None)
        interruption(reconciler)
        assert shown(tool) == wanted, f"after {number} of {whole} slices"
    assert shown() == all_wanted


def test_drift_that_was_read_before_a_failure_is_repaired(reconciler: Reconciler) -> None:
    """A comparison ends when a pass beside it fails; that it does not finish its slices changes nothing."""
    wanted, whole = shown(), slices(reconciler)
    for number in range(1, whole + 1):
        for drift in DRIFTS:
            sh(*drift)
        comparison = reconciler.compare()
        for _slice in range(number):
            next(comparison, None)
        reconciler.failing = {"virtual_server": {SERVERS[0]}}
        assert list(comparison) == []
        reconciler.failing = {}
        slices(reconciler)
        assert shown() == wanted, f"after {number} of {whole} slices"
