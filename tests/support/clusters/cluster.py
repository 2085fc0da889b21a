# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server as its administrator sees it, real or not.

The administrator writes objects, deletes what it made, and can cut the wire to the server.
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
COLLECTIONS = {  # kind: what goes before the namespace, what comes after it
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
    """The path of all objects of a kind in a namespace ("" for what has none)."""
    before, after = COLLECTIONS[kind]
    return f"{before}/namespaces/{namespace}/{after}" if namespace else f"{before}/{after}"


def service(name: str, labels: dict[str, str] | None = None) -> Object:
    """A Service that every API server takes: its addresses are given to it."""
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def piece(name: str, labels: dict[str, str] | None = None) -> Object:
    """An EndpointSlice with one endpoint."""
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
    """A Node that nobody runs."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


class Through:
    """An access by way of a relay; the certificate is still that of the server behind it."""

    name = "access by way of a relay"

    def __init__(self, accessor: Any, relay: Relay) -> None:
        self._accessor = accessor
        self._relay = relay
        self.identity: Identity | None = None  # somebody else's, in place of the accessor's
        self.authority = ""  # likewise

    def access(self) -> Access:
        found = self._accessor.access()
        parts = urlsplit(found.server)
        return found._replace(
            server=f"{parts.scheme}://127.0.0.1:{self._relay.port}{parts.path}",
            server_name=found.server_name or parts.hostname,
            identity=self.identity or found.identity,
            authority=self.authority or found.authority,
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
        """So many names of our own."""
        return [f"{self.run}-{number}" for number in range(count)]

    def get(self, path: str, **query: str) -> Any:
        """Ask for whatever."""
        return self._session.get(path, query)

    def lines(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        """Watch until the end; an empty line when it has begun."""
        return Session(self.direct, Credentials()).lines(path, query, 30.0)

    def create(self, obj: Object) -> Object:
        """Make an object."""
        metadata = obj["metadata"]
        key = ObjectKey(obj["kind"], metadata.get("namespace", ""), metadata["name"])
        made: Object = self._session.post(collection(key.kind, key.namespace), obj)
        self._made.append(key)
        return made

    def label(self, key: ObjectKey, labels: dict[str, str]) -> None:
        """Give an object these labels and no others."""
        path = f"{collection(key.kind, key.namespace)}/{key.name}"
        now = self._session.get(path, {})
        now["metadata"]["labels"] = labels
        self._write("PUT", path, now)

    def change(self, key: ObjectKey, **spec: Any) -> Object:
        """Change fields of an object's spec; return what has become of the spec."""
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
        """The events about an object."""
        items = self.get(collection("Event", namespace))["items"]
        found = [item for item in items if item["regarding"]["name"] == name]
        self._made += [ObjectKey("Event", namespace, item["metadata"]["name"]) for item in found]
        return found

    def anew(self) -> None:
        """Connect anew: the API server was restarted."""
        self._session.drop()

    def token(self, namespace: str, account: str, bound: Object | None = None) -> str:
        """A token of a service account, good for ten minutes, or as long as the object exists to which it is bound."""
        path = f"{collection('ServiceAccount', namespace)}/{account}/token"
        spec: Object = {"expirationSeconds": 600}
        if bound is not None:
            names = {name: bound["metadata"][name] for name in ("name", "uid")}
            spec["boundObjectRef"] = {"kind": bound["kind"], "apiVersion": bound["apiVersion"], **names}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self._session.post(path, request)["status"]["token"])

    def close(self) -> None:
        """Delete what was made here."""
        self.relay.close()
        for key in dict.fromkeys(reversed(self._made)):
            with suppress(RefusedError):  # gone already
                self._write("DELETE", f"{collection(key.kind, key.namespace)}/{key.name}", None)
        self._session.drop()

    def _write(self, method: str, path: str, obj: Object | None) -> Any:
        return self._session._document(method, path, {}, None if obj is None else json.dumps(obj).encode())
