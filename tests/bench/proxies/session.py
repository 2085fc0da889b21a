# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of one service proxy at one size: start, isolated changes, a quiet time, steady changes."""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from .api import Api, Cost, pod
from .processor import processor_seconds, session_members

if TYPE_CHECKING:
    from ..node import Node
    from .observer import Observer
    from .subjects import Subject

_PATIENCE = 120.0  # seconds until a change is in the kernel
_PAUSE = 1.3  # seconds between isolated changes, more than kube-proxy's default minSyncPeriod
_CHANGING = "service-1"  # TCP, of type ClusterIP, without session affinity
RATE = 10  # changes a second
_CROWD = 100  # Services that change: each after ten seconds, in which the slowest proxy has made its last change


class Start(NamedTuple):
    """A cold start: seconds, CPU seconds of the node, and the API server's cost."""

    seconds: float
    cpu: float
    cost: Cost


class Changes(NamedTuple):
    """Changes: seconds from the arrival of each at the node, seconds from its request, CPU of the node, API's cost."""

    seconds: list[float]
    written: list[float]
    cpu: float
    cost: Cost


class Session:
    """One node with one API server, for one proxy after another."""

    def __init__(self, node: Node, api: Api, observer: Observer) -> None:
        (member,) = node.lab.nodes
        assert member.process
        self._leader = member.process.pid
        self._api = api
        self._observer = observer
        self._numbers = itertools.count()
        self.started = False

    def cpu(self) -> float:
        """Return the node's CPU seconds so far, as this machine counts them."""
        return processor_seconds(session_members(self._leader))

    def prepare(self) -> None:
        """Tell the observer the expected state."""
        servers, endpoints = self._api.expected()
        self._observer.do("expect", servers=servers, endpoints=endpoints)

    def start(self, subject: Subject) -> Start:
        """Start a proxy on the clean node."""
        cpu, cost = self.cpu(), self._api.cost()
        seconds = self._observer.do("start", command=subject.command, view=subject.view, notifies=subject.is_agent)
        return Start(seconds, self.cpu() - cpu, self._api.cost().since(cost))

    def stop(self) -> None:
        """End the proxy and clean the node."""
        self._observer.do("stop")

    def state(self, subject: Subject) -> list[str]:
        """Return the kernel's state in comparable lines."""
        return list(self._observer.do("state", view=subject.view))

    def memory(self) -> tuple[float, float]:
        """Return resident memory in MiB: the largest so far, and now."""
        return self._observer.do("memory", field="VmHWM"), self._observer.do("memory", field="VmRSS")

    def idle(self, seconds: float) -> float:
        """Return the node's CPU seconds in a minute without changes."""
        before, began = self.cpu(), time.perf_counter()
        time.sleep(seconds)
        return (self.cpu() - before) / (time.perf_counter() - began) * 60

    def isolated(self, count: int) -> Changes:
        """Add an endpoint to a Service ``count`` times, each after a pause; then restore the Service."""
        listed = self._api.endpoints(_CHANGING)
        added, seconds, written = list(listed), [], []
        cpu, cost = self.cpu(), self._api.cost()
        self._observer.do("open")
        for _ in range(count):
            time.sleep(_PAUSE)
            number = next(self._numbers)
            added = [*added, pod(number)]
            sent = self._change(number, _CHANGING, added)
            arrived = self._observer.wait(number, _PATIENCE)
            written.append(arrived - sent)
            seconds.append(arrived - self._at_node(sent))
        self._observer.do("close")
        spent = self.cpu() - cpu, self._api.cost().since(cost)
        self._api.exchange(_CHANGING, listed)
        time.sleep(2 * _PAUSE)
        return Changes(seconds, written, *spent)

    def steady(self, duration: float) -> Changes:
        """Give one Service after another a new endpoint in place of its last new one, at a steady rate."""
        services = [f"service-{number}" for number in range(1, 1 + 2 * _CROWD, 2)]
        listed = {name: self._api.endpoints(name) for name in services}
        sent: dict[int, float] = {}
        self._observer.do("open")
        cpu, cost, began = self.cpu(), self._api.cost(), time.perf_counter()
        for index in range(int(RATE * duration)):
            time.sleep(max(0.0, began + index / RATE - time.perf_counter()))
            name, number = services[index % _CROWD], next(self._numbers)
            sent[number] = self._change(number, name, [*listed[name], pod(number)])
        spent = self.cpu() - cpu, self._api.cost().since(cost)
        arrived = {number: self._observer.wait(number, _PATIENCE) for number in sent}
        self._observer.do("close")
        seconds = [arrived[number] - self._at_node(moment) for number, moment in sent.items()]
        for name, endpoints in listed.items():
            self._api.exchange(name, endpoints)
        return Changes(seconds, [arrived[number] - moment for number, moment in sent.items()], *spent)

    def _change(self, number: int, service: str, endpoints: list[dict[str, object]]) -> float:
        protocol, address, port = self._api.server(int(service.rpartition("-")[2]))
        self._observer.do(
            "await", number=number, address=endpoints[-1]["addresses"][0], server=[protocol, address, port]
        )
        return self._api.exchange(service, endpoints)

    def _at_node(self, sent: float) -> float:
        """Return the time at which the API server's next data went to the node."""
        arrivals = list(self._api.relay.arrivals)
        index = bisect_left(arrivals, sent)
        return arrivals[index] if index < len(arrivals) else sent
