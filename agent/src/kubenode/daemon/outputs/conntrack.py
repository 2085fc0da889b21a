# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count and log the deletion of stale UDP flows from conntrack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..interfaces import AgentView
from .metrics import FAMILIES, Metrics


class FlowReport:
    """Reports deletions, and those that failed, with the Services of the flows."""

    def __init__(self, agent: AgentView, metrics: Metrics) -> None:
        self._agent = agent
        self._metrics = metrics

    def deleted(self, family: int, count: int, servers: set[Any], seconds: float) -> None:
        """Report deleted flows to these virtual servers."""
        self._metrics.conntrack_deleted.add(count, FAMILIES[family])
        self._metrics.conntrack_seconds.observe(seconds, FAMILIES[family])
        if count and self._agent.desired.cluster is not None:
            fields = {"object": self._services(servers), "family": FAMILIES[family], "flows": count}
            self._agent.log.info("stale UDP flows removed", **fields, reason="no endpoint answers them any more")

    def failed(self, servers: set[Any], error: Exception) -> None:
        """Report virtual servers whose stale flows may be left."""
        self._agent.log.error("stale UDP flows cannot be removed", object=self._services(servers), reason=str(error))

    def _services(self, servers: Iterable[Any]) -> str:
        """Return the Services of virtual servers: ``namespace/name``, with commas between several."""
        cluster = self._agent.desired.cluster
        if cluster is None:
            return ""
        return ",".join(sorted(set(cluster.whose(("virtual_server", server) for server in servers).values())))
