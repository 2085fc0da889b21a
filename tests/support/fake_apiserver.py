# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake kube-apiserver: lists, watches and events as the recorded answers of a real one (tests/golden/api) have them, over real HTTP.

It can page, bookmark, expire, stall, cut, send garbage and flood, as a test's script says. It knows nothing of our own code.
"""

from __future__ import annotations

import base64
import json
import queue
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name

PATHS = {
    "/api/v1/services": ("Service", "v1"),
    "/apis/discovery.k8s.io/v1/endpointslices": ("EndpointSlice", "discovery.k8s.io/v1"),
    "/api/v1/nodes": ("Node", "v1"),
}
EMPTY_BOOKMARK: dict[str, Object] = {"EndpointSlice": {"addressType": "", "endpoints": None, "ports": None}}
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "98b35193b2ac7a23a673325f5e9b830ecd5ba406",
    "gitTreeState": "clean",
    "buildDate": "2026-08-21T11:29:11Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}


class Answer(NamedTuple):
    """A scripted answer: sent as it is, in place of the right one."""

    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to


class Request(NamedTuple):
    """What was asked: method, path, query (first values), headers."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


def failure(code: int, reason: str, message: str, **more: Any) -> Object:
    """A Status as the API server writes it."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason}
    return {**status, **more, "code": code}


def encode(document: Object) -> bytes:
    """One line, as the API server's own encoder writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class FakeApiServer:
    """Serves until :meth:`close`. What a test may set or read:

    ``tokens``: those that are accepted (None: nobody is asked); ``script``: answers to the next requests for a path, each used once;
    ``stalled``: paths whose answers do not come (watches: no events) while they are in it; ``requests``: all that was asked;
    ``events``: what was posted.
    """

    def __init__(self, context: ssl.SSLContext | None = None, version: int = 5000, port: int = 0) -> None:
        self.version = version
        self.oldest = 0  # versions before this have expired for watches
        self.tokens: set[str] | None = None
        self.script: dict[str, list[Answer]] = {}
        self.stalled: set[str] = set()
        self.requests: list[Request] = []
        self.events: list[Object] = []
        self.objects: dict[str, dict[Key, Object]] = {kind: {} for kind, _version in PATHS.values()}
        self.lock = threading.RLock()
        self._history: list[tuple[int, str, str, Object, Object | None]] = []  # version, kind, type, object, as it was before
        self._watchers: dict[str, list[queue.Queue[bytes | None]]] = {}
        fake = self

        class Handler(_Handler):
            server_of = fake

        self._server = _Server(("127.0.0.1", port), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections and the server."""
        self._server.shutdown()
        self.cut()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(5)

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
            self._note(kind, "ADDED" if before is None else "MODIFIED", stored, before)
            return stored

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object."""
        with self.lock:
            before = self.objects[kind].pop((namespace, name))
            self.version += 1
            gone = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
            self._note(kind, "DELETED", gone, before)

    def expire(self) -> None:
        """Forget all history: a watch from an earlier version has expired."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self._history.clear()

    # trouble

    def send(self, path: str, line: bytes) -> None:
        """Send a line of whatever bytes to everybody who watches a path."""
        with self.lock:
            for watcher in self._watchers.get(path, ()):
                watcher.put(line)

    def bookmark(self, path: str) -> None:
        """Send a bookmark."""
        kind, api_version = PATHS[path]
        empty = {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(self.version)}}
        self.send(path, encode({"type": "BOOKMARK", "object": {**empty, **EMPTY_BOOKMARK.get(kind, {})}}))

    def cut(self, path: str = "") -> None:
        """Cut the connections of those who watch a path (or any), without an end."""
        with self.lock:
            for watched, watchers in self._watchers.items():
                for watcher in watchers if path in ("", watched) else ():
                    watcher.put(None)

    def watching(self, path: str) -> int:
        """How many watch a path."""
        with self.lock:
            return len(self._watchers.get(path, ()))

    def asked(self, path: str, watch: bool = False) -> list[Request]:
        """The requests for a path: lists, or watches."""
        return [request for request in self.requests if request.path == path and ("watch" in request.query) is watch]

    # answers

    def _note(self, kind: str, what: str, obj: Object, before: Object | None) -> None:
        self._history.append((self.version, kind, what, obj, before))
        for path, (watched, _version) in PATHS.items():
            if watched == kind:
                for watcher in self._watchers.get(path, ()):
                    watcher.put(b"\0")  # look at the history

    def listed(self, path: str, query: dict[str, str]) -> tuple[int, Object]:
        """Answer a list."""
        kind, api_version = PATHS[path]
        with self.lock:
            chosen = sorted(
                (f"/{key[0]}/{key[1]}".replace("//", "/"), obj) for key, obj in self.objects[kind].items() if selected(obj, query)
            )
            version, start = self.version, ""
            if "continue" in query:
                try:
                    token = json.loads(base64.urlsafe_b64decode(query["continue"] + "=="))
                    version, start = token["rv"], token["start"].rstrip("\0")
                except (ValueError, LookupError):
                    why = "continue key is not valid: invalid character '\\u0081' looking for beginning of value"
                    return 400, failure(400, "BadRequest", f"invalid continue token: {why}")
                if version < self.oldest:
                    message = "The provided continue parameter is too old to display a consistent list result."
                    return 410, failure(410, "Expired", message)
            rest = [(name, obj) for name, obj in chosen if not start or name.lstrip("/") > start.lstrip("/")]
            limit = int(query.get("limit") or 0)
            metadata: Object = {"resourceVersion": str(version)}
            if limit and len(rest) > limit:
                token = {"v": "meta.k8s.io/v1", "rv": version, "start": rest[limit - 1][0] + "\0"}
                text = json.dumps(token, separators=(",", ":"))
                metadata["continue"] = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
                metadata["remainingItemCount"] = len(rest) - limit
                rest = rest[:limit]
            items = [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} for _name, obj in rest]
            return 200, {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": items}

    def watched(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yield the lines of a watch; None from a watcher's queue ends it without an end."""
        kind, _api_version = PATHS[path]
        since = int(query.get("resourceVersion") or self.version)
        if since < self.oldest:
            message = f"too old resource version: {since} ({self.oldest})"
            yield encode({"type": "ERROR", "object": failure(410, "Expired", message)})
            return
        mine: queue.Queue[bytes | None] = queue.Queue()
        end = time.monotonic() + float(query.get("timeoutSeconds") or 300)
        with self.lock:
            self._watchers.setdefault(path, []).append(mine)
        try:
            line: bytes | None = b"\0"
            while True:
                if line is None:
                    raise ConnectionAbortedError
                if line == b"\0":
                    with self.lock:
                        fresh = [entry for entry in self._history if entry[0] > since and entry[1] == kind]
                    for version, _kind, what, obj, before in fresh:
                        since = version
                        told = _told(what, obj, before, query)
                        if told and path not in self.stalled:
                            yield encode({"type": told, "object": obj})
                elif path not in self.stalled:
                    yield line
                try:
                    line = mine.get(timeout=max(0.0, end - time.monotonic()))
                except queue.Empty:
                    return
        finally:
            with self.lock:
                self._watchers[path].remove(mine)


def _told(what: str, obj: Object, before: Object | None, query: dict[str, str]) -> str:
    """The type of event for somebody who only sees what is selected."""
    is_in, was_in = what != "DELETED" and selected(obj, query), before is not None and selected(before, query)
    return {(True, True): "MODIFIED", (True, False): "ADDED", (False, True): "DELETED", (False, False): ""}[is_in, was_in]


def selected(obj: Object, query: dict[str, str]) -> bool:
    """Tell whether selectors (of the forms ``!label`` and ``metadata.name=NAME``) choose an object."""
    labels = obj["metadata"].get("labels") or {}
    if any(term.lstrip("!") in labels for term in filter(None, query.get("labelSelector", "").split(","))):
        return False
    field, _equals, value = query.get("fieldSelector", "").partition("=")
    return not field or obj["metadata"]["name"] == value


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for request in list(self._open):
            with suppress(OSError):
                request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients go away, and tests cut connections


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: FakeApiServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake, request = self.server_of, self._request()
        scripted = fake.script.get(request.path)
        if scripted:
            answer = scripted.pop(0)
            self._whole(answer.status, answer.body, answer.headers)
        elif fake.tokens is not None and request.headers.get("authorization", "").partition(" ")[2] not in fake.tokens:
            self._whole(401, encode(failure(401, "Unauthorized", "Unauthorized")))
        elif request.path == "/version":
            self._whole(200, json.dumps(VERSION, indent=2).encode())
        elif request.path not in PATHS:
            kind, _slash, name = request.path.rpartition("/")[0].rpartition("/")[2], "", request.path.rpartition("/")[2]
            missing = failure(404, "NotFound", f'{kind} "{name}" not found', details={"name": name, "kind": kind})
            self._whole(404, encode(missing))
        elif "watch" in request.query:
            self._stream(request)
        else:
            while request.path in fake.stalled:
                time.sleep(0.01)
            status, document = fake.listed(request.path, request.query)
            self._whole(status, encode(document))

    def do_POST(self) -> None:
        request = self._request()
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        scripted = self.server_of.script.get(request.path)
        if scripted:
            answer = scripted.pop(0)
            self._whole(answer.status, answer.body, answer.headers)
            return
        self.server_of.events.append(document)
        self._whole(201, encode(document))

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        request = Request(self.command, parts.path, query, {name.lower(): value for name, value in self.headers.items()})
        self.server_of.requests.append(request)
        return request

    def _whole(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        given = {"Cache-Control": "no-cache, private", "Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in {**given, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, request: Request) -> None:
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        try:
            for line in self.server_of.watched(request.path, request.query):
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        except ConnectionAbortedError:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")
