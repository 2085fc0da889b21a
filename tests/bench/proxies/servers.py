# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API servers of the comparison: a real kube-apiserver, or that of the tests if the caller gives none.

Both run on this machine in the lab's network, so the measured node's processor has no part in them.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab import naming
from support.clusters.cluster import collection
from support.clusters.kube_apiserver import ETCD, PORT, PROXY, KubeApiServer
from support.fakes.apiserver import FakeApiServer
from support.waiting import eventually

from kubenode.sources.kubernetes.api import Session
from kubenode.sources.kubernetes.credentials import Credentials
from kubenode.sources.kubernetes.errors import UnreachableError
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

from . import etcd
from .processor import processor_seconds

if TYPE_CHECKING:
    from ..objects import Object
    from .programs import Programs

_ATTEMPTS = 5
_SHARED = Path("/dev/shm")  # in memory: the disk's speed is no subject here


class RealServer:
    """kube-apiserver with etcd."""

    connections = 4  # that create objects

    def __init__(self, programs: Programs) -> None:
        self._directory = Path(tempfile.mkdtemp(dir=_SHARED if _SHARED.is_dir() else None))
        address = naming.bridge_addresses().ipv4
        self.target = (address, PORT)
        try:
            etcd, program = str(programs.etcd), str(programs.kube_apiserver)
            self._server = KubeApiServer(self._directory, etcd, program, address)
            admin = str(self._server.admin)
            self._sessions = [Session(Kubeconfig(admin), Credentials()) for _ in range(self.connections)]
            eventually(self._has_namespaces)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def _has_namespaces(self) -> bool:
        """the API server has made its namespaces"""
        names = {item["metadata"]["name"] for item in self._sessions[0].get("/api/v1/namespaces", {})["items"]}
        return {"default", "kube-system"} <= names

    def create(self, item: Object, connection: int) -> Object:
        """Create an object and return it as it is stored."""
        path = collection(item["kind"], item["metadata"].get("namespace", ""))
        return self._write("POST", path, item, connection)

    def store(self, items: list[Object]) -> None:
        """Create many objects, not by way of the API server."""
        etcd.store(ETCD, items)

    def replace(self, item: Object) -> Object:
        """Replace an object and return it as it is stored."""
        metadata = item["metadata"]
        path = f"{collection(item['kind'], metadata['namespace'])}/{metadata['name']}"
        return self._write("PUT", path, item, 0)

    def _write(self, method: str, path: str, item: Object, connection: int) -> Object:
        """Send a request, again if the API server closes the connection: after a long pause, or because it is busy."""
        session, body = self._sessions[connection], json.dumps(item).encode()
        for left in reversed(range(_ATTEMPTS)):
            try:
                made: Object = session._document(method, path, {}, body)
                return made
            except UnreachableError:
                session.drop()
                if not left:
                    raise
                time.sleep(1)
        raise AssertionError

    def kubeconfig(self, address: str, port: int) -> str:
        """Return the kubeconfig of kube-proxy's user with all its files in it; ``address`` is the certificate's."""
        user = self._server.certificate(PROXY, hours=24)
        config = json.loads(self._server.kubeconfig("proxies", user, port).read_text())
        for entry in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
            for field in [name for name in entry if name != "server"]:
                entry[f"{field}-data"] = base64.b64encode(Path(entry.pop(field)).read_bytes()).decode()
        return json.dumps(config)

    def cpu(self) -> float:
        """Return the CPU seconds of the API server, without those of etcd."""
        return processor_seconds([self._server.pid()])

    def close(self) -> None:
        """End the API server and remove its files."""
        self._server.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class FakeServer:
    """The API server of the tests, in this process: its own costs say nothing."""

    connections = 1

    def __init__(self) -> None:
        self._server = FakeApiServer()
        self.target = ("127.0.0.1", self._server.port)

    def create(self, item: Object, _connection: int) -> Object:
        """Create an object and return it as it is stored."""
        return self._server.put(item)

    def store(self, items: list[Object]) -> None:
        """Create many objects."""
        for item in items:
            self._server.put(item)

    def replace(self, item: Object) -> Object:
        """Replace an object and return it as it is stored."""
        return self._server.put(item)

    def kubeconfig(self, address: str, port: int) -> str:
        """Return a kubeconfig without a user."""
        config = {
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://{address}:{port}"}}],
            "users": [{"name": "x", "user": {}}],
        }
        return json.dumps(config)

    def cpu(self) -> float:
        """Return the CPU seconds of this process."""
        return processor_seconds([os.getpid()])

    def close(self) -> None:
        """End the server."""
        self._server.close()


def start(programs: Programs) -> RealServer | FakeServer:
    """Start the API server of the caller's programs, or else that of the tests."""
    return RealServer(programs) if programs.has_api else FakeServer()
