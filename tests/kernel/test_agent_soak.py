# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Churn of Services, for hours (`make soak`) or for ROUNDS rounds: memory and file descriptors do not grow.

Each round of the short run ends when the agent has converged, so that a busy machine makes it longer and not harder.
The state is right at the end. The number of Services stays the same. Each new Service has a name, addresses and a node
port that no recent Service had. So whatever the agent remembers of removed Services shows as growth.
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
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.processes.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "nf_conntrack_netlink", "ip_set", "xt_set", "dummy", "br_netfilter")
SERVICES = 40
SEED = 20261121
# Services that change each second, as far as the machine can; each is two to four objects.
RATE = 300
DISTURBED = 2.0  # seconds between two disturbances
# a run of at least LONG seconds may grow by GROWTH, as a fraction of its value after SETTLED seconds
LONG = 1200
SETTLED = 600
GROWTH = 0.02
# Python takes memory in arenas, of 2.6 % of this process each, and the highest moment decides how many. So the hardest
# moments come first: for PILING seconds, the agent is stopped every BETWEEN_PILES seconds while PILE Services change.
# In the first third of the short run, it is stopped in each round while three times its CHANGES happen.
PILING, BETWEEN_PILES, PILE = 480, 60.0, 2000
PATIENCE = 300  # seconds that the agent may take to converge, however busy the machine is
ROUNDS, CHANGES = 9, 100  # of the short run: rounds, and Services that change in each
SHORT_GROWTH = 0.04  # in a shorter run, from its second third to its last


class ObjectSource:
    """The agent's source of objects: files of manifests, or an API server."""

    def __init__(self, agent: AgentProcess, api: FakeApiServer | None) -> None:
        self.agent = agent
        self.api = api
        self.changes = 0  # objects written or removed
        self.cuts = 0

    def put(self, serial: int, endpoints: list[int]) -> None:
        items = service(serial, endpoints)
        self.changes += len(items)
        if self.api is None:
            self.agent.write(f"s{serial}.json", items)
        else:
            for item in items:
                self.api.put(item)

    def remove(self, serial: int) -> None:
        self.changes += 2
        if self.api is None:
            (self.agent.manifests / f"s{serial}.json").unlink()
            return
        for item in service(serial, []):
            self.api.delete(item["kind"], item["metadata"]["namespace"], item["metadata"]["name"])

    def spoil(self, serial: int) -> None:
        """Write an unusable object, under a name that is used once.

        The caller restores the Service of this number afterwards.
        """
        if self.api is None:
            (self.agent.manifests / f"s{serial}.json").write_text("{")
        else:
            self.api.put(objects.service(f"bad{serial}", ["10.96.0.300"], namespace=f"n{serial}"))
            self.api.delete("Service", f"n{serial}", f"bad{serial}")
            self.cuts += 1
            if self.cuts % 5 == 0:  # about once a minute: if cut more often, the agent backs off, and there is no churn
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
def source(agent: AgentProcess, request: pytest.FixtureRequest) -> Iterator[ObjectSource]:
    proxy = {"ipvs": {"syncPeriod": "5s"}, "metricsBindAddress": "127.0.0.1:10249"}
    if request.param == "manifests":
        agent.configure(proxy)
        yield ObjectSource(agent, None)
        return
    api = FakeApiServer()
    api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"addresses": []}})
    agent.use_api(api.url, proxy)
    yield ObjectSource(agent, api)
    api.close()


def service(serial: int, hosts: list[int]) -> list[objects.Object]:
    """Return the Service of this number, with a name, address and node port of its own.

    No other Service has them for as long as the agent or the kernel may remember them.
    """
    name, namespace = f"s{serial}", f"n{serial}"
    protocol = "UDP" if serial % 4 == 0 else "TCP"
    ip = f"10.{96 + serial // 60000}.{serial // 240 % 250}.{serial % 240 + 1}"
    found = [
        objects.endpoint(f"10.{128 + serial // 240 // 250 % 100}.{serial // 240 % 250}.{host}", NODE) for host in hosts
    ]
    port = objects.port(80, "p", protocol, node_port=30000 + serial % 2700)
    more = {"externalTrafficPolicy": "Local"} if serial % 5 == 0 else {}
    return [
        objects.service(name, [ip], [port], namespace=namespace, kind="NodePort", **more),
        objects.piece(name, found, [objects.port(8080, "p", protocol)], namespace=namespace),
    ]


def resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Churn:
    """Changes Services at a steady rate, and disturbs the agent and the kernel now and then.

    ``living`` are the numbers of the Services that exist.
    """

    def __init__(self, source: ObjectSource, chance: random.Random) -> None:
        self.source = source
        self.chance = chance
        self.living = list(range(1, SERVICES + 1))
        self._disturbances = 0
        for serial in self.living:
            source.put(serial, [1, 2, 3])

    def change(self) -> None:
        """Replace a Service by one that never existed before, or change its endpoints."""
        slot, chance = self.chance.randrange(SERVICES), self.chance
        if chance.random() < 0.6:
            self.source.remove(self.living[slot])
            self.living[slot] = max(self.living) + 1
        self.source.put(self.living[slot], chance.sample(range(1, 20), chance.randint(0, 8)))

    def pile_up(self, changes: int) -> None:
        """Change Services while the agent's process is stopped, so that it has more to do at once than ever after."""
        agent = self.source.agent
        agent.kill(signal.SIGSTOP)
        try:
            for _change in range(changes):
                self.change()
        finally:
            agent.kill(signal.SIGCONT)

    def disturb(self) -> None:
        """Do one of the disturbances in an agent's life, each as often as the others."""
        source, number = self.source, self._disturbances
        self._disturbances += 1
        kind = number % 7
        if kind == 0:
            source.spoil(self.living[0])
            source.put(self.living[0], [1])
        elif kind == 1:
            source.agent.ask("status")
        elif kind == 2:
            with socket.create_connection(("127.0.0.1", 10249)) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                while client.recv(65536):
                    pass
        elif kind == 3:
            sh("ipvsadm", "-C")
        elif kind == 4:
            subprocess.run(["ip", "link", "del", "kube-ipvs0"], check=False, capture_output=True)
        elif kind == 5:
            source.agent.kill(signal.SIGHUP)
        else:
            sh("ip", "link", "add", f"x{number}", "type", "dummy")
            sh("ip", "addr", "add", f"192.0.2.{number % 250 + 1}/24", "dev", f"x{number}")
            sh("ip", "link", "del", f"x{number}")


class Samples:
    """Memory and descriptors of a process, by time: seconds after the beginning, or rounds."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory: list[tuple[float, int]] = []
        self._files: list[tuple[float, int]] = []

    def take(self, at: float) -> None:
        """Take a sample, unless the last one is less than one second, or round, old."""
        if not self._memory or at - self._memory[-1][0] >= 1:
            self._memory.append((at, resident(self._pid)))
            self._files.append((at, descriptors(self._pid)))

    def memory(self, start: float, end: float) -> float:
        """Return the median of the resident bytes between two times."""
        return statistics.median(value for at, value in self._memory if start <= at < end)

    def files(self, start: float, end: float) -> int:
        """Return the highest number of descriptors between two times."""
        return max(value for at, value in self._files if start <= at < end)


def churn_for(seconds: int, churn: Churn, samples: Samples) -> None:
    """Change Services at a steady rate, and disturb agent and kernel; print the figures once a minute."""
    begun = due = disturbed = shown = piled = time.monotonic()
    while (now := time.monotonic()) - begun < seconds:
        churn.change()
        if now - disturbed > DISTURBED:
            disturbed = now
            churn.disturb()
        if seconds >= LONG and now - begun < PILING and now - piled > BETWEEN_PILES:
            piled = now
            churn.pile_up(PILE)
        log = churn.source.agent.log
        assert churn.source.agent.process.poll() is None, log.read_text()[-4000:]
        if log.stat().st_size > 10_000_000:
            log.write_text("")
        at = now - begun
        samples.take(at)
        if now - shown > 60:
            shown, changes = now, churn.source.changes
            figures = f"{changes} objects changed, {changes / at:.1f} a second, {max(churn.living)} Services so far"
            print(f"minute {at / 60:.0f}: {samples.memory(at - 60, at) / 2**20:.2f} MiB, {figures}", flush=True)
        due = max(due + 1 / RATE, now - 1)  # after a pause, catch up with at most one second of changes
        time.sleep(max(0.0, due - time.monotonic()))
    settle(churn)


def churn_in_rounds(churn: Churn, samples: Samples) -> None:
    """Change Services, disturb agent and kernel, and wait for the agent; ROUNDS times."""
    for number in range(ROUNDS):
        if number < ROUNDS / 3:
            churn.pile_up(3 * CHANGES)
        for _change in range(CHANGES):
            churn.change()
        churn.disturb()
        settle(churn)
        samples.take(number)


def settle(churn: Churn) -> None:
    """Give all Services the same three endpoints, and wait until the kernel has them."""
    for serial in churn.living:
        churn.source.put(serial, [1, 2, 3])
    wanted = {server for serial in churn.living for server in ipvs(serial)}
    eventually(
        lambda: wanted == {line.split(" -m")[0] for line in sh("ipvsadm", "-Sn").splitlines() if line.startswith("-a")},
        PATIENCE,
        pause=0.2,
    )
    agent = churn.source.agent
    agent.converged(PATIENCE)
    eventually(lambda: agent.ask("status")["problems"] == [], PATIENCE)  # the source resumes a cut watch later


def test_memory_and_descriptors_stay_flat(source: ObjectSource, request: pytest.FixtureRequest) -> None:
    agent, seconds = source.agent, request.config.getoption("--soak")
    churn = Churn(source, random.Random(SEED))
    words = () if source.api is None else ("--manifests", "", "--state-dir", str(agent.directory / "state"))
    agent.start(*words, wait=False)
    agent.converged(PATIENCE)
    assert agent.process is not None
    samples = Samples(agent.process.pid)
    if seconds:
        churn_for(seconds, churn, samples)
    else:
        churn_in_rounds(churn, samples)
    whole = seconds or ROUNDS
    settled, last, most = (whole / 3, 2 * whole / 3), (2 * whole / 3, whole), SHORT_GROWTH
    if whole >= LONG:
        settled, last, most = (SETTLED - 60, SETTLED + 60), (seconds - 120, seconds), GROWTH
    first, end = samples.memory(*settled), samples.memory(*last)
    grown = end / first - 1
    figures = f"{first / 2**20:.2f} -> {end / 2**20:.2f} MiB, {100 * grown:+.2f} %"
    rate = f"{source.changes} objects changed (seed {SEED})"
    print(f"{rate}, {max(churn.living)} Services: {figures} from {settled} to {last} ({'s' if seconds else 'rounds'})")
    assert grown < most, f"memory grew by {100 * grown:.1f} % ({figures}); {rate}"
    assert samples.files(*last) <= samples.files(0, settled[1]) + 2, "file descriptors grow"


def ipvs(serial: int) -> list[str]:
    """Return ipvsadm's lines for the real servers of a Service's address when it has endpoints 1, 2 and 3."""
    first, second = service(serial, [1, 2, 3])
    option = "-u" if first["spec"]["ports"][0]["protocol"] == "UDP" else "-t"
    virtual = f"{first['spec']['clusterIP']}:80"
    return [f"-a {option} {virtual} -r {item['addresses'][0]}:8080" for item in second["endpoints"]]
