# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the same watch events of a real kube-apiserver as JSON and as protobuf, for tests/golden/protobuf.

    unshare -rn sh -c 'ip link set lo up && PYTHONPATH=tests:agent/src python -m support.clusters.record_watches \
        ETCD KUBE_APISERVER' > tests/golden/protobuf/watches.json

It creates the objects of :mod:`.watched_objects`, changes and deletes some, and then watches from the beginning.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import kube_apiserver
from .cluster import collection
from .kube_apiserver import ADMIN, PORT, KubeApiServer
from .watched_objects import CHANGES, OBJECTS, STATUSES

PATHS = ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes")
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
# if anything has changed, the API server sends a bookmark two seconds before the end
QUERY = "?watch=true&allowWatchBookmarks=true&timeoutSeconds=5"


class Client:
    """Client of the API server with the administrator's token, or with another."""

    def __init__(self, server: KubeApiServer) -> None:
        self._context = ssl.create_default_context(cadata=server.authority.pem.decode())

    def ask(
        self, method: str, path: str, document: Any = None, accept: str = JSON, token: str = ADMIN
    ) -> tuple[int, str, bytes]:
        """Return status, content type and body of an answer."""
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=60, context=self._context)
        headers = {"Authorization": f"Bearer {token}", "Accept": accept, "Content-Type": "application/json"}
        connection.request(method, path, None if document is None else json.dumps(document), headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.getheader("Content-Type", ""), body

    def write(self, method: str, path: str, document: Any = None) -> Any:
        """Send a document; return the answer."""
        status, _kind, body = self.ask(method, path, document)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {body.decode()}")
        return json.loads(body)


def change(client: Client) -> None:
    """Create, change and delete the objects."""
    stored = {}
    for item in OBJECTS:
        at = collection(item["kind"], item["metadata"].get("namespace", ""))
        made = client.write("POST", at, item)
        path = f"{at}/{item['metadata']['name']}"
        if item["metadata"]["name"] in STATUSES:
            status = STATUSES[item["metadata"]["name"]]
            made = client.write("PUT", f"{path}/status", {**made, "status": status})
        stored[item["metadata"]["name"]] = (path, made)
    for name, fields in CHANGES.items():
        path, made = stored[name]
        client.write("PUT", path, {**made, **fields}) if fields else client.write("DELETE", path)


def pairs(client: Client, path: str, version: str) -> Iterator[tuple[str, bytes]]:
    """Yield each event of a watch as a line of JSON and as a frame of protobuf."""
    query = f"{QUERY}&resourceVersion={version}"
    lines = client.ask("GET", path + query)[2].decode().splitlines()
    status, kind, stream = client.ask("GET", path + query, accept=f"{PROTOBUF},{JSON}")
    assert (status, kind) == (200, f"{PROTOBUF};stream=watch"), (status, kind)
    yield from zip(lines, frames(stream), strict=True)


def frames(stream: bytes) -> list[bytes]:
    """Return the frames of a stream, each after its length."""
    parts = []
    while stream:
        size = int.from_bytes(stream[:4], "big")
        parts.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return parts


def bookmarks(client: Client, version: str) -> tuple[str, bytes]:
    """Return a bookmark as JSON and as protobuf, of watches outside of whose selection an object is created."""
    query = f"{QUERY}&fieldSelector=metadata.name=none&resourceVersion={version}"
    with ThreadPoolExecutor(2) as pool:
        text, stream = (pool.submit(client.ask, "GET", PATHS[2] + query, accept=accept) for accept in (JSON, PROTOBUF))
        time.sleep(1)
        client.write("POST", PATHS[2], {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "other"}})
        return text.result()[2].decode().splitlines()[-1], frames(stream.result()[2])[-1]


def refusals(client: Client) -> Iterator[tuple[str, bytes]]:
    """Yield Status documents as JSON and as protobuf."""
    for path, token in (("/api/v1/services?watch=true", "bad"), ("/api/v1/nodes/none", ADMIN)):
        _status, _kind, text = client.ask("GET", path, token=token)
        status, kind, body = client.ask("GET", path, accept=f"{PROTOBUF},{JSON}", token=token)
        assert kind == PROTOBUF, (status, kind)
        yield text.decode().strip(), body


def too_large(client: Client) -> tuple[str, bytes]:
    """Return the Status of a future version as JSON and as protobuf; both name the same present version."""
    path = f"{PATHS[0]}?resourceVersion=99999999"
    while True:
        text = client.ask("GET", path)[2].decode().strip()
        body = client.ask("GET", path, accept=PROTOBUF)[2]
        if json.loads(text)["message"].encode() in body:
            return text, body


def main(etcd: str, program: str) -> None:
    """Print the recording."""
    kube_apiserver.NETWORKS["127.0.0.1"] = ("192.0.2.1", "10.96.0.0/16,fd00:10:96::/112")
    with tempfile.TemporaryDirectory() as directory:
        server = KubeApiServer(Path(directory), etcd, program, "127.0.0.1")
        try:
            client = Client(server)
            version = client.write("GET", "/version")["gitVersion"]
            first = client.write("GET", PATHS[0])["metadata"]["resourceVersion"]
            change(client)
            events = [pair for path in PATHS for pair in pairs(client, path, first)]
            latest = client.write("GET", PATHS[2])["metadata"]["resourceVersion"]
            events.append(bookmarks(client, latest))
            answers = [*refusals(client), too_large(client)]
            server.kill()
            server.up()
            events += pairs(client, PATHS[0], first)  # an API server that has just started knows no older version
        finally:
            server.close()
    for kind, recorded in (("event", events), ("refusal", answers)):
        for text, data in recorded:
            document = json.loads(text)
            document.get("object", {}).get("metadata", {}).pop("managedFields", None)  # most of the text
            entry = {"version": version, "is": kind, "json": document, "protobuf": base64.b64encode(data).decode()}
            print(json.dumps(entry, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
