# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New connections through the Service that was made last: how long they take, and how many fail during a change.

The Service has two pods, each in a network namespace of the node, and a client in a third one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from lab import naming
from lab.command import run

from ..node import DIRECTORY, ON_NODE
from ..objects import NODE, PODS_PORT, Object

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..node import Node
    from .api import Api
    from .observer import Observer

NAME, ADDRESS, PORT = "last", "10.111.255.250", 80
PODS = {"pod1": "10.200.0", "pod2": "10.200.1"}  # namespaces and their networks: .1 is the node, .2 the pod
CLIENT = {"client": "10.201.0"}
_ROUTES = ("10.96.0.0/12", "10.200.0.0/16")
CONNECTIONS = 500
_BEFORE = 1.0  # seconds of connections before a change
_SETTLE = 5.0  # seconds after a change, until the slowest proxy has made it


def objects() -> list[Object]:
    """Return the Service and its slice."""
    metadata = {"name": NAME, "namespace": "default"}
    ports = [{"name": "main", "protocol": "TCP", "port": PORT, "targetPort": PODS_PORT}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    labels = {"kubernetes.io/service-name": NAME}
    return [
        {**service, "spec": {"clusterIP": ADDRESS, "ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{NAME}-00000", "namespace": "default", "labels": labels},
            "addressType": "IPv4",
            "endpoints": endpoints(*PODS),
            "ports": [{"name": "main", "protocol": "TCP", "port": PODS_PORT}],
        },
    ]


def endpoints(*pods: str) -> list[Object]:
    """Return the endpoints of pods."""
    conditions = {"ready": True, "serving": True, "terminating": False}
    return [{"addresses": [f"{PODS[pod]}.2"], "conditions": conditions, "nodeName": NODE} for pod in pods]


class Traffic:
    """Pods and clients of a node, until :meth:`close`. Use it in the lab's network namespace."""

    def __init__(self, node: Node, api: Api, observer: Observer) -> None:
        self._node = node
        self._api = api
        self._observer = observer
        lines = ["sysctl -q -w net.ipv4.ip_forward=1"]
        for name, network in {**PODS, **CLIENT}.items():
            lines += [
                f"ip netns add {name}",
                f"ip link add to-{name} type veth peer name eth0 netns {name}",
                f"ip address add {network}.1/24 dev to-{name}",
                f"ip link set to-{name} up",
                f"ip -n {name} link set lo up",
                f"ip -n {name} address add {network}.2/24 dev eth0",
                f"ip -n {name} link set eth0 up",
                f"ip -n {name} route add default via {network}.1",
            ]
        node.run(" && ".join(lines))
        for network in _ROUTES:
            run(["ip", "route", "replace", network, "via", naming.node_addresses(0).ipv4])
        for name in PODS:
            self._serve(name)
        time.sleep(1)

    def _serve(self, pod: str) -> None:
        server = f"{DIRECTORY}/onnode/pod_server.py {PODS_PORT}"
        self._node.run(f"ip netns exec {pod} setsid -f python3 {server} </dev/null >/dev/null 2>&1")

    def measure(self) -> dict[str, list[float]]:
        """Return the samples of a proxy that runs; at the end it is killed."""
        samples: dict[str, list[float]] = {}
        for key, where in (("rate pod", "client"), ("rate host", ""), ("rate outside", None)):
            result = self._connections(where, ADDRESS, PORT)
            samples[key] = result["whole"]
            if key == "rate pod":
                samples["first"] = result["first"]
        two, one = endpoints(*PODS), endpoints("pod2")
        samples["failed removed"] = [self._during(lambda: self._api.exchange(NAME, one))]
        self._api.exchange(NAME, two)
        time.sleep(_SETTLE)

        def die() -> None:
            self._node.run("kill -9 $(ip netns pids pod1)")
            self._api.exchange(NAME, one)

        samples["failed dies"] = [self._during(die)]
        self._serve("pod1")
        self._api.exchange(NAME, two)
        time.sleep(_SETTLE)
        samples["failed killed"] = [self._during(lambda: self._observer.do("kill"))]
        return samples

    def direct(self) -> dict[str, list[float]]:
        """Return the samples of direct connections to a pod."""
        address = f"{PODS['pod1']}.2"
        pod, host, outside = (self._connections(where, address, PODS_PORT) for where in ("client", "", None))
        return {
            "rate pod": pod["whole"],
            "first": pod["first"],
            "rate host": host["whole"],
            "rate outside": outside["whole"],
        }

    def _connections(self, where: str | None, address: str, port: int) -> dict[str, list[float]]:
        """Connect from a namespace of the node, from the node (""), or from this machine (None)."""
        arguments = [address, str(port), str(CONNECTIONS)]
        if where is None:
            command = [sys.executable, str(ON_NODE / "new_connections.py"), *arguments]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        else:
            inside = f"ip netns exec {where} " if where else ""
            script = f"{DIRECTORY}/onnode/new_connections.py"
            output = self._node.run(f"{inside}python3 {script} {' '.join(arguments)}").encode()
        result: dict[str, list[float]] = json.loads(output)
        return result

    def _during(self, change: Callable[[], Any]) -> float:
        """Return the number of new connections from a pod that fail while something changes."""
        script = f"{DIRECTORY}/onnode/new_connections.py {ADDRESS} {PORT} 0"
        process = subprocess.Popen(
            [
                "ssh",
                "-F",
                str(self._node.lab.directory / "ssh_config"),
                self._node.name,
                f"ip netns exec client python3 {script}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        time.sleep(_BEFORE)
        change()
        time.sleep(_SETTLE)
        process.stdin.close()
        result = json.loads(process.stdout.read())
        process.wait()
        return float(result["failed"])

    def close(self) -> None:
        """Remove pods and clients."""
        for name in {**PODS, **CLIENT}:
            self._node.run(f"kill -9 $(ip netns pids {name}) 2>/dev/null; ip netns delete {name}")
        for network in _ROUTES:
            run(["ip", "route", "delete", network])
