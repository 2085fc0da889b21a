# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repair of tables of nftables alone, after another process has changed them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.agent.driver import FakeNode

from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import finished
from kubenode.engine.model.ipvs import VirtualServer, VirtualServerKey
from kubenode.engine.model.nftables import ElementKey, NftSet, SetKey, TableKey

TABLE = TableKey("ip", "kubenode")
SET = SetKey(TABLE, "ipvs-ips")
ELEMENTS = [ElementKey(SET, (f"10.96.0.{number}",)) for number in (1, 2)]
SERVERS = [VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4) for number in (1, 2)]
KINDS = ("nft_table", "nft_set", "nft_element", "nft_chain")


class Node(FakeNode):
    """Fake node whose tables of nftables can be read alone."""

    def read_nftables(self, _want: Any, _owned: Any, _believed: Any = None) -> dict[str, dict[Any, Any]]:
        if self.broken:
            raise KernelError("broken")
        return {kind: dict(self.state[kind]) for kind in KINDS}

    def flush(self) -> None:
        """Remove all tables, as another process."""
        for kind in KINDS:
            self.state[kind].clear()


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def reconciler(node: Node, tmp_path: Path) -> Reconciler:
    found = Reconciler(node, str(tmp_path))
    want: dict[str, dict[Any, Any]] = {
        "nft_table": {TABLE: 0},
        "nft_set": {SET: NftSet(("ipv4_addr",))},
        "nft_element": {ELEMENTS[0]: ""},
        "virtual_server": {SERVERS[0]: VirtualServer()},
    }
    found.accept(want, whole=True)
    assert found.full().failed == []
    return found


def test_flushed_tables_come_back_without_another_reading(node: Node, reconciler: Reconciler) -> None:
    reads = node.reads
    node.flush()
    result = reconciler.repair_rules()
    assert (result.full, result.failed, node.reads) == (False, [], reads)
    assert {step.kind for step in result.drift} == {"nft_table", "nft_set", "nft_element"}
    assert list(node.state["nft_element"]) == [ELEMENTS[0]]
    assert reconciler.repair_rules().done == []


def test_foreign_element_goes(node: Node, reconciler: Reconciler) -> None:
    node.state["nft_element"][ELEMENTS[1]] = ""
    assert [step.describe()[0] for step in reconciler.repair_rules().done] == ["-"]
    assert list(node.state["nft_element"]) == [ELEMENTS[0]]


def test_changes_that_wait_still_wait(node: Node, reconciler: Reconciler) -> None:
    node.flush()
    reconciler.accept({"virtual_server": {SERVERS[1]: VirtualServer()}, "nft_element": {ELEMENTS[1]: ""}})
    reconciler.repair_rules()
    assert set(node.state["nft_element"]) == set(ELEMENTS)
    assert SERVERS[1] not in node.state["virtual_server"]
    result = reconciler.changed()
    assert result is not None
    assert SERVERS[1] in node.state["virtual_server"]


@pytest.mark.parametrize("read_before", [True, False])
def test_comparison_under_way_goes_on(node: Node, reconciler: Reconciler, read_before: bool) -> None:
    """It knows nothing better, whether it read the tables before the flush or after it."""
    if not read_before:
        node.flush()
    del node.state["virtual_server"][SERVERS[0]]
    comparison = reconciler.compare()
    next(comparison)
    next(comparison)
    node.flush()
    assert len(reconciler.repair_rules().done) == 3
    result = finished(comparison)
    assert result is not None
    assert [step.key for step in result.done] == [SERVERS[0]]
    assert list(node.state["nft_element"]) == [ELEMENTS[0]]
    assert reconciler.repair_rules().done == []


def test_error_leaves_the_state_unknown(node: Node, reconciler: Reconciler) -> None:
    node.broken = True
    with pytest.raises(KernelError):
        reconciler.repair_rules()
    assert not reconciler.synced
    node.broken = False
    assert reconciler.full().failed == []
    assert reconciler.synced
