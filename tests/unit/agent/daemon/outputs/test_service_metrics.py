# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics that name Services: totals that never go backwards, the busiest K, and nothing at all while off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kubenode.daemon.outputs.metrics import Metrics
from kubenode.daemon.outputs.service_metrics import ServiceMetrics, ServicePort
from kubenode.engine.errors import KernelError
from kubenode.engine.kernel.ipvs.statistics import Traffic
from kubenode.engine.model.ipvs import VirtualServerKey

ROOT = Path(__file__).parents[5]
WEB, NODE_PORT, DNS, FOREIGN = (
    VirtualServerKey("tcp", address, port, 4)
    for address, port in (("10.96.0.1", 80), ("192.0.2.1", 30080), ("10.96.0.2", 53), ("192.0.2.9", 1))
)
NAMES = {WEB: ("shop", "web", "http"), NODE_PORT: ("shop", "web", "http"), DNS: ("kube-system", "dns", 'a"b')}


class Node:
    """Counters of a kernel on paper, and the metrics made of them."""

    def __init__(self, most: int | None = None) -> None:
        self.metrics = Metrics("1")
        self.table: dict[VirtualServerKey, Traffic] = {}
        self.connections: dict[VirtualServerKey, int] = {}
        self.names: dict[VirtualServerKey, ServicePort] = dict(NAMES)
        self.now = 0.0
        self.broken = False
        self.asked: set[VirtualServerKey] = set()
        services = ServiceMetrics(self.metrics, most, self, self.names.get, lambda: self.now)
        self.metrics.collect = services.collect

    def counters(self) -> dict[VirtualServerKey, Traffic]:
        if self.broken:
            raise KernelError("no")
        return dict(self.table)

    def active(self, of: Collection[VirtualServerKey]) -> dict[VirtualServerKey, int]:
        self.asked = set(of)
        return {key: count for key, count in self.connections.items() if key in of}

    def scrape(self, metric: str = "connections") -> dict[str, float]:
        """Return one metric by the name of the Service."""
        families = {family.name: family for family in text_string_to_metric_families(self.metrics.text())}
        family = families.get(f"kubenode_service_{metric}")
        return {sample.labels["service"]: sample.value for sample in family.samples} if family else {}


@pytest.fixture
def node() -> Node:
    found = Node()
    found.table = {WEB: Traffic(100), NODE_PORT: Traffic(50), DNS: Traffic(7), FOREIGN: Traffic(9)}
    assert found.scrape() == {"web": 0, "dns": 0}
    return found


def test_differences_of_a_service_add_up(node: Node) -> None:
    node.table[WEB] = Traffic(103, 5, 4, 50, 40)
    node.table[NODE_PORT] = Traffic(51, 1, 0, 10, 0)
    node.connections = {WEB: 2, NODE_PORT: 1, FOREIGN: 9}
    assert node.scrape() == {"web": 4, "dns": 0}
    assert (node.scrape("packets")["web"], node.scrape("bytes")["web"]) == (10, 100)
    assert node.scrape("active_connections") == {"web": 3, "dns": 0}


def test_active_connections_are_asked_only_after_traffic(node: Node) -> None:
    assert node.asked == {WEB, NODE_PORT, DNS}
    node.scrape()
    assert node.asked == set()
    node.table[WEB] = Traffic(101, 1)
    node.connections = {WEB: 1}
    assert node.scrape("active_connections") == {"web": 1, "dns": 0}
    assert node.asked == {WEB}
    node.scrape()
    assert node.asked == {WEB}  # it may end without a packet
    node.connections = {}
    assert node.scrape("active_connections") == {"web": 0, "dns": 0}
    node.scrape()
    assert node.asked == set()


def test_idle_connection_counts_after_an_incomplete_dump(node: Node) -> None:
    node.table[WEB] = Traffic(101, 1)
    node.connections = {WEB: 1}
    node.scrape()
    web = node.table.pop(WEB)
    node.scrape()
    node.table[WEB] = web
    assert node.scrape("active_connections") == {"web": 1, "dns": 0}


def test_replaced_virtual_server_continues_its_service(node: Node) -> None:
    node.table[WEB] = Traffic(105)
    assert node.scrape()["web"] == 5
    node.table[WEB] = Traffic(3)  # made again
    assert node.scrape()["web"] == 8
    del node.table[WEB], node.table[NODE_PORT]
    assert "web" not in node.scrape()
    node.names.pop(WEB)
    node.scrape()
    node.names[WEB] = NAMES[WEB]
    node.table[WEB] = Traffic(4)
    assert node.scrape()["web"] == 12


def test_new_virtual_server_counts_from_zero(node: Node) -> None:
    late = VirtualServerKey("udp", "10.96.0.3", 53, 4)
    node.table[late], node.names[late] = Traffic(6), ("kube-system", "late", "53")
    assert node.scrape()["late"] == 6


def test_entry_that_one_dump_lacks_counts_once(node: Node) -> None:
    missing = node.table.pop(DNS)
    node.scrape()
    node.table[DNS] = missing._replace(connections=9)
    assert node.scrape()["dns"] == 2


def test_virtual_server_that_changes_hands_counts_for_each(node: Node) -> None:
    node.table[DNS] = Traffic(10)
    assert node.scrape()["dns"] == 3
    node.names[DNS] = ("kube-system", "dns2", "dns")
    node.table[DNS] = Traffic(14)
    assert node.scrape() == {"web": 0, "dns2": 4}


def test_idle_virtual_server_has_its_new_name_after_a_minute(node: Node) -> None:
    node.names[DNS] = ("kube-system", "dns2", "dns")
    node.now = 61
    assert node.scrape() == {"web": 0, "dns2": 0}


def test_unreadable_kernel_has_no_samples_for_a_while(node: Node) -> None:
    node.broken = True
    assert node.scrape() == {}
    node.broken = False
    assert node.scrape() == {"web": 0, "dns": 0}


def test_top_names_the_busiest_lately() -> None:
    node = Node(most=1)
    node.table = {WEB: Traffic(), DNS: Traffic()}
    node.scrape()
    node.table = {WEB: Traffic(1, packets_in=1000), DNS: Traffic(1, packets_in=10)}
    assert node.scrape() == {"web": 1}
    node.now = 6000  # ten half-lives
    node.table[DNS] = Traffic(2, packets_in=40)
    node.connections = {WEB: 3, DNS: 4}
    assert node.scrape() == {"dns": 2}
    assert node.scrape("active_connections") == {"dns": 4}


CHANGES = st.lists(
    st.tuples(st.sampled_from([WEB, NODE_PORT, DNS]), st.sampled_from(["add", "reset", "remove", "rename"]),
              st.integers(0, 9)), max_size=30,
)  # fmt: skip


@given(CHANGES)
def test_totals_never_go_backwards(changes: list[tuple[VirtualServerKey, str, int]]) -> None:
    node = Node()
    before: dict[str, float] = {}
    for key, what, amount in changes:
        old = node.table.get(key, Traffic())
        if what == "add":
            node.table[key] = Traffic(old.connections + amount)
        elif what == "reset":
            node.table[key] = Traffic(amount)
        elif what == "rename":
            node.names[key] = NAMES[DNS] if node.names[key] == NAMES[WEB] else NAMES[WEB]
        else:
            node.table.pop(key, None)
        now = node.scrape()
        assert all(now[name] >= before.get(name, 0) for name in now)
        before.update(now)


def test_promtool_accepts_service_metrics(node: Node) -> None:
    node.table[DNS] = Traffic(9)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=node.metrics.text(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


SCRIPT = """
import json, sys
from pathlib import Path
sys.path[:0] = ["{root}/tests", "{root}/agent/src"]
from kubenode.daemon.agent import Agent
from kubenode.daemon.inputs.desired_state import Options
from kubenode.daemon.watchers_and_outputs import WatchersAndOutputs
from kubenode.log import Log
path = Path(sys.argv[1])
(path / "config.yaml").write_text(json.dumps(dict(
    apiVersion="kubenode.ipvs/v1alpha1", kind="AgentConfiguration", metrics=dict(services=json.loads(sys.argv[2])))))
(path / "manifests").mkdir()
options = Options(str(path / "config.yaml"), True, str(path / "manifests"), str(path), str(path), "n1", False)
agent = Agent(options, Log("error"))
agent.passes.desired.configure()
parts = WatchersAndOutputs(agent.passes, str(path / "socket"), lambda reason: None)
parts._collect_services()
parts.metrics.text()
print([name for name in sys.modules if name.endswith(("service_metrics", "ipvs.usage", "ipvs.statistics"))])
parts.close()
"""


@pytest.mark.parametrize(("setting", "count"), [("false", 0), ('"off"', 0), ('{"top": 3}', 3), ('"all"', 3)])
def test_off_imports_nothing(tmp_path: Path, setting: str, count: int) -> None:
    words = [sys.executable, "-c", SCRIPT.format(root=ROOT), str(tmp_path), setting]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules: list[Any] = done.stdout.strip("[]\n").split(", ") if done.stdout != "[]\n" else []
    assert len(modules) == count
