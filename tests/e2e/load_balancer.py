# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for a cloud's load balancer: gives each Service an address, and routes it to the healthy nodes.

The routes are in the lab's namespace, by way of which the tests reach the nodes. Where no node is healthy, packets are
dropped: the tests do not accept the answer "unreachable". Clients must not be in the nodes' own network.
"""

from __future__ import annotations

import ipaddress
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

from lab import naming, netns
from lab.command import run

if TYPE_CHECKING:
    from lab.state import Lab

    from .api import Api, Object

CLIENT = "tests"  # the lab's client in which e2e.test runs
POOLS = (ipaddress.ip_network("172.31.255.0/24"), ipaddress.ip_network("fd00:172:31::/120"))
_CLIENT_NETWORK = (("10.78.0.1", "10.78.0.2", "24"), ("fd78::1", "fd78::2", "64"))
_PAUSE = 0.5  # seconds between two rounds
_SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.conf.all.send_redirects=0",
    f"net.ipv4.conf.{naming.BRIDGE}.send_redirects=0",
    "net.ipv4.fib_multipath_hash_policy=1",
)


class Balanced(NamedTuple):
    """Service with a load balancer: its path in the API, IP families, port of its health check (0: none), addresses."""

    path: str
    families: tuple[str, ...]
    health_check: int
    addresses: tuple[str, ...]


def balanced(services: list[Object]) -> list[Balanced]:
    """Return the Services that want this load balancer."""
    return [
        Balanced(
            f"/api/v1/namespaces/{service['metadata']['namespace']}/services/{service['metadata']['name']}",
            tuple(service["spec"].get("ipFamilies", ["IPv4"])),
            service["spec"].get("healthCheckNodePort", 0),
            tuple(entry["ip"] for entry in service.get("status", {}).get("loadBalancer", {}).get("ingress", [])),
        )
        for service in services
        if service["spec"]["type"] == "LoadBalancer" and not service["spec"].get("loadBalancerClass")
    ]


def free_addresses(families: tuple[str, ...], used: set[str]) -> tuple[str, ...]:
    """Return an unused address of each family."""
    pools = [POOLS[family == "IPv6"] for family in families]
    return tuple(next(str(address) for address in pool.hosts() if str(address) not in used) for pool in pools)


def route(address: str, nodes: list[naming.Addresses]) -> str:
    """Return the command of ``ip`` that routes an address to nodes, or drops its packets if there is none."""
    is_ipv6 = ":" in address
    family = "-6 " if is_ipv6 else ""
    if not nodes:
        return f"{family}route replace blackhole {address}"
    hops = [f"nexthop via {node.ipv6 if is_ipv6 else node.ipv4}" for node in nodes]
    return f"{family}route replace {address} {' '.join(hops)}"


class LoadBalancer:
    """Load balancer, from :meth:`start` until :meth:`close`."""

    def __init__(self, api: Api, lab: Lab) -> None:
        self._api = api
        self._lab = lab
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="load balancer", daemon=True)
        self._routes: dict[str, str] = {}  # address: command that made its route

    def start(self) -> None:
        """Give the client its own network, and begin."""
        space, client = self._lab.namespace, self._lab.client_namespace(CLIENT)
        with netns.inside(space):
            run(["sysctl", "-q", "-w", *_SYSCTLS])
        run(["ip", "-n", client, "address", "flush", "dev", naming.CLIENT_LINK, "scope", "global"])
        for router, address, length in _CLIENT_NETWORK:
            nodad = ["nodad"] if ":" in router else []
            run(["ip", "-n", space, "address", "add", f"{router}/{length}", "dev", naming.BRIDGE, *nodad])
            run(["ip", "-n", client, "address", "add", f"{address}/{length}", "dev", naming.CLIENT_LINK, *nodad])
            run(["ip", "-n", client, "route", "add", "default", "via", router])
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        with netns.inside(self._lab.namespace):
            while not self._ended.wait(_PAUSE):
                try:
                    self._round()
                except OSError:
                    continue  # the API server is away

    def _round(self) -> None:
        listed = balanced((self._api.get("/api/v1/services") or {}).get("items", []))
        used = {address for each in listed for address in each.addresses}
        wanted = {}
        for each in listed:
            addresses = each.addresses
            if len(addresses) != len(each.families):
                addresses = free_addresses(each.families, used)
                used.update(addresses)
                ingress = [{"ip": address} for address in addresses]
                self._api.patch(f"{each.path}/status", {"status": {"loadBalancer": {"ingress": ingress}}})
            healthy = [node.addresses for node in self._lab.nodes if _is_healthy(node.addresses, each.health_check)]
            wanted.update({address: route(address, healthy) for address in addresses})
        for address in set(self._routes) - set(wanted):
            self._change(f"{'-6 ' if ':' in address else ''}route delete {address}")
            del self._routes[address]
        for address, command in wanted.items():
            if self._routes.get(address) != command:
                if address in self._routes:  # a route of another type or with other nexthops stays beside a new one
                    self._change(f"{'-6 ' if ':' in address else ''}route delete {address}")
                self._change(command)
                self._routes[address] = command

    def _change(self, command: str) -> None:
        run(["ip", "-n", self._lab.namespace, *command.split()])


def _is_healthy(node: naming.Addresses, port: int) -> bool:
    """Ask a node's health check node port; without one, every node serves."""
    if not port:
        return True
    try:
        with urllib.request.urlopen(f"http://{node.ipv4}:{port}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False
