# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health of this node's proxy: ``/healthz``, ``/livez``, the health check node ports, and the metrics server.

Paths, status codes, headers and bodies are kube-proxy's (Kubernetes 1.36), since load balancers and kubelets expect
those.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Callable

from ...engine.desired.local_endpoints import HealthCheck
from ...engine.errors import InputError
from ...log import Log
from ..loop import Loop, Timer
from .exposition import CONTENT_TYPE
from .http import Server
from .http_response import JSON, NOT_FOUND, Response
from .http_thread import HttpThread
from .metrics import FAMILIES, Metrics

_NOSNIFF = ("X-Content-Type-Options", "nosniff")
_PLAIN = "text/plain; charset=utf-8"
_RETRY = 10.0  # seconds until an address that was taken is tried again
_FRESH = 1.0  # seconds for which the text of the metrics is used again


class Health:
    """Time of the last sync, and since when the node is out of sync.

    ``timeout`` is how long an update may wait (kube-proxy: twice the sync period). Until the first sync the proxy is
    not healthy, so that no traffic is sent to it, but alive, because a restart would not help. ``clock`` measures.
    ``wall`` is only shown: wall-clock changes do not affect health.
    """

    def __init__(
        self, timeout: float, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self.timeout = timeout
        self.eligible = True  # the node is not about to be removed
        self._clock = clock
        self._wall = wall
        self._updated = 0.0  # by the wall
        self._queued: float | None = None

    def queued(self) -> None:
        """Record that an update is pending."""
        if self._queued is None:
            self._queued = self._clock()

    def updated(self) -> None:
        """Record that all updates are done."""
        self._updated = self._wall()
        self._queued = None

    @property
    def healthy(self) -> bool:
        """Tell whether the node is up to date."""
        queued = self._queued  # read once: the agent's thread may change it at any moment
        return bool(self._updated) and (queued is None or self._clock() - queued <= self.timeout)

    @property
    def alive(self) -> bool:
        """Tell whether the proxy is alive, as ``/livez`` defines it."""
        return self.healthy or not self._updated

    def body(self, with_node: bool) -> str:
        """Return the JSON of ``/healthz`` (``with_node``) or ``/livez``."""
        now = self._wall()
        healthy = self.healthy if with_node else self.alive
        fields: dict[str, Any] = {
            "lastUpdated": _rfc3339(now if self.healthy else self._updated),
            "currentTime": _rfc3339(now),
        }
        if with_node:
            fields["nodeEligible"] = self.eligible
        family = {"lastUpdated": _rfc3339(self._updated), "healthy": healthy}
        fields.update(healthy=healthy, status=dict.fromkeys(FAMILIES.values(), family))
        return json.dumps(fields, separators=(",", ":"))


class Servers:
    """HTTP servers: one for health, one for metrics, one for each health check node port.

    They answer in their own thread. The servers retry an address that is taken. With ``hard_fail``, that function gets
    the reason why one of the first two cannot listen. ``ended`` is called if the thread ends.
    ``problems`` lists the Services whose health check cannot listen; ``problems_changed`` is called when it changes.
    ``clock`` measures the age of the metrics' text.
    """

    def __init__(
        self, loop: Loop, log: Log, health: Health, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._loop = loop
        self._log = log
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._text: tuple[float, Response] | None = None  # when it was made, and the metrics as an answer
        self._http = HttpThread(loop, self._thread_ended, self._client_failed)
        self.ended: Callable[[str], None] | None = None
        self._running: dict[tuple[str, str, int], Server] = {}
        self._wanted: dict[tuple[str, str, int], Callable[[str, str], Response]] = {}
        self._checks: Mapping[int, HealthCheck] = {}
        self._addresses: tuple[str, ...] = ()
        self._fixed: set[tuple[str, str, int]] = set()
        self._retry: Timer | None = None
        self.hard_fail: Callable[[str], None] | None = None
        self.problems_changed: Callable[[], None] | None = None
        self.problems: dict[tuple[str, str], tuple[str, ...]] = {}

    def serve(self, healthz: tuple[str, int], metrics: tuple[str, int]) -> None:
        """Listen for health and metrics on these addresses; port 0 disables a server."""
        fixed = {("health", *healthz): self.answer_health, ("metrics", *metrics): self.answer_metrics}
        self._fixed = {key for key in fixed if key[2]}
        self._wanted = {key: self._wanted[key] for key in self._wanted if key[0].startswith("Service ")}
        self._wanted.update((key, fixed[key]) for key in self._fixed)
        self._adjust()

    def check(self, checks: Mapping[int, HealthCheck], addresses: tuple[str, ...]) -> None:
        """Answer on these health check node ports, on these addresses of the node.

        Do nothing if ports and addresses are those of the last call.
        """
        if checks is self._checks and addresses == self._addresses:
            return
        self._checks, self._addresses = checks, addresses
        self._wanted = {key: self._wanted[key] for key in self._fixed}
        for address in addresses:
            for port, check in checks.items():
                key = (f"Service {check.namespace}/{check.name}", address, port)
                self._wanted[key] = self._checker(port)
        self._adjust()

    def close(self) -> None:
        """Stop all servers and their thread."""
        self._wanted = {}
        self._http.stop()
        while self._running:
            self._running.popitem()[1].close()
        self._http.close()

    def _thread_ended(self) -> None:
        if self.ended is not None:
            self.ended("the thread that answers HTTP has ended; its error is in the log before this line")

    def _client_failed(self, error: str) -> None:
        self._log.error("HTTP request failed", reason=error)

    def _listen(self, address: str, port: int, handler: Callable[[str, str], Response]) -> Server:
        http = self._http
        return http.call(lambda: Server(http.loop, address, port, handler, http.clients))

    def _adjust(self) -> None:
        for key in [key for key in self._running if key not in self._wanted]:
            self._http.call(self._running.pop(key).close)
        missing = False
        problems: dict[tuple[str, str], tuple[str, ...]] = {}
        for key, handler in self._wanted.items():
            what, address, port = key
            if key in self._running:
                continue
            try:
                self._running[key] = self._listen(address, port, handler)
            except OSError as error:
                missing = True
                if self.hard_fail is not None and key in self._fixed:
                    self.hard_fail(f"cannot listen for {what} on {address} port {port}: {error.strerror}")
                    return
                kind, _blank, name = what.partition(" ")
                if name:
                    expected = f"a port that the agent can listen on at {address} ({error.strerror})"
                    problem = str(InputError(what, "spec.healthCheckNodePort", port, expected))
                    problems[kind, name] = (*problems.get((kind, name), ()), problem)
                else:
                    self._log.error(f"cannot listen for {what}", address=address, port=port, reason=error.strerror)
        if problems != self.problems:
            self.problems = problems
            if self.problems_changed is not None:
                self.problems_changed()
        if missing and (self._retry is None or not self._retry.pending):
            self._retry = self._loop.after(_RETRY, self._adjust)

    def answer_health(self, _method: str, path: str) -> Response:
        """Answer on the health address."""
        health = self._health
        if path == "/healthz":
            status = 200 if health.healthy and health.eligible else 503
            self._metrics.healthz.add(1, str(status))
        elif path == "/livez":
            status = 200 if health.alive else 503
            self._metrics.livez.add(1, str(status))
        else:
            return NOT_FOUND
        return Response(status, health.body(path == "/healthz"), JSON, (_NOSNIFF,))

    def answer_metrics(self, _method: str, path: str) -> Response:
        """Answer on the metrics address, where ``/healthz`` only shows that the agent listens."""
        if path == "/metrics":
            return self._metrics_text()
        if path == "/proxyMode":
            return Response(200, "ipvs", _PLAIN, (_NOSNIFF,))
        if path == "/healthz":
            return Response(200, "ok", _PLAIN, (_NOSNIFF,))
        return NOT_FOUND

    def _metrics_text(self) -> Response:
        """Return the metrics' text, rendered at most once a second; more frequent requests get the same text."""
        now = self._clock()
        if self._text is None or now - self._text[0] >= _FRESH:
            self._text = now, Response(200, self._metrics.text(), CONTENT_TYPE)
        return self._text[1]

    def _checker(self, port: int) -> Callable[[str, str], Response]:
        def answer(_method: str, _path: str) -> Response:
            check = self._checks.get(port)
            if check is None:
                return NOT_FOUND  # the port is about to be closed
            count = max(check.local_endpoints.values(), default=0)
            healthy = self._health.healthy
            document = {
                "service": {"namespace": check.namespace, "name": check.name},
                "localEndpoints": count,
                "serviceProxyHealthy": healthy,
            }
            headers = (_NOSNIFF, ("X-Load-Balancing-Endpoint-Weight", str(count)))
            return Response(200 if count and healthy else 503, json.dumps(document, indent="\t"), JSON, headers)

        return answer


def _rfc3339(seconds: float) -> str:
    """Return a time as Go prints it; its zero time if there was none."""
    if not seconds:
        return "0001-01-01T00:00:00Z"
    fraction = f"{seconds % 1:.9f}"[1:].rstrip("0").rstrip(".")
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f"{fraction}Z"
