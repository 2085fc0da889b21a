# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On the node: the agent with a large cluster, while endpoints change at a steady rate.

Arguments: services, endpoints of each, changes in a second, seconds. Standard output: JSON with the list of ``latency``
(seconds from when a change was due to when IPVS was seen to have it), ``cpu`` (seconds of the agent's CPU in a second),
``own`` (seconds of this script's, with which the agent shares the one CPU) and ``memory`` (MiB, the largest).

Some services of every kind, each in a manifest of its own, have an endpoint that goes and comes back. Changes are
looked for one after the other, by one request for one virtual server: a change counts as late as the ones before it,
and looking costs the same however many wait.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import deque
from typing import Any

from engine.kernel.ipvs import connect, dump
from engine.model.ipvs import VirtualServerKey
from objects import Object, as_list, cluster

from agent import WORK, Agent, write

CHANGING = 500  # services
PATIENCE = 60.0


class Crowd(Agent):
    """An agent with many services that change, one manifest each."""

    def __init__(self, services: int, endpoints: int) -> None:
        super().__init__(1, 1)
        for path in self.manifests.iterdir():
            path.unlink()
        objects = cluster(services, endpoints)
        moving = {f"service-{number}" for number in random.Random(1).sample(range(services), CHANGING)}
        self.services: dict[str, Object] = {}
        self.slices: dict[str, Object] = {}
        others = []
        for item in objects:
            name = item["metadata"]["labels"].get("kubernetes.io/service-name", item["metadata"]["name"])
            if name not in moving:
                others.append(item)
            else:
                (self.services if item["kind"] == "Service" else self.slices)[name] = item
        self.gone: dict[str, Object] = {}
        write(self.manifests / "cluster.json", as_list(others))
        for name in self.services:
            self.write(name)

    def write(self, name: str) -> None:
        """Write the manifest of a service."""
        write(self.manifests / f"{name}.json", as_list([self.services[name], self.slices[name]]))

    def change(self, name: str) -> tuple[VirtualServerKey, str, bool]:
        """Take an endpoint from a service, or give it back.

        Return the virtual server, the endpoint's address, and whether the virtual server will have it or lose it.
        """
        service, endpoints = self.services[name], self.slices[name]["endpoints"]
        comes = name in self.gone
        if comes:
            endpoints.append(self.gone.pop(name))
            address = endpoints[-1]["addresses"][0]
        else:
            self.gone[name] = endpoints.pop(0)
            address = self.gone[name]["addresses"][0]
        self.write(name)
        port = service["spec"]["ports"][0]
        return VirtualServerKey(port["protocol"].lower(), service["spec"]["clusterIP"], port["port"], 4), address, comes


def takes_connections(kernel: Any, server: VirtualServerKey, address: str) -> bool:
    """Tell whether a virtual server gives new connections to an address.

    An address that is removed may stay a while, with weight 0.
    """
    return any(key.address == address and real.weight > 0 for key, real in dump.reals(kernel, [server]).items())


def main(services: int, endpoints: int, rate: float, seconds: float) -> None:
    """Measure."""
    agent = Crowd(services, endpoints)
    agent.start()
    agent.check()
    names = list(agent.services)
    latency: list[float] = []
    pending: deque[tuple[float, VirtualServerKey, str, bool]] = deque()
    total, sent = int(rate * seconds), 0
    cpu, own, start = agent.cpu(), time.process_time(), time.perf_counter()
    with connect() as kernel:
        while len(latency) < total:
            while sent < total and sent / rate <= time.perf_counter() - start:
                pending.append((sent / rate, *agent.change(names[sent % len(names)])))
                sent += 1
            while pending:
                due, server, address, comes = pending[0]
                late = time.perf_counter() - start - due
                if takes_connections(kernel, server, address) == comes:
                    latency.append(late)
                    pending.popleft()
                elif late > PATIENCE:
                    sys.exit(
                        f"{server}: {address}"
                        f" {'never came' if comes else 'never went'}\n{(WORK / 'log').read_text()[-2000:]}"
                    )
                else:
                    break
            time.sleep(0.01)
    elapsed = time.perf_counter() - start
    spent, own = (agent.cpu() - cpu) / elapsed, (time.process_time() - own) / elapsed
    memory = agent.memory()
    agent.stop()
    agent.clean()
    json.dump({"latency": latency, "cpu": spent, "own": own, "memory": memory}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
