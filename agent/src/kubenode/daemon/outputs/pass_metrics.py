# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count changes and passes in the metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ...engine.desired.service_vips import FIELDS
from ...engine.kubernetes.fields import notes
from ..interfaces import AgentView
from ..pass_result import PassResult, PassSubscriber
from . import status
from .families import broken_families, families_of, rule_families
from .metrics import FAMILIES, MOST_LOSERS, Metrics

_TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


class PassMetrics(PassSubscriber):
    """Updates the metrics."""

    def __init__(self, agent: AgentView, metrics: Metrics) -> None:
        self._agent = agent
        self._metrics = metrics
        self._triggers: list[tuple[str, float]] = []  # families and causes of changes that wait for a pass

    def count_changes(self, put: Iterable[Mapping[str, Any]], removed: Iterable[str]) -> None:
        """Count objects that the source has put, and the kinds of those that it has removed."""
        kinds = list(removed)
        for item in put:
            kinds.append(item["kind"])
            # an older cause says nothing about the agent
            if item["kind"] == "EndpointSlice" and _trigger(item) > self._agent.started:
                self._triggers.append((str(item.get("addressType")), _trigger(item)))
        metrics, services, endpoints = self._metrics, kinds.count("Service"), kinds.count("EndpointSlice")
        metrics.services_total.add(services)
        metrics.endpoints_total.add(endpoints)
        metrics.services_pending.add(services)
        metrics.endpoints_pending.add(endpoints)

    def queued(self) -> None:
        """Note when a pass was requested last."""
        for family in FAMILIES.values():
            self._metrics.last_queued.set(time.time(), family)

    def delayed(self) -> None:
        """Count the problems, and note that a pass is requested still."""
        self.queued()
        self._count_problems()

    def passed(self, result: PassResult, reason: str) -> None:
        """Count what a pass did."""
        metrics, reconciler = self._metrics, self._agent.reconciler
        self._time_pass(result)
        if result.full:
            metrics.full_syncs.add(1, reason)
            metrics.plan_steps.set(len(result.done) + len(result.failed))
            metrics.items.replace({(kind,): len(items) for kind, items in sorted(reconciler.want.items())})
            metrics.ledger_keys.replace({(owner,): count for owner, count in reconciler.ledger.owners().items()})
        for step in result.done:
            metrics.steps.add(1, step.kind, step.verb)
        for failure in result.failed:
            metrics.failed_steps.add(1, failure.step.kind, failure.step.verb)
        for step in result.drift:
            metrics.drift.add(1, step.kind)
        for table, seconds in result.tables.items():
            metrics.apply_seconds.observe(seconds, table)
        metrics.draining.set(len(reconciler.draining))
        self._count_problems()
        metrics.endpoints_pending.set(0)
        metrics.services_pending.set(0)

    def _time_pass(self, result: PassResult) -> None:
        """Observe durations and times, by address family."""
        metrics, reconciler = self._metrics, self._agent.reconciler
        families, broken = families_of(result, reconciler.want), broken_families(reconciler.failing)
        refused = rule_families((failure.step.kind, failure.step.key) for failure in result.failed)
        for number, family in FAMILIES.items():
            if number in families:
                metrics.sync_seconds.observe(result.seconds, family)
            if number in refused:
                metrics.restore_failures.add(1, family)
            if number not in broken:
                metrics.last_sync.set(time.time(), family)
        for family, happened in self._triggers:
            metrics.programming_seconds.observe(max(0.0, time.time() - happened), family)
        self._triggers = []

    def _count_problems(self) -> None:
        metrics, desired = self._metrics, self._agent.desired
        metrics.problems.replace({(about,): count for about, count in status.counts(self._agent).items()})
        cluster = desired.cluster
        if cluster is not None:
            metrics.contested.replace({(FIELDS[origin],): count for origin, count in cluster.contested().items()})
            losers = cluster.losers(MOST_LOSERS).items()
            metrics.losers.replace({(namespace, name): count for (namespace, name), count in losers})
            metrics.refused.set(cluster.refused())
            if not desired.elsewhere:
                counts = cluster.no_local_endpoints()
                metrics.no_local_endpoints.replace({(FAMILIES[key[0]], key[1]): count for key, count in counts.items()})


def _trigger(item: Mapping[str, Any]) -> float:
    """Return when the cause of an EndpointSlice's change happened (seconds since the epoch), 0 if it does not say."""
    text = str(notes(item).get(_TRIGGER_TIME))
    try:
        moment = datetime.fromisoformat(text[:19]).replace(tzinfo=timezone.utc)  # strptime loads code at the first call
        return moment.timestamp() + float("0" + text[19:].rstrip("Z"))
    except (TypeError, ValueError):
        return 0.0
