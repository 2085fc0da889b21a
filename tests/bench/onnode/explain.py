# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure `kubenode explain` beside a running agent, for three flows. Runs on the node.

Arguments: services, endpoints of each, explanations of each flow. Standard output: JSON with lists of seconds ``wall``
and ``cpu`` (of the command), over all flows. A flow leads to a cluster IP, to a node port, or to no Service.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from agent import KUBENODE, Agent


def explained(agent: Agent, *flow: str) -> tuple[float, float, str]:
    """Explain a flow; return the seconds of wall clock and of CPU, and the verdict."""
    command = [*KUBENODE, "explain", "--format", "json", "--config", str(agent.config)]
    command += ["--objects", str(agent.manifests), *flow]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, cpu, str(json.loads(done.stdout)["verdict"])


def main(services: int, endpoints: int, times: int) -> None:
    """Measure."""
    agent = Agent(services, endpoints)
    agent.write_changing()
    agent.start()
    spec = agent.changing["Service"]["spec"]
    port = spec["ports"][0]
    flows = [
        (port["protocol"].lower(), "node", f"{spec['clusterIP']}:{port['port']}"),
        ("--service", f"default/service-{services - 1}"),
        ("tcp", "node", "203.0.113.1:4"),
    ]
    result: dict[str, list[object]] = {"wall": [], "cpu": [], "verdicts": []}
    for flow in flows:
        for _time in range(times):
            wall, cpu, verdict = explained(agent, *flow)
            result["wall"].append(wall)
            result["cpu"].append(cpu)
        result["verdicts"].append(verdict)
    agent.stop()
    agent.clean()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
