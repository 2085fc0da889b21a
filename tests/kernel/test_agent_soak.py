# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Churn for as long as one likes (`make soak`): memory and file descriptors do not grow, and the state is right at the end."""

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
from support.agent_process import NODE, AgentProcess, dump, eventually
from support.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
SERVICES = 40
SEED = 20261121
GROWTH = 0.04  # of the memory that is resident in the middle third of the time


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    found = AgentProcess(tmp_path)
    found.configure({"ipvs": {"syncPeriod": "5s"}, "metricsBindAddress": "127.0.0.1:10249"})
    yield found
    found.close()


def service(number: int, endpoints: list[int]) -> list[objects.Object]:
    found = [objects.endpoint(f"10.244.{number}.{host}", NODE) for host in endpoints]
    return [
        objects.service(f"s{number}", [f"10.96.1.{number}"], [objects.port(80, "p", node_port=30000 + number)], kind="NodePort"),
        objects.piece(f"s{number}", found, [objects.port(8080, "p")]),
    ]


def resident(pid: int) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def churn(agent: AgentProcess, chance: random.Random, turn: int) -> None:
    """Do something of all that happens to an agent in its life."""
    number = chance.randint(1, SERVICES)
    name = f"s{number}.json"
    kind = chance.random()
    if kind < 0.7:
        agent.write(name, service(number, chance.sample(range(1, 20), chance.randint(0, 8))))
    elif kind < 0.8:
        (agent.manifests / name).unlink(missing_ok=True)
    elif kind < 0.84:
        (agent.manifests / name).write_text("{")
    elif kind < 0.88:
        agent.ask("status")
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
        agent.kill(signal.SIGHUP)
    else:
        sh("ip", "link", "add", f"x{turn}", "type", "dummy")
        sh("ip", "addr", "add", f"192.0.2.{turn % 250 + 1}/24", "dev", f"x{turn}")
        sh("ip", "link", "del", f"x{turn}")


def test_flat(agent: AgentProcess, request: pytest.FixtureRequest) -> None:
    seconds = request.config.getoption("--soak")
    chance = random.Random(SEED)
    for number in range(1, SERVICES + 1):
        agent.write(f"s{number}.json", service(number, [1, 2, 3]))
    agent.start()
    assert agent.process is not None
    pid = agent.process.pid
    begun = time.monotonic()
    memory: list[tuple[float, int]] = []
    files: list[tuple[float, int]] = []
    turn = 0
    while (now := time.monotonic() - begun) < seconds:
        turn += 1
        churn(agent, chance, turn)
        time.sleep(0.05)
        assert agent.process.poll() is None, agent.log.read_text()[-4000:]
        memory.append((now, resident(pid)))
        files.append((now, descriptors(pid)))
        if agent.log.stat().st_size > 10_000_000:
            agent.log.write_text("")
    for number in range(1, SERVICES + 1):
        agent.write(f"s{number}.json", service(number, [1, 2, 3]))
    eventually(lambda: agent.plan() == [], 60)
    assert dump()["ipvs"].count("-a -t 10.96.1.") == SERVICES * 3

    middle = [value for at, value in memory if seconds / 3 <= at < 2 * seconds / 3]
    end = [value for at, value in memory if at >= 2 * seconds / 3]
    grown = statistics.median(end) / statistics.median(middle) - 1
    most = max(value for at, value in files if at < 2 * seconds / 3)
    quarters = [
        statistics.median(value for at, value in memory if number <= 4 * at / seconds < number + 1) for number in range(4)
    ]
    print("MiB in each quarter:", *(f"{value / 2**20:.2f}" for value in quarters))
    print(f"{turn} turns in {seconds} s (seed {SEED}): {statistics.median(end) / 2**20:.1f} MiB, {100 * grown:+.2f} %")
    assert grown < GROWTH, f"memory grew by {100 * grown:.1f} % in the last third of {seconds} s, {turn} turns"
    assert max(value for at, value in files if at >= 2 * seconds / 3) <= most + 2, "file descriptors grow"
