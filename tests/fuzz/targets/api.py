# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input from the Kubernetes API: whole HTTP answers, watch lines and list pages; and the snapshot of them on disk."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from fuzz.choices import Choices, wreck
from fuzz.target import Target
from fuzz.targets.objects import MAKERS, seeds
from fuzz.targets.text import ROOT, SCRATCH

from kubenode.sources.kubernetes import api, snapshot
from kubenode.sources.kubernetes.access import Access, Identity
from kubenode.sources.kubernetes.api import Session, decode
from kubenode.sources.kubernetes.connection import Connection
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import ApiError
from kubenode.sources.kubernetes.event_stream import RawEvent
from kubenode.sources.kubernetes.objects import resources
from kubenode.sources.kubernetes.reflector import Reflector
from kubenode.sources.kubernetes.store import Store

_RESOURCES = resources("n1")
_MOST_SENT = 100_000  # fits into a socket's buffer: the client does not read while the answer is written


class _Accessor:
    name = "fuzz"

    def access(self) -> Access:
        return Access("http://192.0.2.1:6443", "", Identity())


class _Answered(Connection):
    """Connection whose server has sent its whole answer already."""

    answer = b""

    def connect(self) -> None:
        ours, theirs = socket.socketpair()
        theirs.sendall(self.answer[:_MOST_SENT])
        theirs.shutdown(socket.SHUT_WR)
        self.sock = self._socket = ours
        self._other = theirs

    def close(self) -> None:
        super().close()
        if hasattr(self, "_other"):
            self._other.close()


def _session(data: bytes) -> None:
    choices = Choices(data)
    streaming = choices.chance(2)
    session = _with_answer(choices.rest())
    try:
        if streaming:
            for event in session.events("/api/v1/services", {}, 5.0, protobuf=True):
                assert isinstance(event.data, bytes)
        else:
            session.get("/api/v1/services", {"limit": "1"})
    finally:
        session.drop()


def _with_answer(answer: bytes) -> Session:
    _Answered.answer = answer
    api.Connection = _Answered  # replace the transport only: everything above it is the agent's
    return Session(_Accessor(), Credentials())


class _Pages:
    """Session that returns prepared documents."""

    filled = 0.0

    def __init__(self, documents: list[Any]) -> None:
        self._documents = documents

    def get(self, _path: str, _query: Mapping[str, str]) -> Any:
        return decode(json.dumps(self._documents.pop(0))) if self._documents else {"metadata": {"resourceVersion": "1"}}


def _watch(data: bytes) -> None:
    """Feed a list, then watch events: generated objects, some corrupted, and any bytes."""
    choices = Choices(data)
    resource = choices.pick(_RESOURCES)
    store = Store(lambda: None)
    items = [_item(choices, resource.kind) for _ in range(choices.below(3))]
    page: Any = {"items": items, "metadata": {"resourceVersion": "5"}}
    if choices.chance(4):
        page = wreck(choices, page)
    lines = []
    for _ in range(choices.below(5)):
        event: Any = {
            "type": choices.pick(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")),
            "object": _item(choices, resource.kind),
        }
        if choices.chance(3):
            event = wreck(choices, event)
        lines.append(event)
    try:
        pages = [json.loads(json.dumps(page, default=str))]
        texts = [json.dumps(line, default=str).encode() for line in lines]
    except (TypeError, ValueError):
        return  # JSON cannot express the value
    is_protobuf = choices.chance(2)
    events = [*map(RawEvent, texts), RawEvent(choices.rest(), is_protobuf)]
    reflector = Reflector(resource, _Pages(pages), store, lambda: None)
    try:
        reflector._list()
    except ApiError:
        pass
    for event in events:
        try:
            reflector._use(event)
        except ApiError:
            pass
    store.take()
    for item in store.objects():
        assert item["kind"] == resource.kind


def _item(choices: Choices, kind: str) -> Any:
    item: Any = MAKERS[kind](choices)
    item["metadata"]["resourceVersion"] = "7"
    return wreck(choices, item) if choices.chance(2) else item


def _snapshot(data: bytes) -> None:
    """Read a file with a matching checksum, as an older version with a bug would write it, or any file."""
    choices = Choices(data)
    path = f"{SCRATCH}/snapshot.json"
    if choices.chance(4):
        text = choices.rest()
    else:
        header: Any = {
            "apiVersion": snapshot.API_VERSION, "kind": snapshot.KIND, "format": snapshot.FORMAT, "node": "n1",
            "server": "https://a", "written": choices.odd() if choices.chance(2) else 1.5, "objects": 1,
        }  # fmt: skip
        if choices.chance(3):
            header = wreck(choices, header)
        body = choices.rest()
        if isinstance(header, dict):
            header["sha256"] = hashlib.sha256(body).hexdigest()
        try:
            text = json.dumps(header).encode("utf-8", "replace") + b"\n" + body
        except (TypeError, ValueError):
            return
    with open(path, "wb") as file:
        file.write(text)
    saved = snapshot.read(path, "n1")
    assert isinstance(saved.written, float)


def _bodies() -> list[bytes]:
    lines = []
    for kind in MAKERS:
        for data in seeds(4, 100, 8):
            item = MAKERS[kind](Choices(data))
            lines.append(bytes(8) + json.dumps(item).encode() + b"\n")
    return [*lines, bytes(8) + b"[" * 3000, bytes((3,)) + b"[" * 3000 + b"\n"]


def _answers() -> list[bytes]:
    recorded = [path.read_bytes()[:20_000] for path in sorted((ROOT / "tests/golden/api").glob("*.http"))]
    deep = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3000\r\n\r\n" + b"[" * 3000
    more = [
        deep,
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding:"
            b" chunked\r\n\r\n4\r\n\x1f\x8b\x08\0\r\n0\r\n\r\n"
        ),
        b"HTTP/1.1 429 Too Many\r\nRetry-After: " + b"9" * 5000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    ]
    return [bytes((first,)) + text for text in [*recorded, *more] for first in (0, 1)]


TARGETS = {
    "watch": Target(_watch, seeds(60, 400, 7), longest=1024),
    "session": Target(
        _session,
        _answers(),
        (ApiError,),
        (
            "HTTP/1.1 ",
            "Content-Length: ",
            "Transfer-Encoding: chunked",
            "Content-Encoding: gzip",
            "Retry-After: ",
            "\r\n\r\n",
            "204 ",
            "304 ",
            "Connection: close",
            '"details"',
            '"causes"',
            '"reason"',
            '"message"',
            "\r\n0\r\n\r\n",
        ),
        8192,
    ),
    "snapshot": Target(_snapshot, _bodies(), (snapshot.SnapshotError,), longest=4096),
}
