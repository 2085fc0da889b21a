# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of any size: Services and EndpointSlices as the API server lists them, the same for the same seed.

    python tests/bench/objects.py SERVICES ENDPOINTS [SEED] > cluster.json

Of ten services eight are plain TCP ClusterIPs, one has a node port, one is UDP; one of twenty has session affinity. A
tenth of the endpoints is on ``node1``.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from typing import Any

NODE = "node1"
SLICE_SIZE = 100  # endpoints a slice, the controller's default
PODS_PORT = 8080
_FIRST_SERVICE = (10 << 24) + (96 << 16) + 256  # 10.96.1.0, in the default service CIDR 10.96.0.0/12
_FIRST_POD = (10 << 24) + (128 << 16) + 1  # 10.128.0.1
_MAX_SERVICES, _MAX_PODS = (1 << 20) - 512, (1 << 23) - 2
_NODE_PORTS = range(30000, 32768)

Object = dict[str, Any]


def text(number: int) -> str:
    """Return an IPv4 address."""
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def cluster(services: int, endpoints: int, seed: int = 1, node_ports: int | None = None) -> list[Object]:
    """Return ``services`` Services with ``endpoints`` endpoints each, in random order.

    With ``node_ports``, only so many of the first Services can have one.

    Raises:
        ValueError: the addresses or node ports do not suffice.
    """
    if not 0 <= services <= _MAX_SERVICES or not 0 <= services * endpoints <= _MAX_PODS:
        raise ValueError(f"{services} services with {endpoints} endpoints each: more than there are addresses")
    dice = random.Random(seed)
    objects: list[Object] = []
    for index in range(services):
        one = service(index, dice, node_port=node_ports is None or index < node_ports)
        pods = range(index * endpoints, (index + 1) * endpoints)
        slices = [pods[first : first + SLICE_SIZE] for first in range(0, endpoints, SLICE_SIZE)]
        objects += [one, *(endpoint_slice(one, number, part) for number, part in enumerate(slices))]
    dice.shuffle(objects)
    return objects


def service(index: int, dice: random.Random, *, node_port: bool = True) -> Object:
    """Return one Service; each tenth has a node port if ``node_port`` allows it."""
    address = text(_FIRST_SERVICE + index)
    protocol = "UDP" if index % 10 == 9 else "TCP"
    port: Object = {"name": "main", "protocol": protocol, "port": dice.choice((80, 443, 53, 8080)), "targetPort": 8080}
    spec: Object = {
        "clusterIP": address,
        "clusterIPs": [address],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [port],
        "selector": {"app": f"app-{index}"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    if index % 10 == 8 and node_port:
        if index // 10 >= len(_NODE_PORTS):
            raise ValueError(f"service {index}: no node port left")
        port["nodePort"] = _NODE_PORTS[index // 10]
        spec |= {"type": "NodePort", "externalTrafficPolicy": "Cluster"}
    if index % 20 == 0:
        spec |= {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
    metadata = _metadata(f"service-{index}", index, {"app": f"app-{index}"})
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}


def endpoint_slice(of: Object, number: int, pods: range) -> Object:
    """Return slice ``number`` of a Service, with the pods of these indexes as endpoints."""
    name = of["metadata"]["name"]
    labels = {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": name,
    }
    (port,) = of["spec"]["ports"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata(f"{name}-{number:05x}", pods.start, labels),
        "addressType": "IPv4",
        "endpoints": [endpoint(pod) for pod in pods],
        "ports": [{"name": port["name"], "protocol": port["protocol"], "port": port["targetPort"]}],
    }


def endpoint(pod: int) -> Object:
    """Return the endpoint of the pod with this index."""
    return {
        "addresses": [text(_FIRST_POD + pod)],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": NODE if pod % 10 == 0 else f"node{2 + pod % 9}",
        "targetRef": {
            "kind": "Pod",
            "name": f"pod-{pod}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{pod:012x}",
        },
    }


def _metadata(name: str, version: int, labels: dict[str, str]) -> Object:
    return {
        "creationTimestamp": "2026-11-20T09:00:00Z",
        "labels": labels,
        "name": name,
        "namespace": "default",
        "resourceVersion": str(1000 + version),
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
    }


def as_list(objects: list[Object]) -> Object:
    """Return objects as one ``kind: List``."""
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}


if __name__ == "__main__":
    json.dump(as_list(cluster(*map(int, sys.argv[1:]))), sys.stdout)
