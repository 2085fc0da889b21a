# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running agent needs beyond converging: servers, the socket, metrics, and its ears on the source and on the kernel."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._version import VERSION
from ..engine.desired.cluster import Cluster
from ..engine.desired.node_addresses import node_port_addresses
from ..engine.errors import EngineError
from ..engine.model.ipvs import VirtualServerKey
from ..engine.model.kinds import KINDS
from ..engine.model.objects_fields import notes
from ..node import set_oom_score
from ..paths import SOCKET
from . import status, udp
from .control import Control
from .following import Following
from .health import Health, Servers
from .hearing import Hearing
from .metrics import FAMILIES, Metrics

if TYPE_CHECKING:
    from .agent import Agent
    from .reconcile import Report


_TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


class Serving:
    """Made after the first pass, whatever came of it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.metrics = Metrics(VERSION)
        self.health = Health(2 * agent.wanted.config.sync_period)
        self.servers = Servers(agent.loop, agent.log, self.health, self.metrics)
        self.servers.unheard = self._unheard
        self._control: Control | None = None
        self._hearing = Hearing(agent)
        self._following = Following(agent.loop, agent.log, self._use_changes)
        self._listening: tuple[tuple[str, int], tuple[str, int]] | None = None
        self._unclean: set[Any] = set()  # UDP virtual servers whose stale flows could not be removed
        self._triggers: list[tuple[str, float]] = []  # families and causes of changes that are not in the kernel yet
        self._listen()
        self.held_up()

    def close(self) -> None:
        """Close all there is."""
        self.servers.close()
        self._following.close()
        self._hearing.close()
        if self._control is not None:
            self._control.close()

    def _listen(self) -> None:
        """Open the socket for questions and the ears on the kernel; what cannot be opened now is tried again with a full pass."""
        agent = self.agent
        commands: dict[str, Any] = {
            "status": lambda: status.status(agent),
            "names": lambda: status.names(agent),
            "sync": lambda: status.sync(agent),
        }
        try:
            if self._control is None:
                self._control = Control(agent.loop, os.path.join(agent.options.run, SOCKET), commands)
        except OSError as error:
            agent.log.error("kubenode status does not work", reason=str(error))
        try:
            self._hearing.listen()
        except OSError as error:
            agent.log.error("what the kernel tells is only seen once in a syncPeriod", reason=str(error))

    def configured(self) -> None:
        """Follow the configuration: addresses to serve on, the directory to watch."""
        agent, config = self.agent, self.agent.wanted.config
        self.health.timeout = 2 * config.sync_period
        try:
            set_oom_score(config.oom_score_adj)
        except OSError as error:
            agent.log.warning("oomScoreAdj cannot be followed", wanted=config.oom_score_adj, reason=str(error.strerror))
        self._listening = None
        self._listen_on_ports()
        self._following.follow(agent.wanted.source)

    def queued(self) -> None:
        """Something is to be done."""
        self.health.queued()
        for family in FAMILIES.values():
            self.metrics.last_queued.set(time.time(), family)

    def held_up(self) -> None:
        """Something could not be done, and will be tried again."""
        self.queued()
        self._count_problems()
        if self._listening is not None:
            self._listen_on_ports()

    def _count_problems(self) -> None:
        self.metrics.problems.replace({(about,): count for about, count in status.counts(self.agent).items()})

    def passed(self, report: Report, reason: str) -> None:
        """Count what a pass did, and do what follows from it."""
        metrics, agent = self.metrics, self.agent
        # of what fails, only rules make kube-proxy unhealthy: the others are tried again one by one
        broken = {
            key.family for kind, keys in agent.reconciler.failing.items() if KINDS[kind].table == "iptables" for key in keys
        }
        refused = {failure.step.key.family for failure in report.failed if KINDS[failure.step.kind].table == "iptables"}
        if not broken:
            self.health.updated()
        for number, family in FAMILIES.items():
            metrics.sync_seconds.observe(report.seconds, family)
            if number in refused:
                metrics.restore_failures.add(1, family)
            if number not in broken:
                metrics.last_sync.set(time.time(), family)
        for family, happened in self._triggers:
            metrics.programming_seconds.observe(max(0.0, time.time() - happened), family)
        self._triggers = []
        if report.full:
            self._listen()
            metrics.full_syncs.add(1, reason)
            metrics.plan_steps.set(len(report.done) + len(report.failed))
            metrics.items.replace({(kind,): len(items) for kind, items in sorted(agent.reconciler.want.items())})
            metrics.ledger_keys.replace({(owner,): count for owner, count in agent.reconciler.owners().items()})
        for step in report.done:
            metrics.steps.add(1, step.kind, step.verb)
        for failure in report.failed:
            metrics.failed_steps.add(1, failure.step.kind, failure.step.verb)
        for step in report.drift:
            metrics.drift.add(1, step.kind)
        drift = agent.log.first("drift healed", report.drift)
        for step, its in zip(drift, agent.wanted.objects(drift)):
            agent.log.warning("drift healed", **its, step=step.describe(), reason="somebody else has changed it")
        for table, seconds in report.tables.items():
            metrics.apply_seconds.observe(seconds, table)
        metrics.draining.set(len(agent.reconciler.draining))
        self._count_problems()
        metrics.endpoints_pending.set(0)
        metrics.services_pending.set(0)
        self._clean_conntrack(udp.touched(report.done))
        if self._listening is not None:
            self._listen_on_ports()

    def _listen_on_ports(self) -> None:
        """Answer for health, metrics and health checks; but who serves a node that is not ours needs these ports."""
        wanted = self.agent.wanted
        cluster, config, ours = wanted.cluster, wanted.config, not wanted.elsewhere
        fixed = (config.healthz, config.metrics) if ours else (("", 0), ("", 0))
        if fixed != self._listening:
            self._listening = fixed
            self.servers.hard_fail = self.agent.fail if config.bind_address_hard_fail else None
            self.servers.serve(*fixed)
        if cluster is not None:
            self._check(cluster) if ours else self.servers.check({}, ())

    def _check(self, cluster: Cluster) -> None:
        """Follow what the cluster says about health checks."""
        self.servers.check(cluster.health_checks(), _node_port_addresses(cluster))
        cluster.unheard = self.servers.problems
        self.health.eligible = cluster.eligible
        self.metrics.no_local_endpoints.replace(
            {(FAMILIES[family], policy): count for (family, policy), count in cluster.no_local_endpoints().items()}
        )

    def _unheard(self) -> None:
        """Tell which health check node ports cannot be listened on."""
        if self.agent.wanted.cluster is not None:
            self.agent.wanted.cluster.unheard = self.servers.problems
            self.agent.wanted.report()

    def _clean_conntrack(self, servers: set[Any]) -> None:
        """Forget stale UDP flows to these virtual servers, and to those whose serving endpoints have changed."""
        cluster = self.agent.wanted.cluster
        if cluster is None:
            return
        wanted = self.agent.reconciler.want.get("virtual_server", {})
        found = cluster.take_flows(servers | self._unclean)
        serving = {server: places for server, places in found.items() if server in wanted}
        if not serving:
            return
        start = time.monotonic()
        try:
            deleted = udp.clean(serving)
        except EngineError as error:
            self.agent.log.error("stale UDP flows cannot be removed", object=_services(cluster, serving), reason=str(error))
            self._unclean = set(serving)  # the next pass tries again
            return
        self._unclean = set()
        for family, (count, cleaned) in deleted.items():
            self.metrics.conntrack_deleted.add(count, FAMILIES[family])
            self.metrics.conntrack_seconds.observe(time.monotonic() - start, FAMILIES[family])
            if count:
                fields = {"object": _services(cluster, cleaned), "family": FAMILIES[family], "flows": count}
                self.agent.log.info("stale UDP flows removed", **fields, reason="no endpoint answers them any more")

    # the source

    def _use_changes(self, names: set[str] | None) -> None:
        """Take over what changed in the source, and make it so."""
        changes = self.agent.wanted.refresh(names)
        for item in changes.put:
            if item["kind"] == "EndpointSlice" and _trigger(item) > self.agent.started:  # older ones say nothing about us
                self._triggers.append((str(item.get("addressType")), _trigger(item)))
        services = endpoints = 0
        for kind in [item["kind"] for item in changes.put] + [key.kind for key in changes.removed]:
            services += kind == "Service"
            endpoints += kind == "EndpointSlice"
        self.metrics.services_total.add(services)
        self.metrics.endpoints_total.add(endpoints)
        self.metrics.services_pending.add(services)
        self.metrics.endpoints_pending.add(endpoints)
        self.agent.changed()


def _node_port_addresses(cluster: Cluster) -> tuple[str, ...]:
    """Return where health check node ports listen: everywhere, or on the addresses that nodePortAddresses selects."""
    selectors, known = cluster.config.node_port_addresses, cluster.facts
    if not selectors:
        return ("::",)
    found = (node_port_addresses(family, known.addresses, selectors, known.node_ips) for family in FAMILIES)
    return tuple(address for addresses in found for address in addresses)


def _services(cluster: Cluster, servers: Iterable[VirtualServerKey]) -> str:
    """Return the Services of virtual servers: ``namespace/name``, with commas between several."""
    return ",".join(sorted(set(cluster.whose(("virtual_server", server) for server in servers).values())))


def _trigger(item: Mapping[str, Any]) -> float:
    """Return when the cause of an EndpointSlice's change happened (seconds since the epoch), 0 if it does not say."""
    text = str(notes(item).get(_TRIGGER_TIME))
    try:
        return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float("0" + text[19:].rstrip("Z"))
    except (TypeError, ValueError):
        return 0.0
