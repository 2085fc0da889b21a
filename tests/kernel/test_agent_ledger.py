# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running agent and its ledger: locked by another process, removed, replaced; adopted items."""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, dump, eventually
from support.clusters import objects
from support.processes.namespace import fresh, sh

WEB, OTHER = "10.96.0.10", "10.96.0.11"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
    fresh()
    sh("ip", "link", "set", "lo", "up")
    process = AgentProcess(tmp_path)
    process.write("web.json", service("web", WEB))
    yield process
    process.close()


def service(name: str, ip: str) -> list[objects.Object]:
    return [
        objects.service(name, [ip], [objects.port(80, "http")]),
        objects.piece(name, [objects.endpoint("10.244.1.1", NODE)], [objects.port(8080, "http")]),
    ]


def served(ip: str) -> bool:
    return f"-a -t {ip}:80 -r 10.244.1.1:8080" in sh("ipvsadm", "-Sn")


def start(agent: AgentProcess, *words: str, environment: dict[str, str] | None = None) -> None:
    agent.start(*words, wait=False, environment=environment)
    agent.converged(60)


def claims(agent: AgentProcess, owner: str = "agent") -> set[tuple[str, str]]:
    with closing(sqlite3.connect(agent.run / "ledger.db")) as database:
        return set(database.execute("SELECT kind, key FROM claim WHERE owner = ?", (owner,)))


def test_held_lock_neither_blocks_nor_ends_the_agent(agent: AgentProcess, tmp_path: Path) -> None:
    """The agent answers, feeds the watchdog, names the holder of the lock, and goes on when the lock is free."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        heard: list[bytes] = []
        threading.Thread(target=lambda: heard.extend(iter(lambda: notify.recv(4096), b"end")), daemon=True).start()
        start(agent, environment={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "4000000"})
        with open(agent.run / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            agent.write("other.json", service("other", OTHER))
            texts: list[str] = []

            def is_named() -> bool:
                """the holder is named"""
                status = agent.ask("status")
                assert status is not None, "it does not answer"
                texts[:] = [problem["text"] for problem in status["problems"]]
                return any(f"is held by pid {os.getpid()} (" in text for text in texts)

            eventually(is_named, 60)
            heard.clear()
            eventually(lambda: b"WATCHDOG=1" in heard, 30)
            assert not served(OTHER)
        agent.converged(60)
        notify.sendto(b"end", str(path))
    assert served(OTHER)
    assert agent.ask("status")["problems"] == []


@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_lost_ledger_is_created_again(agent: AgentProcess, way: str) -> None:
    start(agent)
    before, made = claims(agent), dump()
    (agent.run / "ledger.db").unlink()
    if way == "replaced":
        agent.command("adopt", "--run-dir", str(agent.run))  # creates a new ledger
    agent.write("other.json", service("other", OTHER))
    eventually(lambda: served(OTHER), 30)
    agent.converged(60)
    assert before <= claims(agent)
    assert "ledger recreated" in agent.log.read_text()
    (agent.manifests / "other.json").unlink()
    eventually(lambda: not served(OTHER), 30)
    agent.converged(60)
    assert claims(agent) == before
    assert {**dump(), "links": ""} == {**made, "links": ""}
    assert agent.plan() == []


def test_the_agent_adopts_once(agent: AgentProcess) -> None:
    """Items that another program makes afterwards under kube-proxy's names stay."""
    sh("ipset", "create", "KUBE-LB-INGRESS-LOCAL", "hash:ip")
    agent.command("adopt", "--run-dir", str(agent.run))
    start(agent)
    assert "KUBE-LB-INGRESS-LOCAL" not in sh("ipset", "list", "-n")
    sh("ipset", "create", "KUBE-LB-INGRESS-LOCAL", "hash:ip")
    agent.command("status", "--sync", "--run-dir", str(agent.run))
    assert agent.stop() == 0
    start(agent)
    assert "KUBE-LB-INGRESS-LOCAL" in sh("ipset", "list", "-n")
    agent.command("adopt", "--run-dir", str(agent.run))
    agent.command("status", "--sync", "--run-dir", str(agent.run))
    assert "KUBE-LB-INGRESS-LOCAL" not in sh("ipset", "list", "-n")


def test_agent_without_its_ledger_adopts_its_items(agent: AgentProcess) -> None:
    """After a stop, only the ledger distinguishes the agent's own items from kube-proxy's.

    The agent names them and keeps them. ``kubenode adopt`` makes the agent take them over.
    """
    start(agent)
    before = claims(agent)
    assert agent.stop() == 0
    (agent.run / "ledger.db").unlink()
    (agent.manifests / "web.json").unlink()
    agent.write("other.json", service("other", OTHER))
    agent.start(wait=False)
    eventually(lambda: served(OTHER), 60)
    assert served(WEB)
    agent.command("adopt", "--run-dir", str(agent.run))
    agent.command("status", "--sync", "--run-dir", str(agent.run))
    eventually(lambda: not served(WEB), 60)
    assert {kind for kind, _key in claims(agent)} == {kind for kind, _key in before}
