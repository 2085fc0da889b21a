# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes API as the agent's source: Services, EndpointSlices and the node's own Node object, listed and watched.

It has the interface of :class:`~..manifests.Manifests`, and a file descriptor to wait for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...manifests.api_servers import host
from ...manifests.directory import Changes
from ...manifests.documents import Object, ObjectKey
from . import snapshot
from .access import Access, Accessor
from .api import Session
from .credentials import Credentials
from .errors import AccessError, UnusableError
from .kubeconfig import Kubeconfig
from .objects import resources
from .peers import Peers
from .reflector import Reflector, Timing
from .service_account import ServiceAccount
from .store import Store

if TYPE_CHECKING:
    from ...log import Log
    from .event_recorder import Events

_NEEDED = ("Service", "EndpointSlice")
# seconds without complete lists and without an error: the API is slow, or the network drops packets
_RESTORE_AFTER = 3.0
_STOP_SECONDS = 2.0


class ApiOfNode(NamedTuple):
    """Kubernetes API as one node uses it.

    ``kubeconfig`` is a path, "" for the service account of a pod. ``server`` is a URL that replaces the kubeconfig's,
    "" for none. ``node`` is the name of the node.
    """

    kubeconfig: str
    server: str
    node: str

    def describe(self) -> str:
        """Return a text that identifies the API."""
        server = f", server {self.server}" if self.server else ""
        return f"Kubernetes API ({self.kubeconfig or 'service account'}{server}, node {self.node})"


class Kubernetes:
    """The objects of a cluster that one node needs. No request is sent before :meth:`start`.

    ``waiting`` and ``unknown`` are as in manifests. While ``waiting`` is not "", no object is known. ``unknown`` holds
    the lists that were never complete: objects of these may be missing.

    Args:
        api: the API, and the node for which it is watched.
        state: path of the snapshot.
        log: log of the agent.
    """

    about = "kubernetes"

    def __init__(
        self,
        api: ApiOfNode,
        state: str,
        log: Log,
        *,
        timing: Timing | None = None,
        accessor: Accessor | None = None,
    ) -> None:
        kubeconfig, server, node = api
        timing = timing or Timing()
        self.path = api.describe()
        self.node = node
        self._state = state
        self._log = log
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._accessor = accessor or (Kubeconfig(kubeconfig, server) if kubeconfig else ServiceAccount(server))
        self._credentials = Credentials()
        self._store = Store(self._wake)
        self._peers = Peers()
        self._reflectors = [
            Reflector(
                resource, Session(self._accessor, self._credentials, self._connected), self._store, self._wake, timing
            )
            for resource in resources(node)
        ]
        self._keeper = snapshot.Keeper(self._save, timing.snapshot)
        self._events: Events | None = None
        self._started = time.monotonic()
        self._restored = ""  # description of the restored snapshot
        self._restore_tried = False
        self._complete = False
        self._looked_at = False  # whether _warn() has checked the access

    def start(self) -> None:
        """Start listing and watching."""
        self._started = time.monotonic()
        for reflector in self._reflectors:
            reflector.start()
        self._keeper.start()

    def close(self) -> None:
        """End all threads, after a last snapshot."""
        threads: list[Reflector | snapshot.Keeper | Events] = [*self._reflectors, self._keeper]
        if self._events is not None:
            threads.append(self._events)
        for thread in threads:
            thread.stop()
        end = time.monotonic() + _STOP_SECONDS
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.1, end - time.monotonic()))
        if not any(thread.is_alive() for thread in threads):  # a thread that still connects may write to the pipe
            os.close(self._writer)
        os.close(self._reader)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when :meth:`scan` has changes."""
        return self._reader

    def acknowledge(self) -> None:
        """Drain the descriptor, so that it waits for the next change."""
        try:
            while os.read(self._reader, 4096):
                pass
        except BlockingIOError:
            pass

    @property
    def servers(self) -> frozenset[str]:
        """Return the known addresses of the API servers.

        They come from the configuration, from connections and from the snapshot.
        """
        try:
            access = self._accessor.access()
            self._peers.add((host(access.server), host(access.proxy)))
        except AccessError:
            pass  # the reflectors report it
        return self._peers.addresses

    @property
    def waiting(self) -> str:
        """Return why no object is known yet, "" if objects are known."""
        if self._complete or self._restored:
            return ""
        trouble = next((reflector.trouble for reflector in self._needed() if reflector.trouble), "")
        return f"the Kubernetes API: {trouble or 'its lists are being read'}"

    @property
    def blocked(self) -> str:
        """Return the problem that the operator must fix before objects can be read, "" if waiting may help."""
        try:
            self._accessor.access()  # the present files, not those of the last attempt
        except UnusableError as error:
            return str(error)
        except AccessError:
            return ""  # a file is not there yet
        return next(
            (reflector.trouble for reflector in self._needed() if reflector.trouble and reflector.is_blocked), ""
        )

    @property
    def unknown(self) -> set[str]:
        """Return the paths of the lists that were never complete since the start."""
        return (
            set()
            if self._complete
            else {reflector.resource.path for reflector in self._needed() if not reflector.listed}
        )

    @property
    def problems(self) -> dict[str, str]:
        """Return one sentence for each problem.

        Problems are failing lists and watches, unusable objects, a missing Node and the snapshot.
        """
        sentences: dict[str, str] = {}
        for reflector in self._reflectors:
            name = reflector.resource.path
            if reflector.trouble:
                stays = (
                    "what is known of it stays in place"
                    if reflector.listed or self._restored
                    else "nothing of it is known"
                )
                sentences[name] = f"{name}: {reflector.trouble}; {stays}"
            sentences.update({f"{name}: {what}": f"{name}: {why}" for what, why in reflector.odd.items()})
            if reflector.resource.kind == "Node" and reflector.listed and self._own_node() is None:
                sentences[name] = (
                    f"the API has no Node {self.node!r} (is it the node's name in the cluster? hostnameOverride"
                    " sets it)"
                )
        if self._restored and not self._complete:
            sentences["snapshot"] = self._restored
        if self._keeper.trouble:
            sentences[self._state] = f"{self._state}: {self._keeper.trouble}"
        return sentences

    def objects(self) -> Iterator[Object]:
        """Yield every object."""
        return self._store.objects()

    def scan(self, names: object = None) -> Changes:
        """Return the changes since the last call; ``names`` is ignored."""
        self.acknowledge()
        self._warn()
        if not self._complete:
            needed = self._needed()
            if all(reflector.listed for reflector in needed) and self._node_tried():
                self._complete = True
                self._keeper.changed()
                self._log.info("completed the lists of the Kubernetes API", objects=len(self._store))
            elif not self._restore_tried and (
                any(reflector.trouble for reflector in needed) or time.monotonic() - self._started > _RESTORE_AFTER
            ):
                self._restore()
        changes = self._store.take()
        if self._complete and (changes.put or changes.removed):
            self._keeper.changed()
        return changes

    def report(self, problems: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Send Kubernetes Events about problems of objects and the agent's start; best effort.

        Args:
            problems: (kind, "namespace/name", or "name" of a Node) to sentences.
        """
        if not self._complete:
            return
        if self._events is None:
            from .event_recorder import Events

            self._events = Events(Session(self._accessor, self._credentials), self.node)
            self._events.start()
            self._events.began()
        self._events.report(problems, self._uid)

    # inside

    def _needed(self) -> list[Reflector]:
        return [reflector for reflector in self._reflectors if reflector.resource.kind in _NEEDED]

    def _node_tried(self) -> bool:
        """Tell whether the Node was read, or cannot be read.

        The first pass waits for the Node's zone and networks, but not for ever.
        """
        return all(reflector.tried for reflector in self._reflectors)

    def _own_node(self) -> Object | None:
        return self._store.find(ObjectKey("Node", "", self.node))

    def _uid(self, key: ObjectKey) -> str:
        item = self._store.find(key)
        return str(item["metadata"].get("uid") or "") if item is not None else ""

    def _connected(self, address: str) -> None:
        if self._peers.add((address,)):
            self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._writer, b"\0")
        except (BlockingIOError, BrokenPipeError):
            pass  # woken already, or the source is closed

    def _restore(self) -> None:
        self._restore_tried = True
        try:
            saved = snapshot.read(self._state, self.node)
        except snapshot.SnapshotError as error:
            self._log.warning("restored no state until the lists of the Kubernetes API are complete", reason=str(error))
            return
        self._peers.add((host(saved.server), *saved.peers))
        listed = {reflector.resource.kind for reflector in self._reflectors if reflector.listed}
        for key, text, item in saved.objects:
            if key.kind not in listed:
                self._store.restore(key, text, item)
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(saved.written))
        self._restored = (
            f"until the Kubernetes API's lists are complete: {len(saved.objects)} objects as they were at {written} "
            f"are restored from {self._state}"
        )
        self._log.warning("restored the last state from the snapshot", reason=self._restored, server=saved.server)

    def _save(self) -> int:
        server = ""
        try:
            server = self._accessor.access().server
        except AccessError:
            pass  # the snapshot is usable without its server
        return snapshot.write(self._state, self.node, server, self._store.texts(), sorted(self._peers.addresses))

    def _warn(self) -> None:
        """Log once that the access to the API is insecure, if it is."""
        if self._looked_at or not any(reflector.tried for reflector in self._reflectors):
            return
        try:
            access = self._accessor.access()
        except AccessError:
            return
        self._looked_at = True
        for warning in _unwise(access):
            self._log.warning("insecure access to the Kubernetes API", server=access.server, reason=warning)


def _unwise(access: Access) -> Iterator[str]:
    if access.insecure:
        yield "insecure-skip-tls-verify is true: an attacker on the network path can change this node's virtual servers"
    if access.server.startswith("http://"):
        yield "server is http://, expected https://: an attacker on the network path can read and change all objects"
