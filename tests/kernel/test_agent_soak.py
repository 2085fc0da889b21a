# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Churn for as long as one likes (`make soak`): memory and file descriptors do not grow, and the state is right at the end.

As many Services as ever, but never the same: each that comes has a name, addresses and a node port that were not there before, so
that whatever is remembered of those that went is seen to grow.
"""

from __future__ import annotations

import random
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import objects
from support.agent_process import NODE, AgentProcess, eventually
from support.fake_apiserver import FakeApiServer
from support.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "nf_conntrack_netlink", "ip_set", "xt_set", "dummy", "br_netfilter")
SERVICES = 40
SEED = 20261121
GROWTH = 0.04  # of the memory that is resident in the middle third of the time


class Place:
    """Where the agent finds its objects: files of manifests, or an API server."""

    def __init__(self, agent: AgentProcess, api: FakeApiServer | None) -> None:
        self.agent = agent
        self.api = api

    def put(self, serial: int, endpoints: list[int]) -> None:
        items = service(serial, endpoints)
        if self.api is None:
            self.agent.write(f"s{serial}.json", items)
        else:
            for item in items:
                self.api.put(item)

    def remove(self, serial: int) -> None:
        if self.api is None:
            (self.agent.manifests / f"s{serial}.json").unlink()
            return
        for item in service(serial, []):
            self.api.delete(item["kind"], item["metadata"]["namespace"], item["metadata"]["name"])

    def spoil(self, serial: int) -> None:
        """Something that cannot be used, under a name that comes once; the Service of this number is put there again afterwards."""
        if self.api is None:
            (self.agent.manifests / f"s{serial}.json").write_text("{")
        else:
            self.api.put(objects.service(f"bad{serial}", ["10.96.0.300"], namespace=f"n{serial}"))
            self.api.delete("Service", f"n{serial}", f"bad{serial}")
            self.api.cut()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    found = AgentProcess(tmp_path)
    yield found
    found.close()


@pytest.fixture(params=["manifests", "API"])
def place(agent: AgentProcess, request: pytest.FixtureRequest) -> Iterator[Place]:
    proxy = {"ipvs": {"syncPeriod": "5s"}, "metricsBindAddress": "127.0.0.1:10249"}
    if request.param == "manifests":
        agent.configure(proxy)
        yield Place(agent, None)
        return
    api = FakeApiServer()
    api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"addresses": []}})
    agent.use_api(api.url, proxy)
    yield Place(agent, api)
    api.close()


def service(serial: int, hosts: list[int]) -> list[objects.Object]:
    """The Service of this number, alone with its name, address and node port for as long as anybody may remember them."""
    name, namespace = f"s{serial}", f"n{serial}"
    protocol = "UDP" if serial % 4 == 0 else "TCP"
    ip = f"10.{96 + serial // 60000}.{serial // 240 % 250}.{serial % 240 + 1}"
    found = [objects.endpoint(f"10.{128 + serial // 240 // 250 % 100}.{serial // 240 % 250}.{host}", NODE) for host in hosts]
    port = objects.port(80, "p", protocol, node_port=30000 + serial % 2700)
    more = {"externalTrafficPolicy": "Local"} if serial % 5 == 0 else {}
    return [
        objects.service(name, [ip], [port], namespace=namespace, kind="NodePort", **more),
        objects.piece(name, found, [objects.port(8080, "p", protocol)], namespace=namespace),
    ]


def resident(pid: int) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def churn(place: Place, chance: random.Random, turn: int, living: list[int]) -> None:
    """Do something of all that happens to an agent in its life; ``living`` are the numbers of the Services that there are."""
    slot = chance.randrange(SERVICES)
    kind = chance.random()
    if kind < 0.5:  # one goes, and one that was never there comes
        place.remove(living[slot])
        living[slot] = max(living) + 1
        place.put(living[slot], chance.sample(range(1, 20), chance.randint(0, 8)))
    elif kind < 0.8:
        place.put(living[slot], chance.sample(range(1, 20), chance.randint(0, 8)))
    elif kind < 0.84:
        place.spoil(living[slot])
    elif kind < 0.88:
        place.agent.ask("status")
    elif kind < 0.92:
        with socket.create_connection(("127.0.0.1", 10249)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while client.recv(65536):
                pass
    elif kind < 0.95:
        sh("ipvsadm", "-C")
    elif kind < 0.97:
        subprocess.run(["ip", "link", "del", "kube-ipvs0"], check=False, capture_output=True)
    elif kind < 0.985:
        place.agent.kill(signal.SIGHUP)
    else:
        sh("ip", "link", "add", f"x{turn}", "type", "dummy")
        sh("ip", "addr", "add", f"192.0.2.{turn % 250 + 1}/24", "dev", f"x{turn}")
        sh("ip", "link", "del", f"x{turn}")


def test_flat(place: Place, request: pytest.FixtureRequest) -> None:
    agent, seconds = place.agent, request.config.getoption("--soak") / 2  # for each place
    chance = random.Random(SEED)
    living = list(range(1, SERVICES + 1))
    for serial in living:
        place.put(serial, [1, 2, 3])
    agent.start(*(() if place.api is None else ("--manifests", "", "--state-dir", str(agent.directory / "state"))))
    assert agent.process is not None
    pid = agent.process.pid
    begun = shown = time.monotonic()
    memory: list[tuple[float, int]] = []
    files: list[tuple[float, int]] = []
    turn = 0
    while (now := time.monotonic() - begun) < seconds:
        turn += 1
        churn(place, chance, turn, living)
        time.sleep(0.05)
        assert agent.process.poll() is None, agent.log.read_text()[-4000:]
        memory.append((now, resident(pid)))
        files.append((now, descriptors(pid)))
        if agent.log.stat().st_size > 10_000_000:
            agent.log.write_text("")
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            last = statistics.median(value for at, value in memory if at > now - 60)
            print(f"minute {now / 60:.0f}: {last / 2**20:.2f} MiB, {turn} turns, {max(living)} Services so far", flush=True)
    for serial in living:
        place.put(serial, [1, 2, 3])
    wanted = {server for serial in living for server in ipvs(serial)}
    eventually(
        lambda: wanted == {line.split(" -m")[0] for line in sh("ipvsadm", "-Sn").splitlines() if line.startswith("-a")}, 60
    )
    agent.converged(60)
    eventually(lambda: agent.ask("status")["problems"] == [], 60)  # a watch that was cut comes back after a while

    middle = [value for at, value in memory if seconds / 3 <= at < 2 * seconds / 3]
    end = [value for at, value in memory if at >= 2 * seconds / 3]
    grown = statistics.median(end) / statistics.median(middle) - 1
    most = max(value for at, value in files if at < 2 * seconds / 3)
    quarters = [
        statistics.median(value for at, value in memory if number <= 4 * at / seconds < number + 1) for number in range(4)
    ]
    print("MiB in each quarter:", *(f"{value / 2**20:.2f}" for value in quarters))
    print(f"{turn} turns in {seconds:.0f} s (seed {SEED}): {statistics.median(end) / 2**20:.1f} MiB, {100 * grown:+.2f} %")
    assert grown < GROWTH, f"memory grew by {100 * grown:.1f} % in the last third of {seconds:.0f} s, {turn} turns"
    assert max(value for at, value in files if at >= 2 * seconds / 3) <= most + 2, "file descriptors grow"


def ipvs(serial: int) -> list[str]:
    """What ipvsadm says of the real servers of a Service's address when it has endpoints 1, 2 and 3."""
    first, second = service(serial, [1, 2, 3])
    option = "-u" if first["spec"]["ports"][0]["protocol"] == "UDP" else "-t"
    virtual = f"{first['spec']['clusterIP']}:80"
    return [f"-a {option} {virtual} -r {item['addresses'][0]}:8080" for item in second["endpoints"]]
