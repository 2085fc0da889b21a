# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several Services that claim one address and port, in a real agent.

The holder survives a restart, the other Services are named, and large changes go in slices.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent.driver import FakeNode
from support.clusters import objects as make

from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs import status
from kubenode.daemon.outputs.metrics import Metrics
from kubenode.daemon.outputs.pass_metrics import PassMetrics
from kubenode.daemon.pass_scheduler import PassScheduler
from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.daemon.sync.sync_policy import SyncPolicy
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.log import Log

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
CONFIG = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration"}
CONTESTED = "kubenode_contested_service_virtual_servers{"
KEY = VirtualServerKey("tcp", "203.0.113.7", 80, 4)


class Node:
    """An agent with manifests, whose reconciler writes to a kernel in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        (path / "config.yaml").write_text(json.dumps(CONFIG))
        (path / "manifests").mkdir(exist_ok=True)
        options = Options(str(path / "config.yaml"), True, str(path / "manifests"), str(path), str(path), "n1", False)
        log = Log(write=self.lines.append, journal=True)
        self.kernel = FakeNode()
        self.turns = 0  # turns of the loop in which work went on
        reconciler = Reconciler(self.kernel, str(path))
        self.agent = PassScheduler(Loop(), log, DesiredState(options, log), reconciler, self.progress)
        self.agent.desired.configure()

    def progress(self) -> None:
        self.turns += 1

    def write(self, *items: dict[str, Any]) -> None:
        for item in items:
            (self.path / f"manifests/{item['metadata']['name']}.json").write_text(json.dumps(item))

    def change(self, *items: dict[str, Any]) -> None:
        self.write(*items)
        self.agent.desired.refresh()
        self.agent._pass(False, "event")

    def port(self) -> str:
        assert self.agent.desired.cluster is not None
        return self.agent.desired.cluster.port_of(KEY)

    def close(self) -> None:
        self.agent.reconciler.close()
        self.agent.loop.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    driven = Node(tmp_path)
    yield driven
    driven.close()


def attacker(*external_ips: str) -> dict[str, Any]:
    return make.service("attacker", ["10.96.0.66"], externalIPs=list(external_ips), creationTimestamp=OLD)


def victim() -> dict[str, Any]:
    return make.service("victim", ["10.96.0.1"], externalIPs=[KEY.address], creationTimestamp=NEW)


def test_holder_outlives_a_restart_and_the_loser_is_named(node: Node, tmp_path: Path) -> None:
    node.agent.full("start")
    node.change(attacker(), victim())
    assert node.port() == "ns1/victim:p80"
    node.change(attacker(KEY.address))
    assert node.port() == "ns1/victim:p80"
    text = (
        "Service ns1/attacker: spec.externalIPs is 'tcp 203.0.113.7:80', "
        "expected an address and port that no other Service holds (Service ns1/victim does, by spec.externalIPs)"
    )
    assert status.problems(node.agent) == [{"about": "Service", "name": "ns1/attacker", "text": text}]
    assert any(text in line for line in node.lines)
    node.close()
    again = Node(tmp_path)
    try:
        again.agent.full("start")
        assert again.port() == "ns1/victim:p80"
        assert status.problems(again.agent)[0]["name"] == "ns1/attacker"
    finally:
        again.close()


@pytest.fixture
def metrics(node: Node) -> Metrics:
    """Return the agent's metrics from its first pass on."""
    created = Metrics("test")
    node.agent.subscribe(PassMetrics(node.agent, created))
    node.agent.full("start")
    return created


def contested(metrics: Metrics) -> dict[str, float]:
    """Return the metric that names refused Services, by label."""
    lines = metrics.text().splitlines()
    parts = [line.partition("{")[2].rpartition("} ") for line in lines if line.startswith(CONTESTED)]
    return {labels: float(value) for labels, _brace, value in parts}


def test_loser_is_named_in_metrics_until_it_serves(node: Node, metrics: Metrics, tmp_path: Path) -> None:
    node.change(attacker(), victim())
    assert contested(metrics) == {}
    node.change(attacker(KEY.address, "10.96.0.1"))
    assert contested(metrics) == {'namespace="ns1",service="attacker"': 2}
    (tmp_path / "manifests/victim.json").unlink()
    node.change()
    assert contested(metrics) == {}


def test_losers_in_metrics_are_bounded(node: Node, metrics: Metrics) -> None:
    """The metric names at most 20 Services of a tenant; the sum counts all."""
    node.change(victim())
    claims = [make.service(f"a{number:03}", [f"10.96.1.{number}"], externalIPs=[KEY.address]) for number in range(200)]
    node.change(*claims)
    assert list(contested(metrics)) == [f'namespace="ns1",service="a{number:03}"' for number in range(20)]
    assert metrics.contested.values["spec.externalIPs",] == 200


def test_refused_address_is_named_before_a_takeover(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.agent.reconciler.policy = SyncPolicy(adopt=True)
    node.write(attacker("127.0.0.1"))
    node.agent.desired.refresh()
    adoptions: list[bool] = []
    real = node.kernel.read

    def read(want: Any, owned: Any) -> Any:
        adoptions.append(any("spec.externalIPs is '127.0.0.1'" in line for line in node.lines))
        return real(want, owned)

    monkeypatch.setattr(node.kernel, "read", read)
    node.agent.full("start")
    assert adoptions == [True]


def test_large_change_is_applied_in_slices(node: Node) -> None:
    """The test counts slices of the loop; the agent feeds the watchdog with each."""
    node.agent.full("start")
    node.write(
        *(
            make.service(
                f"s{number}", ["10.96.1.1"], externalIPs=[f"203.{number}.{low >> 8}.{low & 255}" for low in range(1500)]
            )
            for number in range(4)
        )
    )
    node.agent.desired.refresh()
    turns: list[float] = []

    def turn() -> None:
        turns.append(time.monotonic())
        cluster = node.agent.desired.cluster
        assert cluster is not None
        if node.agent.reconciler.want.get("virtual_server"):
            node.agent.loop.stop()
        else:
            node.agent.loop.after(0, turn)

    node.agent._synced_at = 0.0
    node.agent.loop.after(0, turn)
    node.agent.loop.after(0, node.agent.changed)
    node.agent.loop.run()
    assert len(turns) >= 5
    assert node.turns >= 5
    assert len(node.agent.reconciler.want["virtual_server"]) == 4 * 1500 + 1
