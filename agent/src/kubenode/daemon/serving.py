# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of a running agent beside its passes: HTTP servers, control socket, metrics and subscriptions.

The subscriptions are to the source and to the kernel.
"""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from .._version import VERSION
from ..engine.desired.cluster import Cluster
from ..engine.desired.node_addresses import node_port_addresses
from ..engine.desired.service_vips import FIELDS
from ..engine.errors import EngineError
from ..engine.kubernetes.fields import notes
from ..engine.model import ReadState
from ..engine.model.ipvs import VirtualServerKey
from ..engine.model.kinds import KINDS
from ..engine.model.net import family as address_family
from ..engine.proxy.node import set_oom_score
from ..paths import SOCKET
from .inputs.kernel_watcher import KernelWatcher
from .inputs.source_watcher import SourceWatcher
from .interfaces import AgentControl
from .outputs import status
from .outputs.control import Control
from .outputs.health import Health, Servers
from .outputs.metrics import FAMILIES, Metrics
from .pass_result import PassResult
from .sync import stale_udp as udp

_TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


class Serving:
    """Made after the first pass, whatever came of it."""

    def __init__(self, agent: AgentControl) -> None:
        self.agent = agent
        self.metrics = Metrics(VERSION)
        self.health = Health(2 * agent.desired.config.sync_period)
        self.servers = Servers(agent.loop, agent.log, self.health, self.metrics)
        self.servers.problems_changed = self._report_health_checks
        self.servers.ended = agent.fail
        self._control: Control | None = None
        self._kernel_watcher = KernelWatcher(agent)
        self._source_watcher = SourceWatcher(agent.loop, agent.log, self._use_changes)
        self._listening: tuple[tuple[str, int], tuple[str, int]] | None = None
        self._cleaner = udp.FlowCleaner(agent.loop, self._flows_deleted, self._flows_left)
        self._unclean: set[Any] = set()  # UDP virtual servers whose stale flows could not be removed
        self._triggers: list[tuple[str, float]] = []  # families and causes of changes that are not in the kernel yet
        self._listen()
        self.held_up()

    def close(self) -> None:
        """Close servers, subscriptions and sockets."""
        self._cleaner.close()
        self.servers.close()
        self._source_watcher.close()
        self._kernel_watcher.close()
        if self._control is not None:
            self._control.close()

    def _listen(self) -> None:
        """Open the control socket and the kernel subscriptions; each full pass tries again what could not be opened."""
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
            self._kernel_watcher.listen()
        except OSError as error:
            agent.log.error("what the kernel tells is only seen once in a syncPeriod", reason=str(error))

    def configured(self) -> None:
        """Follow the configuration: addresses to serve on, the directory to watch."""
        agent, config = self.agent, self.agent.desired.config
        self.health.timeout = 2 * config.sync_period
        try:
            set_oom_score(config.oom_score_adj)
        except OSError as error:
            agent.log.warning("oomScoreAdj cannot be followed", wanted=config.oom_score_adj, reason=str(error.strerror))
        self._listening = None
        self._listen_on_ports()
        self._source_watcher.follow(agent.desired.source)

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
        cluster = self.agent.desired.cluster
        if cluster is not None:
            self.metrics.contested.replace({(FIELDS[origin],): count for origin, count in cluster.contested().items()})
            self.metrics.refused.set(cluster.refused())

    def passed(self, report: PassResult, reason: str) -> None:
        """Count what a pass did, and do what follows from it."""
        metrics, agent = self.metrics, self.agent
        # of what fails, only rules make kube-proxy unhealthy: the others are tried again one by one
        broken = {
            key.family
            for kind, keys in agent.reconciler.failing.items()
            if KINDS[kind].table == "iptables"
            for key in keys
        }
        refused = {failure.step.key.family for failure in report.failed if KINDS[failure.step.kind].table == "iptables"}
        if not broken:
            self.health.updated()
        about = _families(report, agent.reconciler.want)
        for number, family in FAMILIES.items():
            if number in about:
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
            metrics.ledger_keys.replace({(owner,): count for owner, count in agent.reconciler.ledger.owners().items()})
        for step in report.done:
            metrics.steps.add(1, step.kind, step.verb)
        for failure in report.failed:
            metrics.failed_steps.add(1, failure.step.kind, failure.step.verb)
        for step in report.drift:
            metrics.drift.add(1, step.kind)
        drift = agent.log.first("drift healed", report.drift)
        for step, its in zip(drift, agent.desired.objects(drift)):
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
        wanted = self.agent.desired
        cluster, config, ours = wanted.cluster, wanted.config, not wanted.elsewhere
        fixed = (config.healthz, config.metrics) if ours else (("", 0), ("", 0))
        if fixed != self._listening:
            self._listening = fixed
            self.servers.hard_fail = self.agent.fail if config.bind_address_hard_fail else None
            self.servers.serve(*fixed)
        if cluster is not None:
            self._check(cluster) if ours else self.servers.check({}, ())

    def _check(self, cluster: Cluster) -> None:
        """Serve the cluster's health checks."""
        self.servers.check(cluster.health_checks(), _node_port_addresses(cluster))
        cluster.health_check_errors = self.servers.problems
        self.health.eligible = cluster.eligible
        self.metrics.no_local_endpoints.replace(
            {(FAMILIES[family], policy): count for (family, policy), count in cluster.no_local_endpoints().items()}
        )

    def _report_health_checks(self) -> None:
        """Report the health check node ports that the agent cannot listen on."""
        if self.agent.desired.cluster is not None:
            self.agent.desired.cluster.health_check_errors = self.servers.problems
            self.agent.desired.report()

    def _clean_conntrack(self, servers: set[Any]) -> None:
        """Forget stale UDP flows to these virtual servers, and to those whose serving endpoints have changed."""
        cluster = self.agent.desired.cluster
        if cluster is None:
            return
        wanted = self.agent.reconciler.want.get("virtual_server", {})
        asked = servers | self._unclean | self._cleaner.pending
        found = cluster.take_flows(asked)
        serving = {server: places for server, places in found.items() if server in wanted}
        self._unclean = set()
        self._cleaner.forget(asked - serving.keys())
        self._cleaner.clean(serving)

    def _flows_deleted(self, family: int, count: int, servers: set[Any], seconds: float) -> None:
        self.metrics.conntrack_deleted.add(count, FAMILIES[family])
        self.metrics.conntrack_seconds.observe(seconds, FAMILIES[family])
        cluster = self.agent.desired.cluster
        if count and cluster is not None:
            fields = {"object": _services(cluster, servers), "family": FAMILIES[family], "flows": count}
            self.agent.log.info("stale UDP flows removed", **fields, reason="no endpoint answers them any more")

    def _flows_left(self, servers: set[Any], error: EngineError) -> None:
        """Report what could not be cleaned; the next pass tries again."""
        cluster = self.agent.desired.cluster
        services = _services(cluster, servers) if cluster is not None else ""
        self.agent.log.error("stale UDP flows cannot be removed", object=services, reason=str(error))
        self._unclean = servers

    # the source

    def _use_changes(self, names: set[str] | None) -> None:
        """Take over what changed in the source, and make it so."""
        changes = self.agent.desired.refresh(names)
        for item in changes.put:
            # older ones say nothing about us
            if item["kind"] == "EndpointSlice" and _trigger(item) > self.agent.started:
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


def _families(report: PassResult, want: ReadState) -> set[int]:
    """Return the address families that a pass was about: those of its steps.

    A pass that compared everything adds the families of the desired virtual servers.
    """
    found: set[int] = set()
    steps = [(step.kind, step.key) for step in (*report.done, *(failure.step for failure in report.failed))]
    for kind, key in chain(steps, (("virtual_server", key) for key in want.get("virtual_server", ()) if report.full)):
        found.add(_family(kind, key))
        if found >= FAMILIES.keys():
            break
    return found


def _family(kind: str, key: Any) -> int:
    """Return the family of an item, 0 if it has none."""
    if kind in ("set", "member"):
        return 6 if (key if kind == "set" else key.set).startswith("KUBE-6-") else 4
    if kind in ("address", "route"):
        return address_family(key[1])
    return int(getattr(getattr(key, "server", key), "family", 0))


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
