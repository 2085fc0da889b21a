# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each error of each system call of one apply, by the agent and by a module.

The state afterwards is the one before or the one after the apply, and the ledger is true.

A first run counts the calls of each process. Every error that the manual names for a call then strikes at every number
up to that count. A run of some of them, spread over all calls, is part of ``make kernel``; ``--every-fault`` runs all.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.agent.process import NODE, AgentProcess
from support.clusters import objects
from support.processes.faults import ERRORS, Fault, Finished, counted, later_in_child
from support.processes.guarded import node
from support.processes.kernel import use_tables
from support.processes.namespace import fresh, sh

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine import apply
from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.engine.errors import EngineError
from kubenode.engine.proxy.node import Node
from kubenode.log import Log

KERNEL_MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
SEED = 20261123
SUBJECT = re.compile(
    r"virtual server|real server|\bset\b|member|chain|rule|address|link|sysctl|ledger|lock|table|the tool"
    r"|ip_vs|IPVS|netlink"
)
Begin = Callable[[], None]


@pytest.fixture(autouse=True)
def _node() -> None:
    sh("modprobe", "-a", *KERNEL_MODULES)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    use_tables()
    subprocess._USE_VFORK = False  # if vfork(2) fails, Python retries with clone(2)


def chosen(counts: dict[str, int], request: pytest.FixtureRequest, some: int) -> list[Fault]:
    """Return all faults, or ``some`` of them, spread over calls and errors."""
    every = [
        Fault(entry, error, str(at))
        for entry, count in counts.items()
        for error in ERRORS[entry]
        for at in range(1, count + 1)
    ]
    # A fault's place is its own: runs differ by a call or two, and a shuffled list would choose others then.
    every.sort(key=lambda fault: random.Random(f"{SEED} {fault}").random())
    if request.config.getoption("--every-fault"):
        return every
    seen: dict[tuple[str, str], int] = {}
    rounds = []
    for fault in every:
        rounds.append(seen.get(fault[:2], 0))
        seen[fault[:2]] = rounds[-1] + 1
    return [fault for _round, _number, fault in sorted(zip(rounds, range(len(every)), every, strict=True))[:some]]


class Module:
    """The module ipvs_services, which must leave all of its change or nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def wanted(self, turn: int) -> dict[str, Any]:
        reals = [{"address": f"198.51.100.{host}", "port": 8080} for host in range(1, 3 + turn)]
        addresses = [f"192.0.2.{number}" for number in (1, 2 + turn)]
        found = [
            {"address": address, "port": 80, "protocol": "tcp", "scheduler": ("rr", "wrr")[turn], "real_servers": reals}
            for address in addresses
        ]
        return {"services": found, "purge": "owned"}

    def make(self, turn: int) -> None:
        run("ipvs_services", **self.wanted(turn))

    def state(self) -> dict[str, Any]:
        return node()

    def struck(self, turn: int, fault: Fault) -> Finished:
        def module(begin: Begin) -> int:
            carry_out = apply.execute

            def begins(*arguments: Any, **options: Any) -> Any:
                begin()
                return carry_out(*arguments, **options)

            apply.execute = begins
            try:
                self.make(turn)
            except ModuleError as error:
                print(error)
                return 1
            return 0

        return later_in_child(fault, self.directory, module)


class Agent:
    """One full pass of the agent, which does as much as it can and leaves the rest to the next."""

    def __init__(self, directory: Path) -> None:
        self.files = AgentProcess(directory)
        self.directory = directory

    def write(self, turn: int) -> None:
        found: list[objects.Object] = []
        for number in (1, 2 + turn):
            ends = [objects.endpoint(f"10.244.1.{host}", NODE) for host in range(1, 3 + turn)]
            ports = [objects.port(80, "p", "UDP" if number > 1 else "TCP", node_port=30000 + number)]
            found.append(objects.service(f"o{number}", [f"10.96.1.{number}"], ports, kind="NodePort"))
            found.append(objects.piece(f"o{number}", ends, [objects.port(8080, "p", "UDP" if number > 1 else "TCP")]))
        self.files.write("all.json", found)

    def make(self, turn: int) -> None:
        self.write(turn)
        status = self.apply(lambda: None)
        assert status == 0

    def apply(self, begin: Begin) -> int:
        config, run_ = str(self.files.config), str(self.files.run)
        wanted = DesiredState(
            Options(config, True, str(self.files.manifests), run_, str(self.directory / "state"), NODE, False),
            Log("error"),
        )
        wanted.configure()
        reconciler = Reconciler(Node(), run_)
        begin()
        try:
            changes, everything = wanted.take()
            reconciler.accept(changes, whole=everything)
            report = reconciler.full()
            while reconciler.draining:  # there is no connection: draining ends at the first count
                report = reconciler.drain() or report
        except EngineError as error:
            print(error)
            return 1
        finally:
            reconciler.close()
        for failure in report.failed:
            print(f"{failure.step.describe()}: {failure.message}")
        return 1 if report.failed else 0

    def state(self) -> dict[str, Any]:
        found = node()
        return {**found, "ledgers": ledger(self.files.run / "ledger.db")}

    def struck(self, turn: int, fault: Fault) -> Finished:
        self.write(turn)
        return later_in_child(fault, self.directory, self.apply)


def ledger(path: Path) -> list[tuple[str, ...]]:
    import sqlite3

    opened = sqlite3.connect(path)
    rows = sorted(opened.execute("SELECT kind, key, owner FROM claim"))
    opened.close()
    return rows


def lines(state: dict[str, Any]) -> set[str]:
    """Return a state's lines without ledgers and files, so that parts of two states can be compared."""
    return {f"{part} {line}" for part, values in state.items() if part not in ("ledgers", "files") for line in values}


def claimed(state: dict[str, Any]) -> bool:
    """Return whether each virtual server on the node has a claim."""
    keys = [json.loads(row[1]) for row in state["ledgers"] if row[0] == "virtual_server"]
    endpoints = {f"{key[1]}:{key[2]}" for key in keys}
    return all(line.split()[2] in endpoints for line in state["ipvs"] if line.startswith("-A"))


def test_module_is_all_or_nothing_at_each_call(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check(Module(tmp_path), request, 12)


def test_agent_converges_after_each_failed_call(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check(Agent(tmp_path), request, 8)


def check(subject: Module | Agent, request: pytest.FixtureRequest, some: int) -> None:
    states = {}
    for turn in (0, 1, 0):
        subject.make(turn)
        states[turn] = subject.state()
    done = subject.struck(1, Fault(",".join(ERRORS), "", ""))
    assert done.status == 0, done
    counts = counted(subject.directory / "record")
    faults = chosen(counts, request, some)
    turn, happened, failed, wrong = 1, 0, 0, []
    print("calls of one process:", dict(sorted(counts.items())), f"-> {len(faults)} faults", flush=True)
    for number, fault in enumerate(faults):
        done = subject.struck(1 - turn, fault)
        state = subject.state()
        happened += done.happened > 0
        failed += done.status != 0
        problems = trouble(subject, done, state, states[turn], states[1 - turn])
        if done.status == 0 or isinstance(subject, Agent):
            turn = 1 - turn
        if problems or isinstance(subject, Agent):
            subject.make(turn)
            if subject.state() != states[turn]:
                problems.append("a run without a fault does not put it right")
        if problems:
            wrong.append(f"{fault}: {'; '.join(problems)}\n  status {done.status}\n  {done.output}\n  {done.errors}")
            print(wrong[-1], flush=True)
        if number % 20 == 19:
            print(
                f"{number + 1} of {len(faults)} faults, {happened} happened, {failed} failed, {len(wrong)} wrong",
                flush=True,
            )
    print(f"{len(faults)} faults (seed {SEED}), {happened} happened, {failed} runs failed, {len(wrong)} wrong")
    assert wrong == [], "\n".join(wrong)


def trouble(
    subject: Module | Agent, done: Finished, state: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> list[str]:
    """Return the problems after a fault, in words."""
    found = []
    if "Traceback" in done.errors + done.output:
        found.append("a traceback")
    if done.status not in (0, 1):
        found.append("another exit status than 0 or 1")
    if done.status == 0 and state != after:
        found.append(f"it says that it succeeded, but {differing(state, after)}")
    if done.status == 1:
        if not SUBJECT.search(done.output):
            found.append("the message names no object")
        if isinstance(subject, Module) and state != before:
            found.append(f"it failed and did not undo: {differing(state, before)}")
        if isinstance(subject, Agent):
            odd = lines(state) - lines(before) - lines(after)
            if any(" -w 0" not in line for line in odd):
                found.append(f"neither the state before nor the one after has {sorted(odd)}")
            if not claimed(state):
                found.append("a virtual server that nobody claims")
    return found


def differing(one: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(f"{part} is {one[part]}, expected {other[part]}" for part in one if one[part] != other[part])
