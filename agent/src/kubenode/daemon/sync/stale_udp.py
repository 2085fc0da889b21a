# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete stale UDP flows, those that no endpoint of their service answers, so that their next packet is balanced again.

A client that keeps sending from one port keeps its flow alive for ever (kubernetes/kubernetes#76664). A flow is judged
as kube-proxy does (``CleanStaleEntries``): by original destination and reply source, and by all serving endpoints,
chosen or not. A flow stays if a terminating endpoint answers it, or an endpoint that a traffic policy excludes. It also
stays if no endpoint serves the service.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...engine.plan import Step
from ..loop import Loop
from ..pass_result import STOPPED, PassResult, PassSubscriber
from .reconciler import Reconciler

if TYPE_CHECKING:
    from ...engine.desired.cluster import Cluster
    from ...engine.kernel.nfnetlink.conntrack import Flow

AddressPort = tuple[str, int]  # address, port
Serving = Mapping[Any, frozenset[AddressPort]]  # virtual server -> endpoints that may answer


def touched(steps: Iterable[Step]) -> set[Any]:
    """Return the UDP virtual servers with created, changed or removed real servers."""
    return {step.key.server for step in steps if step.kind == "real_server" and step.key.server.protocol == "udp"}


def stale(flows: Iterable[Flow], serving: Serving) -> list[Flow]:
    """Return the flows to one of these virtual servers that none of its endpoints answers."""
    answering = {(server.address, server.port): endpoints for server, endpoints in serving.items()}
    unanswered = []
    for flow in flows:
        endpoints = answering.get((flow.destination, flow.destination_port))
        if endpoints is not None and (flow.reply_source, flow.reply_source_port) not in endpoints:
            unanswered.append(flow)
    return unanswered


class FlowCleaner:
    """Deletes stale UDP flows in slices, between which the loop serves everything else.

    Args:
        loop: the agent's loop.
        cleaned: gets family, number of deleted flows, their virtual servers and seconds, when a family is done.
        failed: gets the virtual servers whose stale flows may be left, and the reason.
    """

    def __init__(
        self,
        loop: Loop,
        cleaned: Callable[[int, int, set[Any], float], None],
        failed: Callable[[set[Any], Exception], None],
    ) -> None:
        self._loop = loop
        self._cleaned = cleaned
        self._failed = failed
        self._serving: dict[Any, frozenset[AddressPort]] = {}  # being deleted
        self._next: dict[Any, frozenset[AddressPort]] = {}  # requested since the deletion began
        self._work: Generator[None, None, None] | None = None

    @property
    def pending(self) -> set[Any]:
        """Return the virtual servers whose stale flows are not deleted yet."""
        return {*self._serving, *self._next}

    def clean(self, serving: Serving) -> None:
        """Delete the stale flows to these virtual servers.

        A running deletion continues with the new endpoints, and is repeated for these virtual servers.
        """
        for server in self._serving.keys() & serving.keys():
            self._serving[server] = serving[server]
        self._next.update(serving)
        if self._work is None and self._next:
            self._begin()

    def forget(self, servers: Iterable[Any]) -> None:
        """Leave the flows to these virtual servers alone: no endpoint serves them."""
        for server in servers:
            self._serving.pop(server, None)
            self._next.pop(server, None)

    def close(self) -> None:
        """Stop, even if stale flows are left."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def _begin(self) -> None:
        self._serving, self._next = self._next, {}
        self._work = self._cleaning()
        self._slice()

    def _slice(self) -> None:
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration:
            self._work = None
            self._serving = {}
            if self._next:
                self._loop.after(0, lambda: self._begin() if self._work is None and self._next else None)
        except STOPPED as error:
            left = self.pending
            self._work, self._serving, self._next = None, {}, {}
            self._failed(left, error)
        else:
            self._loop.after(0, self._slice)

    def _cleaning(self) -> Generator[None, None, None]:
        from ...engine.kernel.nfnetlink import conntrack

        for family in sorted({server.family for server in self._serving}):
            start, count = time.monotonic(), 0
            touched_servers: set[Any] = set()
            servers = {(server.address, server.port): server for server in self._serving if server.family == family}
            for flows in conntrack.reading_udp_flows(family, servers.keys()):
                old = stale(flows, self._serving)
                if old:
                    count += conntrack.delete(old)
                    touched_servers.update(servers[flow.destination, flow.destination_port] for flow in old)
                yield
            self._cleaned(family, count, touched_servers, time.monotonic() - start)


class StaleFlows(PassSubscriber):
    """After each pass, deletes the stale flows to virtual servers whose endpoints it changed.

    Args:
        loop: the agent's loop.
        cluster: returns the present cluster, None if there is none yet.
        reconciler: has the desired virtual servers.
        deleted: see ``cleaned`` of :class:`FlowCleaner`.
        failed: see :class:`FlowCleaner`; the next pass tries again.
    """

    def __init__(
        self,
        loop: Loop,
        cluster: Callable[[], Cluster | None],
        reconciler: Reconciler,
        deleted: Callable[[int, int, set[Any], float], None],
        failed: Callable[[set[Any], Exception], None],
    ) -> None:
        self._cluster = cluster
        self._reconciler = reconciler
        self._report_failed = failed
        self._cleaner = FlowCleaner(loop, deleted, self._failed)
        self._unclean: set[Any] = set()  # virtual servers whose stale flows could not be deleted

    def close(self) -> None:
        """Stop, even if stale flows are left."""
        self._cleaner.close()

    def passed(self, result: PassResult, _reason: str) -> None:
        """Delete flows to virtual servers of changed real servers, and of serving endpoints that changed."""
        cluster = self._cluster()
        if cluster is None:
            return
        wanted = self._reconciler.want.get("virtual_server", {})
        asked = touched(result.done) | self._unclean | self._cleaner.pending
        flows = cluster.take_flows(asked)
        serving = {server: endpoints for server, endpoints in flows.items() if server in wanted}
        self._unclean = set()
        self._cleaner.forget(asked - serving.keys())
        self._cleaner.clean(serving)

    def _failed(self, servers: set[Any], error: Exception) -> None:
        self._unclean = servers
        self._report_failed(servers, error)
