# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store of the API's objects, each as text, with the changes since the last call of ``take``.

As text an object takes a fifth of the memory, can be compared whole, and has the snapshot's form. Of many changes to
one object only the last is kept, so a burst of events costs no more than the objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from ...manifests.directory import Changes
from ...manifests.documents import Object, ObjectKey, decode
from .objects import encode


class Store:
    """Objects that the reflectors' threads write and the agent's thread reads.

    The writer's thread calls ``wake`` after a change.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._known: dict[ObjectKey, bytes] = {}
        self._pending: dict[ObjectKey, Object | None] = {}
        self._unreported: set[ObjectKey] = set()  # new since the last changes: their removal needs no report

    def put(self, key: ObjectKey, item: Object) -> None:
        """Add or replace an object."""
        text = encode(item).encode()
        with self._lock:
            if self._known.get(key) == text:
                return
            self._note(key, text, item)
        self._wake()

    def restore(self, key: ObjectKey, text: bytes, item: Object) -> None:
        """Add an object of the snapshot, unless a newer one is known already."""
        with self._lock:
            if key not in self._known:
                self._note(key, text, item)

    def remove(self, key: ObjectKey) -> None:
        """Remove an object, if it is known."""
        with self._lock:
            if key not in self._known:
                return
            self._forget(key)
        self._wake()

    def keep_only(self, kind: str, keys: set[ObjectKey]) -> None:
        """Remove the objects of a kind whose keys are not in ``keys``."""
        with self._lock:
            gone = [key for key in self._known if key.kind == kind and key not in keys]
            for key in gone:
                self._forget(key)
        if gone:
            self._wake()

    def take(self) -> Changes:
        """Return the changes since the last call."""
        with self._lock:
            pending, self._pending = self._pending, {}
            self._unreported.clear()
        changes = Changes([], [])
        for key, item in pending.items():
            if item is None:
                changes.removed.append(key)
            else:
                changes.put.append(item)
        return changes

    def find(self, key: ObjectKey) -> Object | None:
        """Return one object."""
        text = self._known.get(key)
        item: Object | None = None if text is None else decode(text.decode())
        return item

    def objects(self) -> Iterator[Object]:
        """Yield every object."""
        for text in self.texts():
            yield decode(text.decode())

    def texts(self) -> list[bytes]:
        """Return every object's text."""
        with self._lock:
            return list(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def _note(self, key: ObjectKey, text: bytes, item: Object) -> None:
        if key not in self._known and key not in self._pending:
            self._unreported.add(key)
        self._known[key] = text
        self._pending[key] = item

    def _forget(self, key: ObjectKey) -> None:
        del self._known[key]
        if key in self._unreported:
            self._unreported.remove(key)
            del self._pending[key]
        else:
            self._pending[key] = None
