# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent with each back end of its rules, in turns. Runs on the node.

Arguments: services, endpoints of each, cold starts, seconds without changes after each; turns of endpoint changes,
changes in a turn. Standard output: JSON, back end to the lists ``cold``, ``event`` (seconds), ``cpu`` (seconds in a
minute without changes) and ``memory`` (MiB, the largest).

A changed endpoint is a pod of this node. So it needs a member of a set beside the real server, and the agent writes all
members before all real servers. All endpoint changes are measured with one process, which switches the back end between
two turns: so both have the same process and memory.
"""

from __future__ import annotations

import json
import sys
import time

from agent import Agent

BACKENDS = ("iptables", "nftables")
_LOCAL = 10  # each tenth pod is on this node
_PAUSE = 0.08  # seconds; after shorter ones, the agent gathers changes
Samples = dict[str, list[float]]


def start(agent: Agent, backend: str, steady: float, samples: Samples) -> None:
    """Start the agent on a clean node, and wait; leave a clean node."""
    agent.configure(backend)
    samples["cold"].append(agent.start())
    agent.check()
    if steady:
        agent.rest()
        before, began = agent.cpu(), time.perf_counter()
        time.sleep(steady)
        samples["cpu"].append((agent.cpu() - before) / (time.perf_counter() - began) * 60)
    samples["memory"].append(agent.memory())
    agent.stop()
    agent.clean()


def change(agent: Agent, turns: int, pods: range, samples: dict[str, Samples]) -> None:
    """Add endpoints, these pods in each turn; leave a clean node."""
    listed = list(agent.changing["EndpointSlice"]["endpoints"])
    agent.configure(BACKENDS[0])
    agent.start()
    for turn in range(turns):
        for backend in BACKENDS[:: -1 if turn % 2 else 1]:
            agent.changing["EndpointSlice"]["endpoints"] = list(listed)
            agent.write_changing()
            agent.switch(backend)
            for pod in pods:
                samples[backend]["event"].append(agent.add_endpoint(pod))
                time.sleep(_PAUSE + 4 * samples[backend]["event"][-1])  # until the agent has published the pass
    agent.check()
    agent.stop()
    agent.clean()


def main(services: int, endpoints: int, starts: int, steady: int, turns: int, changes: int) -> None:
    """Measure."""
    agent = Agent(services, endpoints)
    agent.write_changing()
    samples: dict[str, Samples] = {backend: {"cold": [], "event": [], "cpu": [], "memory": []} for backend in BACKENDS}
    for number in range(starts):
        for backend in BACKENDS[:: 1 if number % 2 else -1]:
            start(agent, backend, steady, samples[backend])
    first = services * endpoints * _LOCAL
    change(agent, turns, range(first, first + changes * _LOCAL, _LOCAL), samples)
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
