# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On the node: the agent with a cluster of a given size, from nothing to everything in place and beyond.

Arguments: services, endpoints of each, cold starts, endpoint changes, seconds of steady state. Standard output: JSON with lists of
seconds ``cold``, ``event``, and ``cpu_per_minute`` (seconds) and ``memory`` (MiB, the largest so far).

All but one service are in one manifest, as kubectl prints them; the one whose endpoints change is in its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from engine.kernel.ipvs import connect, dump
from engine.model.ipvs import VirtualServerKey
from objects import as_list, cluster, endpoint

WORK = Path("/root/bench/agent")
HEALTH = ("127.0.0.1", 10256)
PATIENCE = 600.0  # seconds
_TICKS = os.sysconf("SC_CLK_TCK")


def write(path: Path, value: object) -> None:
    """Write JSON, in one piece."""
    staged = path.with_suffix(".new")
    staged.write_text(json.dumps(value))
    staged.rename(path)


class Agent:
    """One agent, started and stopped as often as wanted, with everything of its own in WORK."""

    def __init__(self, services: int, endpoints: int) -> None:
        self.manifests = WORK / "manifests"
        self.manifests.mkdir(parents=True, exist_ok=True)
        for path in self.manifests.iterdir():
            path.unlink()
        objects = cluster(services, endpoints)
        changing = {"service-0", "service-0-00000"}
        write(self.manifests / "cluster.json", as_list([one for one in objects if one["metadata"]["name"] not in changing]))
        self.changing = {one["kind"]: one for one in objects if one["metadata"]["name"] in changing}
        self.process: subprocess.Popen[bytes] | None = None

    def _command(self, *arguments: str) -> list[str]:
        return ["/usr/local/bin/kubenode", *arguments]

    def write_changing(self) -> None:
        """Write the manifest of the service that changes."""
        write(self.manifests / "changing.json", as_list(list(self.changing.values())))

    def start(self) -> float:
        """Start the agent; returns the seconds until it says that everything is in place."""
        began = time.perf_counter()
        with open(WORK / "log", "ab") as log:
            self.process = subprocess.Popen(self._command("run", "--manifests", str(self.manifests)), stdout=log, stderr=log)
        while not healthy():
            if self.process.poll() is not None or time.perf_counter() - began > PATIENCE:
                sys.exit(f"the agent did not converge:\n{(WORK / 'log').read_text()[-2000:]}")
            time.sleep(0.02)
        return time.perf_counter() - began

    def stop(self) -> None:
        """Stop the agent; what it made stays."""
        assert self.process
        self.process.terminate()
        self.process.wait()

    def clean(self) -> None:
        """Remove what it made."""
        subprocess.run(self._command("cleanup"), check=True, stdout=subprocess.DEVNULL)

    def check(self) -> None:
        """End unless nothing is left to do."""
        done = subprocess.run(
            self._command("plan", "--manifests", str(self.manifests)), capture_output=True, text=True, check=True
        )
        if any(line[:2] in ("+ ", "- ", "~ ") for line in done.stdout.splitlines()):
            sys.exit(f"healthy, but not everything is in place:\n{done.stdout[:2000]}")

    def cpu(self) -> float:
        """Return the seconds of CPU that the agent and what it started have used."""
        assert self.process
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / _TICKS

    def memory(self) -> float:
        """Return the largest resident memory so far, in MiB."""
        assert self.process
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmHWM")

    def add_endpoint(self, pod: int) -> float:
        """Add an endpoint to one service; returns the seconds until the kernel has its real server."""
        port = self.changing["Service"]["spec"]["ports"][0]
        server = VirtualServerKey(port["protocol"].lower(), self.changing["Service"]["spec"]["clusterIP"], port["port"], 4)
        added = endpoint(pod)
        self.changing["EndpointSlice"]["endpoints"].append(added)
        with connect() as kernel:
            began = time.perf_counter()
            self.write_changing()
            while not any(key.address == added["addresses"][0] for key in dump.reals(kernel, [server])):
                if time.perf_counter() - began > PATIENCE:
                    sys.exit(f"the real server {added['addresses'][0]} never came")
                time.sleep(0.002)
            return time.perf_counter() - began


def healthy() -> bool:
    """Ask the agent's /healthz."""
    try:
        with socket.create_connection(HEALTH, timeout=5) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return connection.recv(64).split(b" ", 2)[1:2] == [b"200"]
    except OSError:
        return False


def main(services: int, endpoints: int, starts: int, events: int, steady: float) -> None:
    """Measure."""
    agent = Agent(services, endpoints)
    agent.write_changing()
    cold = []
    for left in reversed(range(starts)):
        cold.append(agent.start())
        if left:
            agent.stop()
            agent.clean()
    agent.check()
    time.sleep(2)
    event = []
    for number in range(events):
        event.append(agent.add_endpoint(services * endpoints + number))
        time.sleep(0.5)
    result: dict[str, object] = {"cold": cold, "event": event}
    if steady:
        before, began = agent.cpu(), time.perf_counter()
        time.sleep(steady)
        result["cpu_per_minute"] = (agent.cpu() - before) / (time.perf_counter() - began) * 60
    result["memory"] = agent.memory()
    agent.stop()
    agent.clean()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), float(sys.argv[5]))
