# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at random moments of an apply and of a takeover, under traffic.

The next start leaves no divergent state, and no connection is reset.

A moment is a system call that can change the kernel or a file: between two of them, all moments are equal. So a slow
machine sees the same moments as a fast one. The pass runs as in the agent, but in a fork of the test: a kill costs a
second instead of ten. ``--kills`` sets their number. Each divergence prints its round; ``--kill-seed`` with that number
(``seed/number``) starts there.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kernel.test_takeover import _modules, agent, network, servers  # noqa: F401 - fixtures
from support.agent.process import NODE, AgentProcess, dump
from support.clusters import objects
from support.kube_proxy import recorded
from support.kube_proxy.node import NODE_IP, load_recording, serve
from support.processes.faults import Fault, Finished, later_in_child
from support.processes.namespace import sh
from support.traffic.conversation import Servers, Target
from support.traffic.steady import Steady

from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.daemon.sync.sync_policy import SyncPolicy
from kubenode.engine.proxy.node import Node
from kubenode.log import Log

STEADY, ENDPOINTS = "10.96.0.10", ("10.244.1.11:8080", "10.244.2.11:8080")
PARTS = ("ipvs", "ipset", "iptables", "ip6tables")
CALLS = "sendto,sendmsg,write,pwrite64,ftruncate,unlink,rename,mkdir,flock,clone,clone3,vfork"  # that change anything
LEFT_OVER = "10.96.9.9"  # the address of a Service that was removed while kube-proxy was away


def services(count: int) -> list[objects.Object]:
    """Return the Service that does not change, and this many others."""
    found = []
    for number in range(count):
        ends = [objects.endpoint(f"10.244.3.{host}", NODE) for host in range(1, 4)]
        ports = [objects.port(80, "p", "UDP" if number % 5 == 0 else "TCP", node_port=30100 + number)]
        found.append(objects.service(f"s{number}", [f"10.96.1.{number + 1}"], ports, kind="NodePort"))
        found.append(objects.piece(f"s{number}", ends, [objects.port(8080, "p", "UDP" if number % 5 == 0 else "TCP")]))
    ends = [objects.endpoint(endpoint.rpartition(":")[0], NODE) for endpoint in ENDPOINTS]
    found.append(objects.service("steady", [STEADY], [objects.port(80, "p")]))
    found.append(objects.piece("steady", ends, [objects.port(8080, "p")]))
    return found


def converge(files: AgentProcess, adopt: bool, begin: Callable[[], None]) -> int:
    """Do the agent's first pass; return an exit status."""
    options = Options(
        str(files.config), True, str(files.manifests), str(files.run), str(files.directory / "state"), NODE, adopt
    )
    wanted = DesiredState(options, Log("error"))
    wanted.configure()
    begin()
    reconciler = Reconciler(Node(), str(files.run), policy=SyncPolicy(adopt=adopt))
    changes, everything = wanted.take()
    reconciler.accept(changes, whole=everything)
    reports = [reconciler.full()]
    while reconciler.draining:
        report = reconciler.drain()
        reports += [report] if report is not None else []
        time.sleep(0.01)
    for failure in [failure for report in reports for failure in report.failed]:
        print(f"{failure.step.describe()}: {failure.message}", flush=True)
    return 1 if any(report.failed for report in reports) else 0


def run(files: AgentProcess, adopt: bool, error: str = "", when: str = "") -> Finished:
    """Do the pass in a child process; KILL ends it at one of CALLS, and "" only records them."""
    fault = Fault(CALLS, error, when)
    return later_in_child(fault, files.directory, lambda begin: converge(files, adopt, begin), children=False)


def calls(files: AgentProcess, adopt: bool) -> int:
    """Do the pass; return the number of its calls."""
    done = run(files, adopt)
    assert done.status == 0, done
    return len(re.findall(r"^\w+\(", (files.directory / "record").read_text(errors="replace"), re.MULTILINE))


class Kills:
    """Counts the results of all kills."""

    def __init__(self, request: pytest.FixtureRequest, subject: str) -> None:
        self.count = int(request.config.getoption("--kills"))
        seed, _slash, first = str(request.config.getoption("--kill-seed")).partition("/")
        self.seed, self.first, self.subject = seed, int(first or 0), subject
        self.partly = self.killed = 0
        self.wrong: list[str] = []

    def rounds(self) -> range:
        return range(self.first, self.count)

    def chance(self, number: int) -> random.Random:
        return random.Random(f"{self.seed} {self.subject} {number}")

    def strike(self, number: int, files: AgentProcess, adopt: bool, most: int) -> None:
        """Kill a pass at the moment that the round's number determines."""
        done = run(files, adopt, "KILL", str(self.chance(number).randint(1, most)))
        self.killed += done.status == -signal.SIGKILL

    def restart(self, number: int, files: AgentProcess, adopt: bool, wanted: dict[str, str]) -> None:
        """Do the next start's pass, which must leave the wanted state."""
        done = run(files, adopt)
        if done.status:
            self.divergent(number, f"the next start fails: {done}")
        difference = differences(dump(), wanted)
        if difference:
            self.divergent(number, difference)

    def divergent(self, number: int, what: str) -> None:
        self.wrong.append(f"{self.subject} {self.seed}/{number}: {what}")
        print(self.wrong[-1], flush=True)

    def conclude(self) -> None:
        rounds = len(self.rounds())
        figures = f"{self.killed} killed before their end, {self.partly} of them in the middle of writing"
        print(
            f"{self.subject}: {rounds} moments (seed {self.seed}), {figures}, {len(self.wrong)} divergent", flush=True
        )
        assert self.wrong == []


def differences(one: dict[str, str], other: dict[str, str]) -> str:
    found = {part: sorted(set(one[part].splitlines()) ^ set(other[part].splitlines())) for part in PARTS}
    return ", ".join(f"{part}: {lines}" for part, lines in found.items() if lines)


def test_apply_killed_anywhere_converges_without_a_reset(
    agent: AgentProcess,  # noqa: F811
    servers: Servers,  # noqa: F811
    request: pytest.FixtureRequest,
) -> None:
    kills = Kills(request, "apply")
    serve(servers, list(ENDPOINTS))
    wanted, most = {}, {}
    for turn in (0, 1, 0):
        agent.write("all.json", services(4 + 16 * turn))
        most[turn] = calls(agent, False)
        wanted[turn] = dump()
    traffic = [Steady(name, Target(STEADY, 80)) for name in ("client1", NODE)]
    try:
        turn = 0
        for number in kills.rounds():
            turn = 1 - turn
            agent.write("all.json", services(4 + 16 * turn))
            kills.strike(number, agent, False, most[turn])
            for client in traffic:
                client.more(2)
            kills.partly += all(differences(dump(), state) for state in wanted.values())
            kills.restart(number, agent, False, wanted[turn])
            for client in traffic:
                client.more(2)
            if number % 100 in (0, 99):
                print(f"apply: {number + 1} moments, {kills.partly} partly, {len(kills.wrong)} divergent", flush=True)
        assert [(client.failures, client.retransmitted) for client in traffic] == [([], 0)] * 2
    finally:
        for client in traffic:
            client.close()
    kills.conclude()


def leave_over(chance: random.Random) -> None:
    """Put the node where kube-proxy might have left it, with items of removed Services and missing items."""
    text = f"-A -t {LEFT_OVER}:80 -s rr\n-a -t {LEFT_OVER}:80 -r 10.244.1.3:80 -m -w 1\n-A -t {NODE_IP}:32001 -s rr\n"
    sh("ipvsadm", "-R", text=text)
    sh("ip", "addr", "replace", f"{LEFT_OVER}/32", "dev", "kube-ipvs0")
    sh("ipset", "add", "-exist", "KUBE-CLUSTER-IP", f"{LEFT_OVER},tcp:80")
    sh("ipset", "add", "-exist", "KUBE-NODE-PORT-TCP", "32001")
    sh("iptables", "-t", "nat", "-N", "KUBE-NODEPORTS")
    for line in [line for line in sh("ipvsadm", "-Sn").splitlines() if line.startswith("-A") and TARGET not in line]:
        if chance.random() < 0.3 and LEFT_OVER not in line:
            sh("ipvsadm", "-D", *line.split()[1:3])


TARGET = "10.96.217.1:1167"


def test_takeover_killed_anywhere_converges_without_a_reset(
    agent: AgentProcess,  # noqa: F811
    servers: Servers,  # noqa: F811
    request: pytest.FixtureRequest,
) -> None:
    kills = Kills(request, "takeover")
    recording = load_recording(recorded.GOLDEN / "clustercidr-0.json", agent)
    lines = [line for line in recording["state"]["ipvs"].splitlines() if line.startswith(f"-a -t {TARGET} ")]
    serve(servers, [line.split()[4] for line in lines])
    leave_over(kills.chance(-1))
    most = calls(agent, True)
    whole = dump()
    address, _colon, port = TARGET.rpartition(":")
    traffic = [Steady(name, Target(address, int(port))) for name in ("client1", NODE)]
    try:
        for number in kills.rounds():
            Path(agent.run / "ledger.db").unlink()
            leave_over(kills.chance(-2 - number))
            left = dump()
            kills.strike(number, agent, True, most)
            for client in traffic:
                client.more(2)
            kills.partly += all(differences(dump(), state) for state in (left, whole))
            kills.restart(number, agent, True, whole)
            for client in traffic:
                client.more(2)
            if number % 100 in (0, 99):
                print(
                    f"takeover: {number + 1} moments, {kills.partly} partly, {len(kills.wrong)} divergent", flush=True
                )
        assert [(client.failures, client.retransmitted) for client in traffic] == [([], 0)] * 2
    finally:
        for client in traffic:
            client.close()
    kills.conclude()
