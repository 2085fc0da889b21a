# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of an API server, real or fake, with an administrator's rights.

It writes objects, deletes the objects that it made, and can cut the connections to the server.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubenode.manifests.documents import ObjectKey
from kubenode.sources.kubernetes.access import Access, Identity
from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import RefusedError
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

from ..fakes.relay import Relay

Object = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {  # kind: path before the namespace, path after it
    "Service": ("/api/v1", "services"),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
    "Node": ("/api/v1", "nodes"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "ClusterRole": (RBAC, "clusterroles"),
    "ClusterRoleBinding": (RBAC, "clusterrolebindings"),
}


def collection(kind: str, namespace: str) -> str:
    """Return the path of all objects of a kind in a namespace ("" for kinds without namespaces)."""
    before, after = COLLECTIONS[kind]
    return f"{before}/namespaces/{namespace}/{after}" if namespace else f"{before}/{after}"


def service(name: str, labels: dict[str, str] | None = None) -> Object:
    """Return a Service without addresses, which every API server accepts: it allocates them."""
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def piece(name: str, labels: dict[str, str] | None = None) -> Object:
    """Return an EndpointSlice with one endpoint."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": name, **(labels or {})},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.77"], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def node(name: str) -> Object:
    """Return a Node without a machine."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


class Through:
    """Accessor through a relay; the certificate is that of the server behind the relay."""

    name = "access by way of a relay"

    def __init__(self, accessor: Any, relay: Relay) -> None:
        self._accessor = accessor
        self._relay = relay
        self.identity: Identity | None = None  # replaces the accessor's identity
        self.authority = ""  # replaces the accessor's authority

    def access(self) -> Access:
        accessed = self._accessor.access()
        parts = urlsplit(accessed.server)
        return accessed._replace(
            server=f"{parts.scheme}://127.0.0.1:{self._relay.port}{parts.path}",
            server_name=accessed.server_name or parts.hostname,
            identity=self.identity or accessed.identity,
            authority=self.authority or accessed.authority,
        )


class Cluster:
    """Writes the objects of a test, and deletes them with :meth:`close`.

    ``run`` is part of every name: tests may share a cluster.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.direct = Kubeconfig(str(kubeconfig))
        access = self.direct.access()
        parts = urlsplit(access.server)
        self.relay = Relay(parts.hostname or "", parts.port or 443)
        self.accessor = Through(self.direct, self.relay)
        self.run = f"kubenode-test-{uuid.uuid4().hex[:8]}"
        self._session = Session(self.direct, Credentials())
        self._made: list[ObjectKey] = []

    def names(self, count: int) -> list[str]:
        """Return ``count`` names of this run."""
        return [f"{self.run}-{number}" for number in range(count)]

    def get(self, path: str, **query: str) -> Any:
        """Return the document at a path."""
        return self._session.get(path, query)

    def lines(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yield the lines of a watch until its end; the first line is empty."""
        stream = Session(self.direct, Credentials()).events(path, query, 30.0, protobuf=False)
        return (event.data for event in stream)

    def create(self, obj: Object) -> Object:
        """Make an object."""
        metadata = obj["metadata"]
        key = ObjectKey(obj["kind"], metadata.get("namespace", ""), metadata["name"])
        made: Object = self._session.post(collection(key.kind, key.namespace), obj)
        self._made.append(key)
        return made

    def label(self, key: ObjectKey, labels: dict[str, str]) -> None:
        """Replace the labels of an object."""
        path = f"{collection(key.kind, key.namespace)}/{key.name}"
        now = self._session.get(path, {})
        now["metadata"]["labels"] = labels
        self._write("PUT", path, now)

    def change(self, key: ObjectKey, **spec: Any) -> Object:
        """Change fields of an object's spec; return the new spec."""
        path = f"{collection(key.kind, key.namespace)}/{key.name}"
        now = self._session.get(path, {})
        now["spec"].update(spec)
        changed: Object = self._write("PUT", path, now)["spec"]
        return changed

    def delete(self, key: ObjectKey) -> None:
        """Delete an object."""
        self._made.remove(key)
        self._write("DELETE", f"{collection(key.kind, key.namespace)}/{key.name}", None)

    def events(self, namespace: str, name: str) -> list[Object]:
        """Return the events about an object."""
        items = self.get(collection("Event", namespace))["items"]
        events = [item for item in items if item["regarding"]["name"] == name]
        self._made += [ObjectKey("Event", namespace, item["metadata"]["name"]) for item in events]
        return events

    def anew(self) -> None:
        """Drop the connection, for use after a restart of the API server."""
        self._session.drop()

    def token(self, namespace: str, account: str, bound: Object | None = None) -> str:
        """Return a token of a service account, valid for ten minutes, at most while the object ``bound`` exists."""
        path = f"{collection('ServiceAccount', namespace)}/{account}/token"
        spec: Object = {"expirationSeconds": 600}
        if bound is not None:
            names = {name: bound["metadata"][name] for name in ("name", "uid")}
            spec["boundObjectRef"] = {"kind": bound["kind"], "apiVersion": bound["apiVersion"], **names}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self._session.post(path, request)["status"]["token"])

    def close(self) -> None:
        """Delete all objects of this run, and close the relay."""
        self.relay.close()
        for key in dict.fromkeys(reversed(self._made)):
            with suppress(RefusedError):  # gone already
                self._write("DELETE", f"{collection(key.kind, key.namespace)}/{key.name}", None)
        self._session.drop()

    def _write(self, method: str, path: str, obj: Object | None) -> Any:
        return self._session._document(method, path, {}, None if obj is None else json.dumps(obj).encode())
