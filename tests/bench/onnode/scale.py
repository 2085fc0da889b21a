# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent with a large cluster while endpoints change at a steady rate. Runs on the node.

Arguments: services, endpoints of each, changes in a second, seconds. Standard output: JSON with the list of ``latency``
(seconds from the due time of a change until this script sees it in IPVS), ``cpu`` (the agent's CPU seconds in a
second), ``own`` (the same of this script, which shares the CPU with the agent) and ``memory`` (MiB, the largest).

Some services of every kind, each in a manifest of its own, have an endpoint that is removed and added again. The script
checks changes in order, with one request for one virtual server. So a change is never seen before an earlier one, and
a check costs the same however many changes wait.
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
    """Agent with many changing services, one manifest each."""

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
        """Remove an endpoint from a service, or add the removed one again.

        Return the virtual server, the endpoint's address, and whether the endpoint was added.
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
    """Tell whether a virtual server sends new connections to an address.

    A removed address may stay for a while, with weight 0.
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
