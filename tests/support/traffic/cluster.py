# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster for tests with traffic: the network, a server in every pod, and a real agent on node1."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

from ..agent.process import AgentProcess, dump, eventually
from ..clusters import objects
from ..clusters.objects import Object
from ..processes.kernel import NFT
from ..processes.namespace import sh
from ..waiting import PATIENCE
from .conversation import Servers, Target
from .network import (
    APPLIANCE_IP,
    BALANCER_IP,
    CLUSTER_CIDRS,
    CLUSTER_IP,
    EXTERNAL_IP,
    HOSTS,
    LOCAL_PODS,
    NODE,
    REMOTE_PODS,
    inside,
)

POD_PORT = 8080
HOST_PORT = 2222  # of a server on node1 itself, on all its addresses
PROTOCOLS = ("tcp", "udp", "sctp")


def serve_pods(servers: Servers) -> None:
    """Add a server for every protocol and family in every pod, and one on node1 itself."""
    for address in ("0.0.0.0", "::"):
        for protocol in ("tcp", "udp"):
            servers.add("host", NODE, Target(address, HOST_PORT, protocol))
    for name in (*LOCAL_PODS, *REMOTE_PODS):
        host = HOSTS[name]
        for address in host.ip.values():
            for protocol in PROTOCOLS:
                servers.add(name, host.namespace, Target(address, POD_PORT, protocol))
    for family in (4, 6):
        for protocol in ("tcp", "udp"):
            servers.add("appliance", "balancer", Target(APPLIANCE_IP[family].format(1), 80, protocol))


class Cluster:
    """node1 with an agent, which runs from :meth:`start` to :meth:`close`.

    The network and the servers exist before it. ``backend`` is `rules.backend` of each configuration that does not say
    otherwise.
    """

    def __init__(self, agent: AgentProcess, servers: Servers, backend: str = "auto") -> None:
        self.servers = servers
        self.agent = agent
        self.backend = backend
        self.configure()

    def close(self) -> None:
        """End the agent and remove its items; an error shows the kernel's state."""
        if not self.agent.exited():
            self.agent.stop()
        with inside(NODE):
            try:
                self.agent.command("cleanup", "--run-dir", str(self.agent.run))
            except AssertionError as error:
                shown = "\n".join(f"{part}:\n{text}" for part, text in dump().items())
                raise AssertionError(f"{error}\n{self.agent.log.read_text()[-4000:]}\n{shown}") from None

    def node(self) -> dict[str, str]:
        """Return the output of the native tools for node1."""
        with inside(NODE):
            return dump()

    def configure(self, kube_proxy: dict[str, Any] | None = None, **agent: Any) -> None:
        """Write the configuration: KubeProxyConfiguration over the tests' defaults, AgentConfiguration by keywords."""
        settings = {"rules": {"backend": self.backend}, **agent}
        self.agent.configure({"clusterCIDR": CLUSTER_CIDRS, **(kube_proxy or {})}, **settings)

    def start(self) -> None:
        """Start the agent on node1; wait until the node is converged."""
        with inside(NODE):
            self.agent.start()

    def reconfigure(self, kube_proxy: dict[str, Any] | None = None, **agent: Any) -> None:
        """Give the running agent another configuration; return when it uses it."""
        before = self._reloads()
        self.configure(kube_proxy, **agent)
        self.agent.kill(signal.SIGHUP)
        eventually(lambda: self._reloads() > before)
        self.agent.converged()

    def _reloads(self) -> int:
        return self.agent.log.read_text().count("reason=reload")

    def write(self, name: str, things: Iterable[Object]) -> None:
        """Write manifests; a running agent notices them by itself."""
        self.agent.write(f"{name}.json", things)

    def remove(self, name: str, *targets: Target) -> None:
        """Remove manifests; wait until these virtual servers accept no new connections, and the pass has ended.

        Within the pass, a virtual server without real servers refuses a packet before conntrack knows its flow.
        """
        self.write(name, [])
        for target in targets:
            eventually(lambda target=target: not any(self.weights(target).values()))
        self.agent.ask("status")

    def restart(self) -> None:
        """End the agent and start another."""
        assert self.agent.stop() == 0
        self.start()

    def run(self, *words: str) -> str:
        """Run a command on node1."""
        with inside(NODE):
            return sh(*words)

    def rules(self, family: int) -> str:
        """Return the rules of the agent's back end, as its native tool shows them."""
        if self.backend == "nftables":
            return self.run(NFT, "list", "table", "ip" if family == 4 else "ip6", "kubenode")
        return self.run("iptables-save" if family == 4 else "ip6tables-save")

    def weights(self, target: Target) -> dict[str, int]:
        """Return the weights of a virtual server's real servers, by pod name; draining ones have weight 0."""
        names = {address: name for name, host in HOSTS.items() for address in host.ip.values()}
        weight_of: dict[str, int] = {}
        option = {"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}[target.protocol]
        where = f"[{target.address}]:{target.port}" if target.family == 6 else f"{target.address}:{target.port}"
        for line in self.run("ipvsadm", "-Sn").splitlines():
            words = line.split()
            if words[:3] == ["-a", option, where]:
                address = words[4].rpartition(":")[0].strip("[]")
                weight_of[names.get(address, address)] = int(words[7])
        return weight_of

    def becomes(self, target: Target, wanted: dict[str, int], seconds: float = PATIENCE) -> None:
        """Wait until a virtual server has these real servers and weights, and the agent has finished the pass."""
        try:
            eventually(lambda: self.weights(target) == wanted, seconds)
        except AssertionError:
            raise AssertionError(
                f"{target}: {self.weights(target)}, not {wanted}\n{self.agent.log.read_text()[-2000:]}"
            ) from None
        self.agent.ask("status")  # the agent answers between two passes: so the pass that changed the weights has ended


def cluster_ip(number: int, family: int, port: int = 80, protocol: str = "tcp") -> Target:
    return Target(CLUSTER_IP[family].format(number), port, protocol)


def external_ip(number: int, family: int, port: int = 80, protocol: str = "tcp") -> Target:
    return Target(EXTERNAL_IP[family].format(number), port, protocol)


def balancer_ip(number: int, family: int, port: int = 80, protocol: str = "tcp") -> Target:
    return Target(BALANCER_IP[family].format(number), port, protocol)


def node_port(port: int, family: int, protocol: str = "tcp") -> Target:
    return Target(HOSTS[NODE].ip[family], port, protocol)


def pod(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a pod as an endpoint with conditions (see :func:`objects.endpoint`)."""
    return name, more


def service(
    number: int,
    pods: Iterable[str | tuple[str, dict[str, Any]]],
    *,
    protocols: Iterable[str] = ("tcp",),
    node_port: int = 0,
    weights: dict[str, str] | None = None,
    **fields: Any,
) -> list[Object]:
    """Return a dual-stack Service of port 80 for the pods' servers, with its EndpointSlices.

    Args:
        number: number in the Service's name, and last part of its virtual addresses.
        pods: its endpoints.
        protocols: one port for each.
        node_port: node port of all protocols.
        weights: pods with a weight of their own; each gets an EndpointSlice of its own.
        fields: more of the Service, as :func:`objects.service` takes it; ``external=True`` and ``balancer=True`` give
            it an external address and one of a load balancer.
    """
    listed = [item if isinstance(item, tuple) else (item, {}) for item in pods]
    name = f"svc{number}"
    ports = [objects.port(80, f"p-{protocol}", protocol.upper(), node_port) for protocol in protocols]
    if fields.pop("external", False):
        fields["externalIPs"] = [EXTERNAL_IP[family].format(number) for family in (4, 6)]
    if fields.pop("balancer", False):
        fields["ingress"] = [{"ip": BALANCER_IP[family].format(number)} for family in (4, 6)]
    kind = fields.pop("kind", "LoadBalancer" if "ingress" in fields else "NodePort" if node_port else "ClusterIP")
    ips = [CLUSTER_IP[family].format(number) for family in (4, 6)]
    items = [objects.service(name, ips, ports, kind=kind, **fields)]
    pod_ports = [objects.port(POD_PORT, f"p-{protocol}", protocol.upper()) for protocol in protocols]
    weights = weights or {}
    for family in (4, 6):
        for weight in ["", *dict.fromkeys(weights.values())]:
            endpoints = [_endpoint(pod, more, family) for pod, more in listed if weights.get(pod, "") == weight]
            notes = {"kubenode.ipvs/weight": weight} if weight else {}
            slice_name = f"{name}-{family}-{weight}"
            items.append(objects.piece(name, endpoints, pod_ports, name=slice_name, family=family, annotations=notes))
    return items


def _endpoint(name: str, more: dict[str, Any], family: int) -> Object:
    return objects.endpoint(HOSTS[name].ip[family], NODE if name in LOCAL_PODS else "node2", **more)
