# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent with each back end of its rules, in turns. Runs on the node.

Arguments: services, endpoints of each, rounds, endpoint changes in a round, seconds without changes in a round.
Standard output: JSON, back end to the lists ``cold``, ``event`` (seconds), ``cpu`` (seconds in a minute without
changes) and ``memory`` (MiB, the largest).

A changed endpoint is a pod of this node. So it needs a member of a set beside the real server, and the agent writes all
members before all real servers.
"""

from __future__ import annotations

import json
import sys
import time

from agent import Agent

BACKENDS = ("iptables", "nftables")
_LOCAL = 10  # each tenth pod is on this node
Samples = dict[str, list[float]]


def measure(agent: Agent, backend: str, events: range, steady: float, samples: Samples) -> None:
    """Start the agent on a clean node, change endpoints, wait; leave a clean node."""
    agent.configure(backend)
    samples["cold"].append(agent.start())
    time.sleep(1)
    for pod in events:
        samples["event"].append(agent.add_endpoint(pod))
        time.sleep(0.3)
    agent.check()
    if steady:
        before, began = agent.cpu(), time.perf_counter()
        time.sleep(steady)
        samples["cpu"].append((agent.cpu() - before) / (time.perf_counter() - began) * 60)
    samples["memory"].append(agent.memory())
    agent.stop()
    agent.clean()


def main(services: int, endpoints: int, rounds: int, events: int, steady: float) -> None:
    """Measure."""
    agent = Agent(services, endpoints)
    samples: dict[str, Samples] = {backend: {"cold": [], "event": [], "cpu": [], "memory": []} for backend in BACKENDS}
    listed = list(agent.changing["EndpointSlice"]["endpoints"])
    first = services * endpoints * _LOCAL
    for number in range(rounds):
        for backend in BACKENDS[:: 1 if number % 2 else -1]:
            agent.changing["EndpointSlice"]["endpoints"] = list(listed)
            agent.write_changing()
            measure(agent, backend, range(first, first + events * _LOCAL, _LOCAL), steady, samples[backend])
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), float(sys.argv[5]))
