# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of the agent.

``kubeproxy_*`` are kube-proxy's own, with its names, types, labels, buckets and help texts (Kubernetes 1.36), so that
dashboards and alerts keep working. ``kubenode_*`` are specific to this agent. Families are labelled ``IPv4`` and
``IPv6``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

from .exposition import Histogram, Metric, PreparedMetric, exposition

FAMILIES = {4: "IPv4", 6: "IPv6"}
SERVICE_LABELS = ("namespace", "service", "port")
MOST_LOSERS = 20  # Services that are named: tenants can have any number of them
_SYNC_BUCKETS = [0.001 * 2**power for power in range(15)]
_PROGRAMMING_BUCKETS = [0, 0.25, 0.5, *range(1, 60), *range(60, 120, 5), *range(120, 301, 30)]


class Metrics:
    """All metrics of the agent, as attributes."""

    def __init__(self, version: str) -> None:
        family = ["ip_family"]
        sync = "kubeproxy_sync_proxy_rules_"
        self.sync_seconds = Histogram(
            f"{sync}duration_seconds", "[ALPHA] SyncProxyRules latency in seconds", family, _SYNC_BUCKETS
        )
        self.programming_seconds = Histogram(
            "kubeproxy_network_programming_duration_seconds",
            "[ALPHA] In Cluster Network Programming Latency in seconds",
            family,
            _PROGRAMMING_BUCKETS,
        )
        self.last_sync = Metric(
            "gauge",
            f"{sync}last_timestamp_seconds",
            "[ALPHA] The last time proxy rules were successfully synced",
            family,
        )
        self.last_queued = Metric(
            "gauge",
            f"{sync}last_queued_timestamp_seconds",
            "[ALPHA] The last time a sync of proxy rules was queued",
            family,
        )
        self.endpoints_pending = Metric(
            "gauge", f"{sync}endpoint_changes_pending", "[ALPHA] Pending proxy rules Endpoint changes"
        )
        self.endpoints_total = Metric(
            "counter", f"{sync}endpoint_changes_total", "[ALPHA] Cumulative proxy rules Endpoint changes"
        )
        self.services_pending = Metric(
            "gauge", f"{sync}service_changes_pending", "[ALPHA] Pending proxy rules Service changes"
        )
        self.services_total = Metric(
            "counter", f"{sync}service_changes_total", "[ALPHA] Cumulative proxy rules Service changes"
        )
        self.restore_failures = Metric(
            "counter",
            f"{sync}iptables_restore_failures_total",
            "[ALPHA] Cumulative proxy iptables restore failures",
            family,
        )
        self.no_local_endpoints = Metric(
            "gauge",
            f"{sync}no_local_endpoints_total",
            "[ALPHA] Number of services with a Local traffic policy and no endpoints",
            [*family, "traffic_policy"],
        )
        self.healthz = Metric(
            "counter", "kubeproxy_proxy_healthz_total", "[ALPHA] Cumulative proxy healthz HTTP status", ["code"]
        )
        self.livez = Metric(
            "counter", "kubeproxy_proxy_livez_total", "[ALPHA] Cumulative proxy livez HTTP status", ["code"]
        )
        self.conntrack_seconds = Histogram(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "[ALPHA] ReconcileConntrackFlowsLatency latency in seconds",
            family,
            _SYNC_BUCKETS,
        )
        self.conntrack_deleted = Metric(
            "counter",
            "kubeproxy_conntrack_reconciler_deleted_entries_total",
            "[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler",
            family,
        )
        self.build = Metric("gauge", "kubenode_build_info", "The agent's version.", ["version"])
        self.plan_steps = Metric("gauge", "kubenode_plan_steps", "Steps of the last full comparison's plan.")
        self.steps = Metric(
            "counter", "kubenode_steps_total", "Steps done, by kind of item and verb.", ["kind", "verb"]
        )
        self.failed_steps = Metric(
            "counter", "kubenode_failed_steps_total", "Steps that the kernel refused.", ["kind", "verb"]
        )
        self.drift = Metric(
            "counter", "kubenode_drift_healed_total", "Steps that reverted changes of another process.", ["kind"]
        )
        self.apply_seconds = Histogram(
            "kubenode_apply_duration_seconds", "Writing to one table, in seconds.", ["table"], _SYNC_BUCKETS
        )
        self.read_seconds = Histogram(
            "kubenode_read_duration_seconds", "Reading all tables, in seconds.", [], _SYNC_BUCKETS
        )
        self.full_syncs = Metric(
            "counter", "kubenode_full_syncs_total", "Full comparisons with the kernel, by reason.", ["reason"]
        )
        self.items = Metric("gauge", "kubenode_desired_items", "Items that are wanted, by kind.", ["kind"])
        self.ledger_keys = Metric("gauge", "kubenode_ledger_keys", "Keys in the ledger, by owner.", ["owner"])
        self.draining = Metric(
            "gauge", "kubenode_draining_real_servers", "Real servers that wait for their last connection to end."
        )
        self.problems = Metric(
            "gauge", "kubenode_problems", "Things that could not be used or done, by what they are about.", ["about"]
        )
        self.contested = Metric(
            "gauge",
            "kubenode_contested_virtual_servers",
            "Virtual servers that one Service claims and another one holds, by the field of the claim.",
            ["field"],
        )
        self.losers = Metric(
            "gauge",
            "kubenode_contested_service_virtual_servers",
            f"Virtual servers that this Service claims and another one holds, for the first {MOST_LOSERS} Services.",
            ["namespace", "service"],
        )
        self.refused = Metric(
            "gauge",
            "kubenode_refused_addresses",
            "Addresses of Services that may not be served, and Services that are too large.",
        )
        service = "kubenode_service_"
        self.service_connections = PreparedMetric(
            "counter",
            f"{service}connections_total",
            "Connections to a Service port since the agent started.",
            SERVICE_LABELS,
        )
        self.service_packets = PreparedMetric(
            "counter",
            f"{service}packets_total",
            "Packets of a Service port since the agent started, in and out.",
            SERVICE_LABELS,
        )
        self.service_bytes = PreparedMetric(
            "counter",
            f"{service}bytes_total",
            "Bytes of a Service port since the agent started, in and out.",
            SERVICE_LABELS,
        )
        self.service_active = PreparedMetric(
            "gauge", f"{service}active_connections", "Active connections of a Service port.", SERVICE_LABELS
        )
        self.collect: Callable[[], None] | None = None  # called before each rendering
        self.resident = Metric("gauge", "process_resident_memory_bytes", "Resident memory size in bytes.")
        self.cpu = Metric("counter", "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")
        self.start_time = Metric(
            "gauge", "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
        )
        self.descriptors = Metric("gauge", "process_open_fds", "Number of open file descriptors.")
        self.build.set(1, version)
        for metric in (
            self.endpoints_pending,
            self.endpoints_total,
            self.services_pending,
            self.services_total,
            self.draining,
        ):
            metric.set(0)

    def text(self) -> str:
        """Return all metrics in the exposition format."""
        collect = self.collect  # the agent's thread may replace it
        if collect is not None:
            collect()
        self._process()
        return exposition(self._all())

    def hide_services(self) -> None:
        """Drop the metrics that name Services."""
        self.collect = None
        for metric in (self.service_connections, self.service_packets, self.service_bytes, self.service_active):
            metric.samples = []

    def _all(self) -> Iterable[Metric | Histogram]:
        return [value for value in vars(self).values() if isinstance(value, (Metric, Histogram))]

    def _process(self) -> None:
        import os
        import time

        used = os.times()
        self.cpu.set(round(used.user + used.system + used.children_user + used.children_system, 2))
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                self.resident.set(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            with open("/proc/self/stat", encoding="ascii") as file:
                ticks = int(file.read().rpartition(")")[2].split()[19])
            self.start_time.set(
                round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK"), 2)
            )
            self.descriptors.set(len(os.listdir("/proc/self/fd")))
        except OSError:
            pass  # without /proc, these metrics are not updated
