# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""System calls that fail in the agent, in its command line and in their tools.

A call fails once, or every time from then on, at calls that a seed chooses. The state is never wrong, every failure is
reported, and the node converges afterwards.

strace(1) injects the faults in place of the real kernel.
"""

from __future__ import annotations

import contextlib
import io
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.processes.faults import Attached, in_child, places
from support.processes.namespace import fresh, sh

from kubenode.cli import main

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "nf_conntrack_netlink", "ip_set", "xt_set", "dummy", "br_netfilter")
SEED = 20261122
STEADY = "10.96.0.10"
TURN = [0]
# Per fault: it strikes one of this many first calls of a process.
TABLE = (
    ("sendto", "ENOMEM", 12),
    ("sendto", "ENOBUFS", 12),
    ("recvfrom", "ENOBUFS", 12),
    ("recvfrom", "ENOMEM", 12),
    ("recvmsg", "ENOBUFS", 8),
    ("sendmsg", "ENOMEM", 8),
    ("socket", "EMFILE", 6),
    ("socket", "ENOBUFS", 6),
    ("bind", "ENOMEM", 6),
    ("setsockopt", "ENOMEM", 10),
    ("getsockopt", "ENOMEM", 10),
    ("clone,clone3,vfork", "EAGAIN", 6),
    ("clone,clone3,vfork", "ENOMEM", 6),
    ("pipe2", "EMFILE", 6),
    ("memfd_create", "EMFILE", 2),
    ("flock", "ENOLCK", 4),
    ("pwrite64", "ENOSPC", 8),
    ("pwrite64", "EIO", 8),
    ("ftruncate", "EIO", 2),
    ("unlink", "EROFS", 4),
    ("openat", "EMFILE", 40),
    ("openat", "EIO", 40),
    ("openat", "ENOSPC", 40),
    ("read", "EIO", 40),
    ("write", "ENOSPC", 20),
)

# Calls at which the command line or a tool is killed; test_agent_crash.py kills a running agent.
KILLED = (
    ("sendto", "KILL", 12),
    ("recvfrom", "KILL", 12),
    ("recvmsg", "KILL", 6),
    ("setsockopt", "KILL", 12),
    ("clone,clone3,vfork", "KILL", 6),
    ("pwrite64", "KILL", 8),
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """Make an agent with directories and a network namespace for all tests; it is not started."""
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    process = AgentProcess(tmp_path_factory.mktemp("agent"))
    process.configure({"ipvs": {"syncPeriod": "2s"}})
    process.write("steady.json", service("steady", STEADY, 2))
    yield process
    process.close()


@pytest.fixture(scope="module")
def running(agent: AgentProcess) -> Iterator[AgentProcess]:
    agent.start()
    yield agent
    agent.stop()


@pytest.fixture
def each(request: pytest.FixtureRequest) -> int:
    """Return how many calls each fault strikes."""
    return int(request.config.getoption("--faults"))


def service(name: str, ip: str, count: int, protocol: str = "TCP") -> list[objects.Object]:
    endpoints = [objects.endpoint(f"10.244.1.{host}", NODE) for host in range(1, count + 1)]
    port = objects.port(80, "p", protocol)
    return [
        objects.service(name, [ip], [port], externalIPs=[ip.replace("10.96.", "192.0.")]),
        objects.piece(name, endpoints, [objects.port(8080, "p", protocol)]),
    ]


def others(turn: int) -> list[objects.Object]:
    """Return some 30 Services; two successive turns share no Service and differ in number."""
    items: list[objects.Object] = []
    for number in range(1, 43 + turn % 5):
        if (number + turn) % 3:
            items += service(f"o{number}", f"10.96.1.{number}", 1 + (number + turn) % 4, "TCP" if number % 5 else "UDP")
    return items


def used() -> int:
    """Return the connections through the steady virtual server so far; a recreated one starts at 0."""
    lines = sh("ipvsadm", "-Ln", "--stats", "--exact").splitlines()
    return next(int(line.split()[2]) for line in lines if f"{STEADY}:80" in line)


def use() -> int:
    """Send something through the steady virtual server; return how often the test has done that."""

    def sent() -> int:
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex((STEADY, 80))
        return used()  # the kernel adds up statistics every two seconds

    return int(eventually(sent))


@pytest.mark.parametrize("row", [*TABLE, *KILLED], ids=lambda row: f"{row[0]}-{row[1]}")
def test_command_line_survives_failed_calls(agent: AgentProcess, row: tuple[str, str, int], each: int) -> None:
    words = ("apply", *agent.options(), "--objects", str(agent.manifests))

    def apply() -> int:
        status = main(words)
        sys.stdout.flush()
        return status

    agent.write("others.json", others(TURN[0]))
    with contextlib.redirect_stdout(io.StringIO()):
        assert apply() == 0
    before = use()
    for fault in places(row, each, SEED):
        TURN[0] += 1
        agent.write("others.json", others(TURN[0]))
        done = in_child(fault, agent.directory, apply)
        assert "Traceback" not in done.errors, f"{fault}\n{done.errors}"
        if done.status == 0:
            assert agent.plan() == [], f"{fault}\n{done.output}\n{done.errors}"
        elif done.status > 0:
            # a process that cannot write prints nothing
            assert done.errors.startswith("kubenode") or fault.calls == "write", f"{fault}\n{done}"
        assert used() >= before, fault
        with contextlib.redirect_stdout(io.StringIO()):
            assert apply() == 0
        assert agent.plan() == [], fault


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_running_agent_survives_failed_calls(running: AgentProcess, row: tuple[str, str, int], each: int) -> None:
    agent = running
    assert agent.process is not None
    before = use()
    for fault in places(row, each, SEED):
        TURN[0] += 1
        logged = agent.log.stat().st_size
        items = others(TURN[0])
        with Attached(fault, agent.process.pid, agent.directory / "record"):
            agent.write("others.json", items)
            agent.kill(signal.SIGHUP)
            agent.ask("status")  # the agent answers only after the reload, if at all
        try:
            eventually(lambda items=items: agent.converged()["items"]["virtual_server"] == len(items) + 2)
            eventually(lambda: not agent.converged()["draining"])
            assert agent.plan() == []
            assert used() >= before
        except AssertionError as error:
            raise AssertionError(f"{fault}: {error}\n{agent.log.read_text()[logged:][-8000:]}") from None
        assert "Traceback" not in agent.log.read_text()
