# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure new connections through a cluster IP with each back end of the agent's rules, in turns. Runs on the node.

Arguments: services, rounds, connections in a round. Standard output: JSON, back end to the lists ``connect`` (seconds
for a TCP connection: request, accept, end) and ``first`` (seconds for the first UDP packet of a flow, from sending to
receiving it), each of a round: what the fastest twentieth does not exceed. The kernel does the same work for each of
them, and other processes of the machine have not interrupted these.

A client in one network namespace connects by the node to a pod in another. One process has the sockets of both: so the
processor does nothing but the kernel's work for these packets. Between the rounds, the running agent switches the back
end; IPVS's table stays as it is.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import time
from statistics import quantiles
from typing import Any

from backends import BACKENDS
from objects import as_list, endpoint

from agent import Agent, write

PORT = 8080
CLIENT, POD = ("10.201.0.1", "10.201.0.2"), ("10.200.0.1", "10.200.0.2")  # the node's address, and the other's
TCP_SERVICE, UDP_SERVICE = "service-1", "service-9"
_NETWORK = 0x40000000  # CLONE_NEWNET
_END_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: a reset, so that no port is in use afterwards


def ip(*words: str) -> None:
    """Run ip."""
    subprocess.run(["ip", *words], check=True)


def make(name: str, node: str, other: str) -> None:
    """Make a namespace with a link to the node."""
    ip("netns", "add", name)
    ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("address", "add", f"{node}/24", "dev", f"to-{name}")
    ip("link", "set", f"to-{name}", "up")
    ip("-n", name, "address", "add", f"{other}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "route", "add", "default", "via", node)


def enter(name: str) -> None:
    """Move this process into a namespace; its sockets stay where they were made."""
    with open(f"/run/netns/{name}", "rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter {name}")


class Served(Agent):
    """Agent with a cluster in which the pod is the only endpoint of two services."""

    def __init__(self, services: int) -> None:
        super().__init__(services, 5)
        path = self.manifests / "cluster.json"
        objects = json.loads(path.read_text())["items"]
        pod = {**endpoint(0), "addresses": [POD[1]]}
        self.targets: dict[str, tuple[str, int]] = {}
        for item in objects:
            of: Any = item["metadata"]["labels"].get("kubernetes.io/service-name", item["metadata"]["name"])
            if of in (TCP_SERVICE, UDP_SERVICE):
                if item["kind"] == "Service":
                    self.targets[of] = item["spec"]["clusterIP"], item["spec"]["ports"][0]["port"]
                else:
                    item["endpoints"] = [pod]
        write(path, as_list(objects))


def connect(listener: socket.socket, target: tuple[str, int], count: int) -> float:
    """Return the seconds that the fastest twentieth of TCP connections does not exceed."""
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.connect(target)
            accepted, _peer = listener.accept()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END_AT_ONCE)
        accepted.close()
        seconds.append(time.perf_counter() - began)
    return quantiles(seconds, n=20)[0]


def first(receiver: socket.socket, target: tuple[str, int], count: int) -> float:
    """Return the seconds that the fastest twentieth of first UDP packets does not exceed."""
    seconds = []
    for _ in range(count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind(("", 0))
            began = time.perf_counter()
            client.sendto(b"", target)
            receiver.recv(1)
            seconds.append(time.perf_counter() - began)
    return quantiles(seconds, n=20)[0]


def main(services: int, rounds: int, count: int) -> None:
    """Measure."""
    make("client", *CLIENT)
    make("pod", *POD)
    agent = Served(services)
    agent.write_changing()
    agent.configure(BACKENDS[0])
    agent.start()
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter("pod")
    listener, receiver = socket.create_server(("", PORT)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", PORT))
    for each in (listener, receiver):
        each.settimeout(5)
    libc = ctypes.CDLL(None, use_errno=True)
    samples: dict[str, dict[str, list[float]]] = {backend: {"connect": [], "first": []} for backend in BACKENDS}
    for number in range(rounds + 1):
        for backend in BACKENDS[:: -1 if number % 2 else 1]:
            libc.setns(home, _NETWORK)
            agent.switch(backend)
            subprocess.run(["conntrack", "-F"], check=True, stderr=subprocess.DEVNULL)
            enter("client")
            found = {
                "connect": connect(listener, agent.targets[TCP_SERVICE], count),
                "first": first(receiver, agent.targets[UDP_SERVICE], count),
            }
            if number:  # the first round warms up
                for name, value in found.items():
                    samples[backend][name].append(value)
    libc.setns(home, _NETWORK)
    agent.check()
    agent.stop()
    agent.clean()
    for name in ("client", "pod"):
        ip("netns", "delete", name)
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
