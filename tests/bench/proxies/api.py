# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster of the comparison: it grows, its endpoints change, and its API server is behind a relay.

The relay counts the bytes for the node and notes when they came.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from lab import naming
from support.fakes.relay import Relay

from ..objects import NODE, Object, cluster, endpoint

if TYPE_CHECKING:
    from .servers import FakeServer, RealServer

ENDPOINTS, FEW = 5, 5000  # endpoints of a Service, up to this number of Services
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp")


class MeasuredRelay(Relay):
    """Relay that notes when data of the server came."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.arrivals: deque[float] = deque(maxlen=100_000)
        super().__init__(*target, naming.bridge_addresses().ipv4)

    def count(self, size: int) -> None:
        super().count(size)
        self.arrivals.append(time.perf_counter())


class Cost(NamedTuple):
    """Bytes that the API server sent to the node, and its CPU seconds."""

    sent: int
    cpu: float

    def since(self, before: Cost) -> Cost:
        """Return the cost after a moment."""
        return Cost(self.sent - before.sent, self.cpu - before.cpu)


class Api:
    """Objects in an API server. Use it inside the lab's network namespace, until :meth:`close`."""

    def __init__(self, server: RealServer | FakeServer, largest: int) -> None:
        self._server = server
        self._objects = objects_by_service(largest)
        self._slices: dict[str, Object] = {}  # as the API server has them
        self.services = 0
        self.relay = MeasuredRelay(server.target)

    def kubeconfig(self) -> str:
        """Return the kubeconfig of all proxies, by way of the relay."""
        return self._server.kubeconfig(naming.bridge_addresses().ipv4, self.relay.port)

    def cost(self) -> Cost:
        """Return the cost so far."""
        return Cost(self.relay.carried, self._server.cpu())

    def register(self, node: str) -> None:
        """Create the Node object."""
        addresses = [{"type": "InternalIP", "address": node}, {"type": "Hostname", "address": NODE}]
        item: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self._create({**item, "status": {"addresses": addresses}})

    def _create(self, item: Object, connection: int = 0) -> None:
        item = copy.deepcopy(item)
        for field in _SERVER_FIELDS:
            item["metadata"].pop(field, None)
        made = self._server.create(item, connection)
        if item["kind"] == "EndpointSlice":
            self._slices[_service_of(item)] = made

    def add(self, items: list[Object], connection: int = 0) -> None:
        """Create objects."""
        for item in items:
            self._create(item, connection)

    def grow(self, services: int) -> None:
        """Create the Services up to a number, with their slices: above :data:`FEW` in the store itself."""
        by_request, stored = range(self.services, min(services, FEW)), range(max(self.services, FEW), services)
        new = [item for number in by_request for item in self._objects[number]]
        count = self._server.connections
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(self.add, new[first::count], first) for first in range(count)]:
                done.result()
        rest = [item for number in stored for item in self._objects[number]]
        self._server.store(rest)
        self._slices |= {_service_of(item): item for item in rest if item["kind"] == "EndpointSlice"}
        self.services = services

    def expected(self) -> tuple[list[tuple[str, str, int]], list[str]]:
        """Return the cluster IPs with protocol and port, and the addresses of endpoints."""
        servers = [self.server(number) for number in range(self.services)]
        addresses = [
            each["addresses"][0]
            for number in range(self.services)
            for each in self._slices[f"service-{number}"]["endpoints"]
        ]
        return [(protocol.upper(), address, port) for protocol, address, port in servers], addresses

    def server(self, number: int) -> tuple[str, str, int]:
        """Return protocol, cluster IP and port of a Service."""
        spec = next(item["spec"] for item in self._objects[number] if item["kind"] == "Service")
        port = spec["ports"][0]
        return port["protocol"].lower(), spec["clusterIP"], port["port"]

    def exchange(self, service: str, endpoints: list[Object]) -> float:
        """Replace a Service's endpoints; return the time at which the request was sent."""
        item = {**self._slices[service], "endpoints": endpoints}
        began = time.perf_counter()
        self._slices[service] = self._server.replace(item)
        return began

    def endpoints(self, service: str) -> list[Object]:
        """Return a Service's endpoints as they are."""
        return list(self._slices[service]["endpoints"])

    def close(self) -> None:
        """End relay and API server."""
        self.relay.close()
        self._server.close()


def pod(number: int) -> Object:
    """Return an endpoint on another node that no Service has so far; ``number`` counts them."""
    return endpoint(4_000_000 + 10 * number + 1)


def objects_by_service(services: int) -> dict[int, list[Any]]:
    """Return the objects of each Service; above :data:`FEW` the Services have one endpoint more and no node ports.

    So 44,125 Services have 259,750 endpoints, about as many as users of kube-proxy's nftables mode report
    (kubernetes/kubernetes#139513).
    """
    objects = _by_service(cluster(min(services, FEW), ENDPOINTS))
    if services > FEW:
        larger = _by_service(cluster(services, ENDPOINTS + 1, node_ports=FEW))
        objects |= {number: items for number, items in larger.items() if number >= FEW}
    return objects


def endpoints_of(services: int) -> int:
    """Return the number of endpoints of all these Services."""
    return ENDPOINTS * services + max(0, services - FEW)


def _service_of(piece: Object) -> str:
    """Return the name of a slice's Service."""
    return str(piece["metadata"]["labels"]["kubernetes.io/service-name"])


def _by_service(objects: list[Object]) -> dict[int, list[Any]]:
    """Return Services with their slices, by the number in the name."""
    grouped: dict[int, list[Object]] = {}
    for item in objects:
        name = item["metadata"]["labels"].get("kubernetes.io/service-name", item["metadata"]["name"])
        grouped.setdefault(int(name.rpartition("-")[2]), []).append(item)
    return grouped
