# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send Kubernetes Events (events.k8s.io/v1) about objects that cannot be served.

One more Event reports the agent's start on the node.

Best effort, in its own thread. An event that cannot be sent is dropped, a problem of an object is sent once, and bursts
are limited.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..._version import VERSION
from ...manifests.documents import API_VERSIONS, ObjectKey
from .api import Session
from .errors import ApiError, RefusedError

CONTROLLER = "kubenode-agent"
_BURST = 25  # events at once; then one in _REFILL seconds, as in client-go for one source
_REFILL = 10.0
_CANNOT_SERVE = "CannotServe"
_REASONS = {
    "spec.healthCheckNodePort": "FailedToStartServiceHealthcheck"
}  # kube-proxy's reasons, by the field in the problem
_MOST_NOTE = 1024  # bytes; the API's limit
_TRIES = 12  # while the API does not answer, as in client-go
_PAUSE = 10.0  # seconds between tries, as in client-go


class Events(threading.Thread):
    """Thread that sends events until :meth:`stop`."""

    def __init__(
        self,
        session: Session,
        node: str,
        clock: Callable[[], float] = time.monotonic,
        burst: int = _BURST,
        refill: float = _REFILL,
        pause: float = _PAUSE,
    ) -> None:
        super().__init__(name="events", daemon=True)
        self.dropped = 0
        self._session = session
        self._node = node
        self._clock = clock
        self._burst = burst
        self._refill = refill
        self._pause = pause
        self._stopping = threading.Event()
        self._tokens = float(burst)
        self._filled = clock()
        self._recorded: set[tuple[tuple[str, str], str]] = set()
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(burst)

    def began(self) -> None:
        """Queue the event of the agent's start on this node."""
        note = f"{CONTROLLER} {VERSION} is this node's service proxy, in IPVS mode"
        # kubectl describe node selects events by the node's name in place of its uid
        self._add("", "Starting", "Normal", note, ObjectKey("Node", "", self._node), self._node)

    def report(self, problems: Mapping[tuple[str, str], tuple[str, ...]], uid: Callable[[ObjectKey], str]) -> None:
        """Queue an event for each new problem of an object. A problem that was solved meanwhile counts as new."""
        now = {(subject, text) for subject, texts in problems.items() for text in texts}
        self._recorded &= now
        for subject, text in sorted(now - self._recorded):
            kind, name = subject
            namespace, _slash, last = name.rpartition("/")
            key = ObjectKey(kind, namespace, last)
            reason = next((known for field, known in _REASONS.items() if f": {field} is " in text), _CANNOT_SERVE)
            if self._add(namespace, reason, "Warning", text, key, self._node if kind == "Node" else uid(key)):
                self._recorded.add((subject, text))

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self._stopping.set()
        self._session.abort()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            pass  # the thread sees the flag with its next event

    def run(self) -> None:
        """Send the queued events."""
        for namespace, document in iter(self._queue.get, None):
            if not self._sent(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", document):
                self.dropped += 1
            if self._queue.empty():
                self._session.drop()  # while idle, the connection could end unnoticed or outlive its token
            if self._stopping.is_set():
                break
        self._session.drop()

    def _sent(self, path: str, document: dict[str, Any]) -> bool:
        """Post the event, and retry until the API answers; tell whether the API took it."""
        for attempt in range(_TRIES):
            if self._stopping.wait(self._pause if attempt else 0):
                break
            try:
                self._session.post(path, document)
                return True
            except RefusedError:
                break
            except ApiError:
                pass
        return False

    def _add(self, namespace: str, reason: str, severity: str, note: str, key: ObjectKey, uid: str) -> bool:
        if not self._allowed():
            return False
        namespace = namespace or "default"
        now = time.time()
        regarding = {"apiVersion": API_VERSIONS[key.kind], "kind": key.kind, "name": key.name, "uid": uid}
        if key.namespace:
            regarding["namespace"] = key.namespace
        document = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name[:220]}.{os.urandom(8).hex()}", "namespace": namespace},
            "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1e6) % 1000000:06d}Z",
            "reportingController": CONTROLLER,
            "reportingInstance": f"{CONTROLLER}-{self._node}"[:128],
            "action": "Serve",
            "reason": reason,
            "type": severity,
            "note": note.encode()[:_MOST_NOTE].decode(errors="ignore"),
            "regarding": regarding,
        }
        try:
            self._queue.put_nowait((namespace, document))
        except queue.Full:
            return False
        return True

    def _allowed(self) -> bool:
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._filled) / self._refill)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
