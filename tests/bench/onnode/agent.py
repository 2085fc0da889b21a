# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent with a cluster of a given size: cold starts, endpoint changes, steady state. Runs on the node.

Arguments: services, endpoints of each, cold starts, endpoint changes, seconds of steady state. Standard output: JSON
with lists of seconds ``cold``, ``event``, and ``cpu_per_minute`` (seconds) and ``memory`` (MiB, the largest so far).

One manifest has all Services but one, as kubectl prints them. The Service whose endpoints change is in its own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from engine.kernel.ipvs import connect
from engine.kernel.ipvs.attributes import Command
from engine.kernel.ipvs.codec import pack_server
from engine.model.ipvs import VirtualServerKey
from engine.model.net import pack
from objects import as_list, cluster, endpoint
from removed_servers import forget

WORK = Path("/root/bench/work")
KUBENODE = ["/usr/bin/python3", "-IS", "/root/bench/agent/bin/kubenode"]  # as the unit starts it
PATIENCE = 600.0  # seconds
_QUIET, _BUSY = 3, 0.1  # seconds in a row, and seconds of CPU in one of them
_TICKS = os.sysconf("SC_CLK_TCK")


def write(path: Path, value: object) -> None:
    """Write JSON, in one piece."""
    stage(path, value).rename(path)


def stage(path: Path, value: object) -> Path:
    """Write JSON to a file beside WORK's directories, where nothing wakes the agent; return its path."""
    staged = WORK / f"{path.name}.new"
    staged.write_text(json.dumps(value))
    return staged


class Agent:
    """Agent that can be started repeatedly, with its files in WORK.

    Its rules are in the back end that the node's state leads to, or in ``backend``.
    """

    def __init__(self, services: int, endpoints: int, backend: str = "auto") -> None:
        self.config = WORK / "config.yaml"
        self.configure(backend)
        self.manifests = WORK / "manifests"
        self._manifest = self.manifests / "changing.json"
        self.manifests.mkdir(parents=True, exist_ok=True)
        for path in self.manifests.iterdir():
            path.unlink()
        objects = cluster(services, endpoints)
        changing = {"service-0", "service-0-00000"}
        write(
            self.manifests / "cluster.json",
            as_list([one for one in objects if one["metadata"]["name"] not in changing]),
        )
        self.changing = {one["kind"]: one for one in objects if one["metadata"]["name"] in changing}
        self.process: subprocess.Popen[bytes] | None = None
        self.quickest: float | None = None  # seconds until the kernel had a new endpoint

    def configure(self, backend: str) -> None:
        """Write a configuration with a back end of rules."""
        write(
            self.config,
            {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration", "rules": {"backend": backend}},
        )

    def write_changing(self) -> None:
        """Write the manifest of the service that changes."""
        self._stage_changing().rename(self._manifest)

    def _stage_changing(self) -> Path:
        return stage(self._manifest, as_list(list(self.changing.values())))

    def switch(self, backend: str) -> None:
        """Let the running agent switch the back end; return when the other one's items are gone."""
        self.configure(backend)
        assert self.process
        self.process.send_signal(signal.SIGHUP)
        other = ["nft", "list", "tables"] if backend == "iptables" else ["sh", "-c", "iptables-save; ipset list -n"]
        word = "kubenode" if backend == "iptables" else "KUBE-"
        deadline = time.monotonic() + PATIENCE
        while word in subprocess.run(other, stdout=subprocess.PIPE, check=True, text=True).stdout:
            if time.monotonic() > deadline:
                sys.exit(f"the agent did not switch to {backend}")
            time.sleep(0.5)
        self.rest()

    def start(self) -> float:
        """Start the agent; return the seconds until it notifies READY=1, when the node is converged."""
        address = WORK / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(WORK / "log", "wb") as log:
            manager.bind(str(address))
            manager.settimeout(PATIENCE)
            began = time.perf_counter()
            self.process = subprocess.Popen(
                [*KUBENODE, "run", "--config", str(self.config), "--manifests", str(self.manifests)],
                env={"NOTIFY_SOCKET": str(address), "MALLOC_ARENA_MAX": "1"},
                stdout=log,
                stderr=log,
            )
            while b"READY=1" not in manager.recv(4096):
                pass
            return time.perf_counter() - began

    def stop(self) -> None:
        """Stop the agent; its items stay in the kernel."""
        assert self.process
        self.process.terminate()
        self.process.wait()

    def clean(self) -> None:
        """Remove the agent's items, its history, and IPVS's memory of them.

        With a history, each second start would seal a log, which takes 12 MiB of memory.
        """
        subprocess.run([*KUBENODE, "cleanup"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree("/var/lib/kubenode", ignore_errors=True)
        forget()

    def check(self) -> None:
        """Exit with an error unless the node is converged."""
        done = subprocess.run(
            [*KUBENODE, "plan", "--config", str(self.config), "--objects", str(self.manifests)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            log = (WORK / "log").read_text()
            sys.exit(f"ready, but not everything is in place:\n{done.stdout[:2000]}\nthe agent's log:\n{log[-2000:]}")

    def cpu(self) -> float:
        """Return the CPU seconds of the agent and its children."""
        assert self.process
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / _TICKS

    def rest(self) -> None:
        """Wait until the agent has nothing left to do: after a start or a switch, its history gets the whole state."""
        quiet, deadline = 0, time.monotonic() + PATIENCE
        while quiet < _QUIET:
            if time.monotonic() > deadline:
                sys.exit("the agent never rests")
            before = self.cpu()
            time.sleep(1)
            quiet = quiet + 1 if self.cpu() - before < _BUSY else 0

    def memory(self) -> float:
        """Return the largest resident memory so far, in MiB."""
        assert self.process
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmHWM")

    def add_endpoint(self, pod: int) -> float:
        """Add an endpoint to one service; return the seconds until the kernel has its real server.

        The kernel is asked at random moments. At regular ones, an instant that is a little later can be seen a whole
        pause later. Asking takes the agent's only processor. So it begins after half of the quickest time so far, the
        pauses are short, and the answer is not decoded.
        """
        port = self.changing["Service"]["spec"]["ports"][0]
        server = VirtualServerKey(
            port["protocol"].lower(), self.changing["Service"]["spec"]["clusterIP"], port["port"], 4
        )
        added = endpoint(pod)
        self.changing["EndpointSlice"]["endpoints"].append(added)
        address = pack(added["addresses"][0]).ljust(16, b"\0")  # as the kernel writes it
        with connect() as kernel:
            real_servers = kernel.message(Command.GET_DEST, 0, pack_server(server))
            staged = self._stage_changing()
            began = time.perf_counter()
            staged.rename(self._manifest)
            time.sleep((self.quickest or 0) / 2)
            while not any(address in payload for payload in kernel.dump(real_servers)):
                if time.perf_counter() - began > PATIENCE:
                    sys.exit(f"the real server {added['addresses'][0]} never came")
                time.sleep(random.uniform(0, (self.quickest or 0.01) / 5))
            seconds = time.perf_counter() - began
            self.quickest = min(self.quickest or seconds, seconds)
            return seconds


def main(services: int, endpoints: int, starts: int, events: int, steady: float) -> None:
    """Measure."""
    agent = Agent(services, endpoints)
    agent.write_changing()
    cold = []
    for left in reversed(range(starts)):
        cold.append(agent.start())
        agent.check()
        if left:
            agent.stop()
            agent.clean()
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
