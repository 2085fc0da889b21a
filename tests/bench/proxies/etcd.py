# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that go to etcd directly: an API server needs longer for each new Service the more Services it has.

For its metrics, kube-apiserver 1.36 lists all IPAddress objects at each allocation of a cluster IP (``Used`` in
pkg/registry/core/service/ipallocator/ipallocator.go). So 44,125 Services took more than 35 minutes. The API server
reads JSON from etcd as well as its own protobuf, and its watches report these objects as all others.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable, Iterator
from contextlib import closing

from ..objects import Object

_TOGETHER = 100  # objects in a transaction; etcd takes 128 operations
_PLACES = {"Service": "services/specs", "EndpointSlice": "endpointslices"}


def store(port: int, objects: Iterable[Object]) -> None:
    """Write objects, and the IPAddress objects of Services, by etcd's JSON gateway on 127.0.0.1.

    Raises:
        RuntimeError: etcd does not take them.
    """
    pairs = [pair for item in objects for pair in _pairs(item)]
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        for first in range(0, len(pairs), _TOGETHER):
            puts = [
                {"requestPut": {"key": _encoded(key), "value": _encoded(json.dumps(value))}}
                for key, value in pairs[first : first + _TOGETHER]
            ]
            connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != http.client.OK:
                raise RuntimeError(f"etcd: {answer.status} {text.decode(errors='replace')[:300]}")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pairs(item: Object) -> Iterator[tuple[str, Object]]:
    """Return the keys and values of an object in etcd."""
    metadata = {name: value for name, value in item["metadata"].items() if name != "resourceVersion"}
    name = f"{metadata['namespace']}/{metadata['name']}"
    yield f"/registry/{_PLACES[item['kind']]}/{name}", {**item, "metadata": metadata}
    if item["kind"] == "Service":
        for address in item["spec"]["clusterIPs"]:
            yield f"/registry/ipaddresses/{address}", _ip_address(address, metadata)


def _ip_address(address: str, service: Object) -> Object:
    """Return the object that allocates a cluster IP, as the API server's ipallocator makes it."""
    labels = {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    metadata = {"name": address, "labels": labels, "uid": service["uid"]}
    parent = {"group": "", "resource": "services", "namespace": service["namespace"], "name": service["name"]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {**metadata, "creationTimestamp": service["creationTimestamp"]},
        "spec": {"parentRef": parent},
    }
