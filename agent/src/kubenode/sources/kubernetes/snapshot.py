# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshot of the objects on disk, for a start while the API is away.

One JSON document a line: a header with format, version, node, time, number and checksum, then the objects. It is read
back whole or not at all. ``kubenode plan --objects FILE`` reads it too, and skips the header as an object of an unknown
kind.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...manifests.documents import Object, ObjectKey, decode, key_of

API_VERSION = "kubenode.ipvs/v1alpha1"
KIND = "ObjectsSnapshot"
FORMAT = 1
_BYTES_PER_SECOND = 256 << 10  # on average; a large cluster changes all the time, and a node's disk wears out


class SnapshotError(Exception):
    """No usable snapshot exists; the text says why."""


class Snapshot(NamedTuple):
    """Stored snapshot of the API's objects.

    It has the time (seconds since the epoch), the API's URL, the objects with their texts, and the addresses of the
    API servers.
    """

    written: float
    server: str
    objects: list[tuple[ObjectKey, bytes, Object]]
    peers: list[str]


def write(path: str, node: str, server: str, texts: Sequence[bytes], peers: Sequence[str] = ()) -> int:
    """Replace the snapshot atomically and durably; return its size.

    Raises:
        OSError: the snapshot could not be written; the last one stays.
    """
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text + b"\n")
    header = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "format": FORMAT,
        "node": node,
        "server": server,
        "peers": list(peers),
        "written": round(time.time(), 3),
        "objects": len(texts),
        "sha256": digest.hexdigest(),
    }
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            for text in texts:
                file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.rename(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return size


def read(path: str, node: str) -> Snapshot:
    """Return the last snapshot of this node.

    Raises:
        SnapshotError: the snapshot is missing or damaged, or belongs to another node.
    """
    try:
        with open(path, "rb") as file:
            first = file.readline()
            body = file.read()
    except FileNotFoundError:
        raise SnapshotError(f"there is no snapshot {path}") from None
    except OSError as error:
        raise SnapshotError(f"the snapshot {path} cannot be read: {error.strerror}") from None
    try:
        header = json.loads(first)
        given = {name: header[name] for name in ("kind", "format", "node", "written", "server", "objects", "sha256")}
        written = float(given["written"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        raise SnapshotError(f"{path} is not a snapshot") from None
    for name, wanted in (("kind", KIND), ("format", FORMAT), ("node", node)):
        if given[name] != wanted:
            raise SnapshotError(
                f"the snapshot {path} is not for this agent: its {name} is {given[name]!r}, expected {wanted!r}"
            )
    if hashlib.sha256(body).hexdigest() != given["sha256"]:
        raise SnapshotError(f"the snapshot {path} is damaged: its checksum does not match")
    peers = header.get("peers")  # snapshots of earlier releases have none
    addresses = [str(peer) for peer in peers] if isinstance(peers, list) else []
    return Snapshot(written, str(given["server"]), [_object(path, text) for text in body.splitlines()], addresses)


def _object(path: str, text: bytes) -> tuple[ObjectKey, bytes, Object]:
    try:
        item: Any = decode(text.decode())
        key = key_of(item)
    except (ValueError, RecursionError):
        key = None
    if key is None:
        raise SnapshotError(f"the snapshot {path} has an object of an unexpected form")
    return key, text, item


class Keeper(threading.Thread):
    """Thread that writes snapshots after :meth:`changed`, at most once every ``interval`` seconds.

    ``save`` returns the number of written bytes: the more, the longer the wait for the next snapshot. ``trouble`` says
    why the last attempt failed ("" if it succeeded).
    """

    def __init__(self, save: Callable[[], int], interval: float, delay: float = 1.0) -> None:
        super().__init__(name="snapshot", daemon=True)
        self.trouble = ""
        self._save = save
        self._interval = interval
        self._delay = delay
        self._unsaved = False
        self._work = threading.Event()
        self._stopping = threading.Event()

    def changed(self) -> None:
        """Note that the snapshot on disk is out of date."""
        self._unsaved = True
        self._work.set()

    def stop(self) -> None:
        """End the thread after a last snapshot of unsaved changes, without waiting for it."""
        self._stopping.set()
        self._work.set()

    def run(self) -> None:
        """Write a snapshot after each change, limited in rate."""
        wait = self._delay
        while not self._stopping.is_set():
            self._work.wait()
            self._stopping.wait(wait)
            wait = self._interval
            self._work.clear()
            if self._unsaved:
                self._unsaved = False
                wait = max(wait, self._write() / _BYTES_PER_SECOND)

    def _write(self) -> int:
        try:
            size = self._save()
            self.trouble = ""
            return size
        except OSError as error:
            self._unsaved = True
            self.trouble = f"the snapshot cannot be written: {error.strerror}"
            return 0
