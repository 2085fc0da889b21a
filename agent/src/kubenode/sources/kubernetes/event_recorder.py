# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send Kubernetes Events (events.k8s.io/v1) about objects that cannot be served.

One more Event is about the node, at the agent's start.

Best effort, in its own thread: an event that cannot be sent is dropped, one sentence about one object is sent once, and
bursts are limited.
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
_BURST = 25  # events at once; then one in _REFILL seconds, as client-go has it for one source
_REFILL = 10.0
_CANNOT_SERVE = "CannotServe"
_REASONS = {
    "spec.healthCheckNodePort": "FailedToStartServiceHealthcheck"
}  # kube-proxy's, by what the sentence is about
_MOST_NOTE = 1024  # bytes; the API's limit
_TRIES = 12  # while nobody answers, and
_PAUSE = 10.0  # seconds between them, as client-go has both


class Events(threading.Thread):
    """Sends events until :meth:`stop`."""

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
        self._told: set[tuple[tuple[str, str], str]] = set()
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(burst)

    def began(self) -> None:
        """Tell that the agent serves this node now."""
        note = f"{CONTROLLER} {VERSION} is this node's service proxy, in IPVS mode"
        # kubectl describe node looks for the node's name in place of its uid
        self._add("", "Starting", "Normal", note, ObjectKey("Node", "", self._node), self._node)

    def report(self, problems: Mapping[tuple[str, str], tuple[str, ...]], uid: Callable[[ObjectKey], str]) -> None:
        """Tell what is wrong with objects, unless that was told before; what is right again may be told again later."""
        now = {(subject, text) for subject, texts in problems.items() for text in texts}
        self._told &= now
        for subject, text in sorted(now - self._told):
            kind, name = subject
            namespace, _slash, last = name.rpartition("/")
            key = ObjectKey(kind, namespace, last)
            reason = next((known for field, known in _REASONS.items() if f": {field} is " in text), _CANNOT_SERVE)
            if self._add(namespace, reason, "Warning", text, key, self._node if kind == "Node" else uid(key)):
                self._told.add((subject, text))

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()
        self._session.abort()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            pass  # it finds out with the next event

    def run(self) -> None:
        """Send what is queued."""
        for namespace, document in iter(self._queue.get, None):
            if not self._sent(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", document):
                self.dropped += 1
            if self._queue.empty():
                self._session.drop()  # it would end unseen, or outlive its token, until there is something to say again
            if self._stopping.is_set():
                break
        self._session.drop()

    def _sent(self, path: str, document: dict[str, Any]) -> bool:
        """Try until somebody answers, whatever the answer is."""
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
