# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wiring of what only a running agent needs: watchers of source and kernel, and the outputs that follow passes.

Imported after the first pass, which does not wait for these imports.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from .._version import VERSION
from ..engine.model.ipvs import VirtualServerKey
from ..paths import HISTORY
from .inputs.kernel_watcher import KernelWatcher
from .inputs.source_watcher import SourceWatcher
from .interfaces import AgentControl
from .outputs import status
from .outputs.conntrack import FlowReport
from .outputs.control import ControlSocket
from .outputs.health_output import HealthOutput
from .outputs.metrics import Metrics
from .outputs.pass_metrics import PassMetrics
from .sync.stale_udp import StaleFlows

if TYPE_CHECKING:
    from .outputs.history import HistoryRecorder


class WatchersAndOutputs:
    """Parts that start after the first pass, whatever came of it. ``fail`` stops the agent, for a reason."""

    def __init__(self, agent: AgentControl, socket: str, fail: Callable[[str], None]) -> None:
        self.metrics = Metrics(VERSION)
        self.health_output = HealthOutput(agent, self.metrics, fail)
        self.pass_metrics = PassMetrics(agent, self.metrics)
        self.kernel_watcher = KernelWatcher(agent)
        self._agent = agent
        self._metrics_services: str | int = "off"
        self._history: HistoryRecorder | None = None
        self._is_configured = False
        self._history_size = 0  # of the ring in bytes, 0 for none
        self._source_watcher = SourceWatcher(agent.loop, agent.log, self.use_changes)
        flow_report = FlowReport(agent, self.metrics)
        self._stale_flows = StaleFlows(
            agent.loop, lambda: agent.desired.cluster, agent.reconciler, flow_report.deleted, flow_report.failed
        )
        commands = {
            "status": lambda: status.status(agent),
            "names": lambda: status.names(agent),
            "services": lambda: status.services(agent),
            "sync": lambda: status.sync(agent),
        }
        self._control_socket = ControlSocket(agent.loop, agent.log, socket, commands)
        self._subscribers = (
            self._control_socket, self.kernel_watcher, self.pass_metrics, self._stale_flows, self.health_output,
        )  # fmt: skip
        self._control_socket.open()
        self.kernel_watcher.listen()
        for subscriber in self._subscribers:
            subscriber.delayed()
        agent.subscribe(*self._subscribers)

    def begin(self) -> None:
        """Hand on the first pass, which nothing here has seen."""
        first = self._agent.record.last
        if first is not None:
            for subscriber in self._subscribers:
                subscriber.passed(first, "start")

    def configured(self) -> None:
        """Apply the configuration: addresses to listen on, the directory to watch."""
        self._collect_services()
        self._record_history()
        self._is_configured = True
        self.health_output.configured()
        self._source_watcher.follow(self._agent.desired.source)

    def _collect_services(self) -> None:
        """Begin or end the metrics that name Services; without them, nothing of theirs is imported or read."""
        wanted = self._agent.desired.config.metrics_services
        if wanted == self._metrics_services:
            return
        self.metrics.hide_services()
        if wanted == "off":
            self._metrics_services = wanted
            return
        from ..engine.kernel.ipvs.usage import UsageReader
        from .outputs.service_metrics import ServiceMetrics

        reader, most = UsageReader(), None if wanted == "all" else int(wanted)
        self.metrics.collect = ServiceMetrics(self.metrics, most, reader, self._port_of).collect
        self._metrics_services = wanted

    def _record_history(self) -> None:
        """Begin or end the history; without it, nothing of it is imported."""
        config = self._agent.desired.config
        wanted = config.history_size if config.history_enabled else 0
        if wanted == self._history_size or self._agent.desired.cluster is None:
            return
        if self._history is not None:
            self._agent.unsubscribe(self._history)
            self._history.close()
            self._history = None
        if wanted:
            from .outputs.history import HistoryRecorder

            self._history = HistoryRecorder(self._agent, os.path.join(self._agent.desired.directory, HISTORY), wanted)
            self._agent.subscribe(self._history)
            self._history.begin("reload" if self._is_configured else "start")
        self._history_size = wanted

    def _port_of(self, key: VirtualServerKey) -> tuple[str, str, str] | None:
        cluster = self._agent.desired.cluster
        return cluster.peek_port(key) if cluster is not None else None

    def close(self) -> None:
        """Close servers, subscriptions and sockets."""
        self._stale_flows.close()
        self.health_output.close()
        self._source_watcher.close()
        self.kernel_watcher.close()
        self._control_socket.close()
        if self._history is not None:
            self._history.close()

    def use_changes(self, names: set[str] | None) -> None:
        """Take changes from the source, count them, and request a pass."""
        changes = self._agent.desired.refresh(names)
        if self._history is not None:
            self._history.use_objects(changes.put, changes.removed)
        self.pass_metrics.count_changes(changes.put, [key.kind for key in changes.removed])
        self._agent.changed()
