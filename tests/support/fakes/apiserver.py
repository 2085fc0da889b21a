# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake kube-apiserver: lists, watches, writes and permissions as observed at a real one, over real HTTP.

A test's script makes it page, bookmark, expire, stall, cut, send garbage and flood. It uses no code of the agent. Its
documents are in :mod:`.apiserver_answers`, its HTTP in :mod:`.apiserver_http`.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Generator
from itertools import takewhile
from typing import NamedTuple

from .apiserver_answers import (
    EMPTY_BOOKMARK,
    KINDS,
    Key,
    Object,
    Target,
    already_exists,
    encode,
    event_type,
    failure,
    forbidden,
    not_found,
    page,
    selected,
    target_of,
)
from .apiserver_http import Answer, Request, Server

NODE_PROXIER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:node-proxier"},
    "rules": [
        {"apiGroups": [""], "resources": ["endpoints", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ],
}


BOOKMARK_BEFORE = 2.0  # seconds before a watch's end
# changes that are kept for new watches: older ones expire, so that hours of changes do not fill the memory
HISTORY = 20_000


class Change(NamedTuple):
    """Change of an object: version, kind, type of event, object, and the object before it."""

    version: int
    kind: str
    what: str
    obj: Object
    before: Object | None

    def shown(self, event: str) -> Object:
        """Return the object of an event.

        An object that leaves a selection is shown as it was last seen, with the version of the change.
        """
        obj = self.before if event == "DELETED" and self.before is not None else self.obj
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}


class FakeApiServer:
    """Serves until :meth:`close`. Attributes for tests:

    ``users``: token to name of the accepted users (None: no authentication, every request is allowed). The user "admin"
        has all permissions.
    ``script``: answers to the next requests for a path, each used once.
    ``stalled``: paths without answers, and without events on their watches.
    ``requests``: all requests. ``sizes``: bytes of each answer. ``events``: posted events.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        version: int = 5000,
        port: int = 0,
        objects: dict[str, dict[Key, Object]] | None = None,
    ) -> None:
        self.version = version
        self.oldest = version  # a watch from a version before this has expired
        self.users: dict[str, str] | None = None
        self.script: dict[str, list[Answer]] = {}
        self.stalled: set[str] = set()
        self.requests: list[Request] = []
        self.sizes: list[int] = []
        self.events: list[Object] = []
        # Objects of an earlier server must be there before the first request: a client may list at once.
        self.objects = objects if objects is not None else self._no_objects()
        self.lock = threading.RLock()
        self._history: deque[Change] = deque()
        self._watchers: dict[str, list[queue.Queue[bytes | None]]] = {}
        self._server = Server(self, context, port)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @staticmethod
    def _no_objects() -> dict[str, dict[Key, Object]]:
        objects: dict[str, dict[Key, Object]] = {kind: {} for kind, _version in KINDS.values()}
        objects["ClusterRole"]["", "system:node-proxier"] = NODE_PROXIER
        return objects

    def close(self) -> None:
        """End all connections and the server."""
        self._server.shutdown()
        self.cut()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(60)

    # objects

    def put(self, obj: Object) -> Object:
        """Create or replace an object."""
        with self.lock:
            kind, metadata = obj["kind"], obj["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            self.version += 1
            stored = {**obj, "metadata": {**metadata, "resourceVersion": str(self.version)}}
            before = self.objects[kind].get(key)
            self.objects[kind][key] = stored
            self._note(Change(self.version, kind, "ADDED" if before is None else "MODIFIED", stored, before))
            return stored

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object."""
        with self.lock:
            before = self.objects[kind].pop((namespace, name))
            self.version += 1
            self._note(Change(self.version, kind, "DELETED", before, before))

    def expire(self) -> None:
        """Forget all history: a watch from an earlier version has expired."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self._history.clear()

    # faults

    def send(self, path: str, line: bytes) -> None:
        """Send a line of any bytes to all watches of a path."""
        with self.lock:
            for watcher in self._watchers.get(path, ()):
                watcher.put(line)

    def bookmark(self, path: str) -> None:
        """Send a bookmark."""
        self.send(path, self._bookmark(path))

    def cut(self, path: str = "") -> None:
        """Cut the connections of the watches of a path (or all), without the end of the response."""
        with self.lock:
            for watched, watchers in self._watchers.items():
                for watcher in watchers if path in ("", watched) else ():
                    watcher.put(None)

    def end(self, path: str) -> None:
        """End the watches of a path properly, like an API server that stops."""
        self.send(path, b"")

    def watching(self, path: str) -> int:
        """Return the number of watches of a path."""
        with self.lock:
            return len(self._watchers.get(path, ()))

    def asked(self, path: str, watch: bool = False) -> list[Request]:
        """Return the requests for a path: lists without a resource version, or watches."""
        requests = [
            request for request in self.requests if request.path == path and ("watch" in request.query) is watch
        ]
        return [request for request in requests if watch or "resourceVersion" not in request.query]

    # answers

    def answered(self, request: Request, body: Object | None) -> tuple[int, Object]:
        """Answer anything but a watch: HTTP status and document."""
        target = target_of(request.path)
        if target is None:
            raise LookupError(request.path)
        with self.lock:
            document = self._answer(request, target, body)
        status = document["code"] if document.get("kind") == "Status" and document["status"] == "Failure" else 200
        return 201 if status == 200 and request.method == "POST" else status, document

    def listed(self, path: str, query: dict[str, str], namespace: str = "") -> Object:
        """Answer a list."""
        kind, api_version = KINDS[path]
        with self.lock:
            objects = self.objects[kind].items()
            chosen = [(key, obj) for key, obj in objects if namespace in ("", key[0]) and selected(obj, query)]
            return page(chosen, query, kind, api_version, self.version, self.oldest)

    def refusal(self, request: Request) -> Object | None:
        """Return the refusal of a request; None if it is allowed."""
        if self.users is None:
            return None
        user = self.users.get(request.headers.get("authorization", "").partition(" ")[2])
        if user is None:
            return failure(401, "Unauthorized", "Unauthorized")
        target = target_of(request.path)
        if target is None or user == "admin":
            return None
        verb = {"GET": "get" if target.name else "watch" if "watch" in request.query else "list", "POST": "create"}
        asked = (target.group, target.resource, verb.get(request.method, request.method.lower()))
        return None if asked in self._rights(user) else forbidden(user, asked[2], target)

    def watched(self, path: str, query: dict[str, str]) -> Generator[bytes, None, None]:
        """Return the lines of a watch that begins now, not at the first read of the generator."""
        return self._lines(path, query, self.version)

    def _lines(self, path: str, query: dict[str, str], begun: int) -> Generator[bytes, None, None]:
        """Yield the lines of a watch; None from a watcher's queue ends it without an end."""
        kind, _api_version = KINDS[path]
        since = int(query.get("resourceVersion") or self.version)
        started = max(since, begun)
        if since < self.oldest:
            message = f"too old resource version: {since} ({self.oldest})"
            yield encode({"type": "ERROR", "object": failure(410, "Expired", message)})
            return
        mine: queue.Queue[bytes | None] = queue.Queue()
        end = time.monotonic() + float(query.get("timeoutSeconds") or 300)
        bookmark = end - BOOKMARK_BEFORE if query.get("allowWatchBookmarks") == "true" else end
        with self.lock:
            self._watchers.setdefault(path, []).append(mine)
        try:
            line: bytes | None = b"\0"
            while True:
                if line is None:
                    raise ConnectionAbortedError
                if not line:
                    return
                if line == b"\0":
                    with self.lock:
                        fresh = [change for change in self._after(since) if change.kind == kind]
                    for change in fresh:
                        since = change.version
                        event = event_type(change.what, change.obj, change.before, query)
                        if event and path not in self.stalled:
                            yield encode({"type": event, "object": change.shown(event)})
                elif path not in self.stalled:
                    yield line
                try:
                    line = mine.get(timeout=max(0.0, bookmark - time.monotonic()))
                except queue.Empty:
                    if bookmark == end:
                        return
                    line, bookmark = self._bookmark(path) if self.version > started else b"\0", end
        finally:
            with self.lock:
                self._watchers[path].remove(mine)

    # inside

    def _answer(self, request: Request, target: Target, body: Object | None) -> Object:
        key = (target.namespace, target.name)
        if target.below == "token" and body is not None and self.users is not None:
            token = uuid.uuid4().hex
            self.users[token] = f"system:serviceaccount:{target.namespace}:{target.name}"
            return {**body, "status": {"token": token}}
        if request.method == "POST" and body is not None:
            key = (target.namespace, body["metadata"]["name"])
            if key in self.objects[target.kind]:
                return already_exists(target._replace(name=key[1]))
            self.events += [body] if target.kind == "Event" else []
            return self.put({**body, "metadata": {**body["metadata"], "uid": str(uuid.uuid4())}})
        if not target.name:
            return self.listed(target.collection, request.query, target.namespace)
        if key not in self.objects[target.kind]:
            return not_found(target)
        if request.method == "PUT" and body is not None:
            return self.put(body)
        if request.method == "DELETE":
            self.delete(target.kind, *key)
            return self._history[-1].shown("DELETED")
        return self.objects[target.kind][key]

    def _rights(self, user: str) -> set[tuple[str, str, str]]:
        """Return the permissions of a user's roles: group, resource, verb."""
        bound = [
            binding["roleRef"]["name"]
            for binding in self.objects["ClusterRoleBinding"].values()
            for subject in binding["subjects"]
            if user in (subject["name"], f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}")
        ]
        return {
            (group, resource, verb)
            for name in bound
            for rule in self.objects["ClusterRole"]["", name]["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def _bookmark(self, path: str) -> bytes:
        kind, api_version = KINDS[path]
        empty = {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(self.version)}}
        return encode({"type": "BOOKMARK", "object": {**empty, **EMPTY_BOOKMARK.get(kind, {})}})

    def _after(self, version: int) -> list[Change]:
        """Return the changes after a version, without reading the whole history."""
        return list(takewhile(lambda change: change.version > version, reversed(self._history)))[::-1]

    def _note(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > HISTORY:
            self.oldest = self._history.popleft().version
        for path, (watched, _version) in KINDS.items():
            if watched == change.kind:
                for watcher in self._watchers.get(path, ()):
                    watcher.put(b"\0")  # wakes the watch, which then reads the history
