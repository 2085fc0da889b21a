# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconciler of a cluster on a fake node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.clusters import objects as make
from support.fakes.node import PaperNode

from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.errors import KernelError
from kubenode.engine.ledger import Ledger
from kubenode.engine.model.ipvs import VirtualServerKey

FACTS = NodeFacts("n1", (("eth0", "192.0.2.1"),), ("192.0.2.1",))
CONFIG = Config(conntrack_tcp_established_timeout=0, conntrack_tcp_close_wait_timeout=0)


class FakeNode(PaperNode):
    """Fake node without connections; it counts its reads."""

    def __init__(self) -> None:
        super().__init__({})
        self.reads = 0
        self.broken = False

    def read(self, want: Any, owned: Any) -> Any:
        if self.broken:
            raise KernelError("broken")
        self.reads += 1
        return super().read(want, owned)

    def connections(self, _of: Any) -> Any:
        return {}


def web(name: str, host: int, endpoints: int, protocol: str = "TCP") -> list[dict[str, Any]]:
    port = [make.port(80, "p", protocol)]
    slices = [make.endpoint(f"10.244.{host}.{number}", "n1") for number in range(1, endpoints + 1)]
    return [make.service(name, [f"10.96.0.{host}"], port), make.piece(name, slices, port)]


class Driver:
    """Cluster with its reconciler."""

    def __init__(self, directory: Path) -> None:
        self.node = FakeNode()
        self.cluster = Cluster(CONFIG, FACTS)
        self.directory = str(directory)
        self.reconciler = Reconciler(self.node, self.directory)

    def put(self, *items: dict[str, Any]) -> None:
        for item in items:
            self.cluster.put(item)

    def full(self) -> Any:
        self.reconciler.accept(self.cluster.take())
        return self.reconciler.full()

    def event(self) -> Any:
        self.reconciler.accept(self.cluster.take())
        return self.reconciler.changed()

    def compare(self) -> Any:
        """Begin a comparison in slices, after an event."""
        self.event()
        return self.reconciler.compare()

    def settle(self) -> None:
        """Drain all real servers."""
        for _time in range(3):
            self.reconciler.drain()

    def wanted(self) -> Any:
        state = {kind: dict(items) for kind, items in self.cluster.state().items() if items}
        state["jump"] = set(state["jump"])
        return state

    def held(self) -> Any:
        state = {kind: dict(items) for kind, items in self.node.state.items() if items}
        state["jump"] = set(state["jump"])
        return state

    def claim_as(self, owner: str, address: str) -> None:
        """Claim the virtual server of a service with this address for another owner."""
        ledger = Ledger(self.directory)
        ledger.claim(owner, [("virtual_server", VirtualServerKey("tcp", address, 80, 4))])
        ledger.close()
