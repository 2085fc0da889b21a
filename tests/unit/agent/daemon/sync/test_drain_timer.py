# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain times and weights in the reconciler, on a fake node."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.fakes.node import PaperNode

from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.daemon.sync.sync_policy import SyncPolicy
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.link import AddressKey, Link

WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
STAYS = RealServerKey(WEB, "10.244.1.1", 8080)
LEAVES = RealServerKey(WEB, "10.244.1.2", 8080)
ADDRESS = AddressKey("kube-ipvs0", "10.96.0.10", 32)


class FakeNode(PaperNode):
    """A node in memory, with connections that the test sets."""

    def __init__(self) -> None:
        super().__init__({})
        self.open: dict[RealServerKey, tuple[int, int]] = {}
        self.asked: set[VirtualServerKey] = set()  # virtual servers whose connections were counted last

    def connections(self, of: Any) -> Any:
        self.asked = set(of)
        return {key: counts for key, counts in self.open.items() if key.server in of}


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def reconciler(node: FakeNode, now: list[float], tmp_path: Path) -> Reconciler:
    """Return a reconciler that has seen the kernel after a Service lost an endpoint with a connection at second 100."""
    started = Reconciler(node, str(tmp_path), clock=lambda: now[0])
    server = VirtualServer("rr", 0, 0, 32)
    reals = {STAYS: RealServer(1), LEAVES: RealServer(1)}
    started.accept(
        {
            "link": {"kube-ipvs0": Link()},
            "virtual_server": {WEB: server},
            "real_server": reals,
            "address": {ADDRESS: True},
        }
    )
    started.full()
    node.open = {LEAVES: (1, 0)}
    started.accept({"real_server": {LEAVES: None}})
    started.changed()
    assert node.state["real_server"][LEAVES].weight == 0
    assert started.draining == {LEAVES: 100.0}
    return started


def test_end_of_drain_is_no_drift(reconciler: Reconciler, node: FakeNode) -> None:
    assert reconciler.full().drift == []
    node.open = {}
    report = reconciler.full()
    assert [step.key for step in report.done] == [LEAVES]
    assert report.drift == []


def test_drain_of_a_deleted_service_is_no_drift(reconciler: Reconciler, node: FakeNode) -> None:
    reconciler.accept({"virtual_server": {WEB: None}, "real_server": {STAYS: None}, "address": {ADDRESS: None}})
    reconciler.changed()
    assert WEB in node.state["virtual_server"]
    node.open = {}
    report = reconciler.full()
    assert {step.key for step in report.done} == {LEAVES, STAYS, WEB, ADDRESS}
    assert report.drift == []
    assert reconciler.draining == {}


def test_foreign_change_during_a_drain_is_drift(reconciler: Reconciler, node: FakeNode) -> None:
    node.state["real_server"].clear()
    del node.state["virtual_server"][WEB]
    assert {step.key for step in reconciler.full().drift} == {WEB, STAYS}
    del node.state["address"][ADDRESS]
    assert [step.key for step in reconciler.full().drift] == [ADDRESS]


def test_timer_ends_at_the_first_drain_bound(reconciler: Reconciler, node: FakeNode, now: list[float]) -> None:
    assert reconciler.bound() == math.inf
    reconciler.policy = SyncPolicy(max_drain=30.0)
    assert reconciler.bound() == 130.0
    now[0] = 129.0
    reconciler.drain()
    assert LEAVES in node.state["real_server"]
    now[0] = 130.0
    reconciler.drain()
    assert LEAVES not in node.state["real_server"]
    assert reconciler.bound() == math.inf


def test_connections_are_counted_only_for_draining_servers(reconciler: Reconciler, node: FakeNode) -> None:
    other = WEB._replace(address="10.96.0.11")
    reconciler.accept(
        {"virtual_server": {other: VirtualServer()}, "real_server": {LEAVES._replace(server=other): RealServer()}}
    )
    reconciler.changed()
    reconciler.drain()
    assert node.asked == {WEB}


def test_many_draining_servers_are_checked_in_turns(reconciler: Reconciler, node: FakeNode) -> None:
    servers = [WEB._replace(address=f"10.97.{number // 250}.{number % 250}") for number in range(300)]
    reals = {LEAVES._replace(server=server): RealServer() for server in servers}
    reconciler.accept({"virtual_server": dict.fromkeys(servers, VirtualServer()), "real_server": reals})
    reconciler.changed()
    reconciler.accept({"real_server": dict.fromkeys(reals)})
    reconciler.changed()
    node.open = {}
    turns = 0
    while reconciler.draining:
        before = len(reconciler.draining)
        reconciler.drain()
        assert before - 16 <= len(reconciler.draining) < before
        turns += 1
    assert turns == 19
    assert node.state["real_server"].keys() == {STAYS}


def test_an_address_stays_while_another_port_of_it_drains(reconciler: Reconciler, node: FakeNode) -> None:
    dns = WEB._replace(protocol="udp", port=53)
    reconciler.accept(
        {"virtual_server": {dns: VirtualServer()}, "real_server": {LEAVES._replace(server=dns): RealServer()}}
    )
    reconciler.accept({"virtual_server": {WEB: None}, "real_server": {STAYS: None}})
    reconciler.changed()
    node.open = {LEAVES: (1, 0)}
    reconciler.accept(
        {"virtual_server": {dns: None}, "real_server": {LEAVES._replace(server=dns): None}, "address": {ADDRESS: None}}
    )
    reconciler.changed()
    assert node.state["virtual_server"].keys() == {WEB}
    assert ADDRESS in node.state["address"]
    node.open = {}
    reconciler.drain()
    assert (node.state["virtual_server"], node.state["address"]) == ({}, {})
