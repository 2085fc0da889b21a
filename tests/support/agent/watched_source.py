# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consumer of the Kubernetes source that reads its changes as the agent does, when its descriptor is readable."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubenode.log import Log
from kubenode.manifests.directory import Changes
from kubenode.manifests.documents import ObjectKey
from kubenode.sources.kubernetes.access import Access, Identity
from kubenode.sources.kubernetes.reflector import Timing
from kubenode.sources.kubernetes.source import ApiOfNode, Kubernetes

from ..clusters import objects
from ..fakes.apiserver import FakeApiServer
from ..waiting import PATIENCE

NODE = "node1"
SERVICES, SLICES, NODES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes"
FAST = Timing(
    first_backoff=0.02, most_backoff=0.1, silence=0.5, watch=20.0, calm=0.0, page=3, spread=0.02, snapshot=0.05
)


class Fixed:
    """Accessor whose access never changes."""

    name = "fixed access"

    def __init__(self, url: str, identity: Identity | None = None) -> None:
        self._access = Access(url, "", identity or Identity())

    def access(self) -> Access:
        return self._access


class WatchedSource:
    """Source with the changes that it has returned, and the objects after them.

    ``held`` holds the objects of that consumer.
    """

    def __init__(self, url: str, state: Path, timing: Any = FAST, accessor: Any = None, node: str = NODE) -> None:
        self.lines: list[str] = []
        log = Log("debug", write=self.lines.append, journal=False)
        accessor = accessor or Fixed(url)
        self.source = Kubernetes(ApiOfNode("", url, node), str(state), log, timing=timing, accessor=accessor)
        self.held: dict[ObjectKey, dict[str, Any]] = {}
        self.changes: list[Changes] = []
        self.holding: list[bool] = []  # at every change, whether removals had to be held back
        self._closed = False

    @property
    def names(self) -> set[str]:
        """Kind and name of each held object."""
        return {f"{key.kind} {key.name}" for key in self.held}

    def scan(self) -> Changes:
        """Apply the source's changes."""
        changes = self.source.scan()
        for key in changes.removed:
            del self.held[key]  # a removal is reported once, and only for a known object
        for item in changes.put:
            metadata = item["metadata"]
            self.held[ObjectKey(item["kind"], metadata.get("namespace", ""), metadata["name"])] = item
        if changes.put or changes.removed:
            self.changes.append(changes)
            self.holding.append(bool(self.source.waiting or self.source.unknown))
        return changes

    def until(self, what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Apply changes until ``what`` returns a true value; return that value."""
        end = time.monotonic() + seconds
        while True:
            self.scan()
            result = what()
            if result:
                return result
            left = end - time.monotonic()
            if left <= 0:
                state = (
                    f"waiting: {self.source.waiting!r}, problems: {self.source.problems}, held: {sorted(self.names)}"
                )
                raise AssertionError(f"not within {seconds} s; {state}; log: {''.join(self.lines)}")
            select.select([self.source], [], [], min(left, 0.05))

    def complete(self) -> WatchedSource:
        """Apply changes until all lists are complete."""
        self.until(lambda: not self.source.waiting and not self.source.unknown)
        self.scan()
        return self

    def close(self) -> None:
        """End the source."""
        if not self._closed:
            self._closed = True
            self.source.close()


def fill(fake: FakeApiServer, count: int = 4) -> None:
    """Put the Node NODE, and ``count`` Services with a slice each."""
    fake.put(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"images": ["a"], "addresses": []}}
    )
    for number in range(count):
        fake.put(objects.service(f"web{number}", [f"10.96.0.{number + 1}"]))
        fake.put(objects.piece(f"web{number}", [objects.endpoint(f"10.244.0.{number + 1}")]))


def service_names(count: int) -> set[str]:
    """Return the names of the Services of :func:`fill`."""
    return {f"Service web{number}" for number in range(count)}


def services(watched: WatchedSource) -> set[str]:
    """Return the names of the held Services."""
    return {name for name in watched.names if name.startswith("Service ")}
