# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health by passes, and the addresses to answer on by configuration, Services and node."""

from __future__ import annotations

from typing import Callable

from ...engine.desired.cluster import Cluster
from ...engine.desired.node_addresses import node_port_addresses
from ..interfaces import AgentControl
from ..pass_result import PassResult, PassSubscriber
from .families import broken_families
from .health import Health, Servers
from .metrics import FAMILIES, Metrics


class HealthOutput(PassSubscriber):
    """Keeps the node's health up to date, and its HTTP servers listening.

    ``fail`` gets the reason why the agent must stop: its thread for HTTP has ended, or with ``bindAddressHardFail`` a
    server cannot listen.
    """

    def __init__(self, agent: AgentControl, metrics: Metrics, fail: Callable[[str], None]) -> None:
        self.health = Health(2 * agent.desired.config.sync_period)
        self._agent = agent
        self._fail = fail
        self._servers = Servers(agent.loop, agent.log, self.health, metrics)
        self._servers.problems_changed = self._report_errors
        self._servers.ended = fail
        self._listening: tuple[tuple[str, int], tuple[str, int]] | None = None  # None until the first configuration

    def configured(self) -> None:
        """Apply the configuration: how long an update may wait, and the addresses to listen on."""
        self.health.timeout = 2 * self._agent.desired.config.sync_period
        self._listening = None
        self._listen()

    def close(self) -> None:
        """Stop the servers."""
        self._servers.close()

    def queued(self) -> None:
        """Record that an update is pending."""
        self.health.queued()

    def delayed(self) -> None:
        """Record that an update is pending still; the node may have got or lost its label meanwhile."""
        self.health.queued()
        if self._listening is not None:
            self._listen()

    def passed(self, _result: PassResult, _reason: str) -> None:
        """Record an update, unless rules fail, and listen for the health checks of the present Services."""
        if not broken_families(self._agent.reconciler.failing):
            self.health.updated()
        if self._listening is not None:
            self._listen()

    def _listen(self) -> None:
        """Listen for health, metrics and health checks.

        On a node that another proxy serves (``nodeSelector``), that one needs these ports.
        """
        desired = self._agent.desired
        cluster, config, is_ours = desired.cluster, desired.config, not desired.elsewhere
        fixed = (config.healthz, config.metrics) if is_ours else (("", 0), ("", 0))
        if fixed != self._listening:
            self._listening = fixed
            self._servers.hard_fail = self._fail if config.bind_address_hard_fail else None
            self._servers.serve(*fixed)
        if cluster is None:
            return
        if not is_ours:
            self._servers.check({}, ())
            return
        self._servers.check(cluster.health_checks(), _health_check_addresses(cluster))
        desired.use_health_check_errors(self._servers.problems)
        self.health.eligible = cluster.eligible

    def _report_errors(self) -> None:
        """Report the health check node ports that the agent cannot listen on."""
        desired = self._agent.desired
        desired.use_health_check_errors(self._servers.problems)
        desired.report()


def _health_check_addresses(cluster: Cluster) -> tuple[str, ...]:
    """Return where health check node ports listen: everywhere, or on the addresses that nodePortAddresses selects."""
    selectors, known = cluster.config.node_port_addresses, cluster.facts
    if not selectors:
        return ("::",)
    selected = (node_port_addresses(family, known.addresses, selectors, known.node_ips) for family in FAMILIES)
    return tuple(address for addresses in selected for address in addresses)
