# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures caused by other processes: items they hold, space they fill, locks they take, files they remove.

The agent retries or reports, and never leaves a wrong or partial state.
"""

from __future__ import annotations

import contextlib
import fcntl
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, dump, eventually, metrics
from support.clusters import objects
from support.processes.kernel import IPTABLES
from support.processes.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
WEB, OTHER = "10.96.0.10", "10.96.0.11"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    process = AgentProcess(tmp_path)
    process.write("web.json", service("web", WEB))
    yield process
    process.close()


@pytest.fixture
def small_disk(agent: AgentProcess) -> Iterator[Path]:
    """Mount a small file system for the agent's ledger."""
    agent.run.mkdir()
    sh("mount", "-t", "tmpfs", "-o", "size=256k", "none", str(agent.run))
    yield agent.run
    agent.close()
    sh("umount", str(agent.run))


def service(name: str, ip: str) -> list[objects.Object]:
    return [
        objects.service(name, [ip], [objects.port(80, "http")]),
        objects.piece(name, [objects.endpoint("10.244.1.1", NODE)], [objects.port(8080, "http")]),
    ]


def served(ip: str) -> bool:
    return f"-a -t {ip}:80 -r 10.244.1.1:8080" in sh("ipvsadm", "-Sn")


def fill(path: Path) -> None:
    """Write a file until the file system is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def told(agent: AgentProcess, words: str) -> bool:
    """Return whether the agent reports this problem."""
    status = agent.ask("status") or {"problems": []}
    return any(words in problem["text"] for problem in status["problems"])


def test_held_iptables_lock_is_reported_and_waited_for(agent: AgentProcess) -> None:
    """Rules wait for the lock; the agent serves everything else meanwhile."""
    with open("/run/xtables.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent.start(wait=False)
        eventually(lambda: served(WEB))
        if IPTABLES == "nft":  # it takes no lock
            agent.converged(60)
        else:
            eventually(lambda: told(agent, "another program has held the lock /run/xtables.lock"))
            assert "KUBE-SERVICES" not in sh("iptables-save")
    agent.converged(60)
    assert "-A KUBE-SERVICES" in sh("iptables-save")
    assert agent.plan() == []
    assert agent.ask("status")["problems"] == []


def test_full_disk_is_reported_and_recovered(agent: AgentProcess, small_disk: Path) -> None:
    """The agent makes no change that it cannot record in the ledger."""
    agent.start()
    before = dump()
    filler = small_disk / "filler"
    fill(filler)
    agent.write("other.json", service("other", OTHER))
    eventually(lambda: told(agent, "ledger"))
    assert not agent.ask("status")["converged"]
    assert dump() == before
    filler.unlink()
    eventually(lambda: served(OTHER))
    agent.converged(40)
    assert agent.plan() == []


def test_unwritable_ledger_is_reported_and_recovered(agent: AgentProcess, small_disk: Path) -> None:
    before = dump()
    sh("mount", "-o", "remount,ro", str(small_disk))
    agent.start(wait=False)
    eventually(lambda: "cannot be opened" in agent.log.read_text())
    assert dump() == before
    sh("mount", "-o", "remount,rw", str(small_disk))
    eventually(lambda: served(WEB))
    agent.converged()
    assert agent.plan() == []


def test_damaged_ledger_is_reported_and_recovered(agent: AgentProcess) -> None:
    """Without a ledger the agent does not know its own items: it changes nothing and reports that."""
    agent.start()
    agent.stop()
    ledger = agent.run / "ledger.db"
    whole, before = ledger.read_bytes(), dump()
    ledger.write_bytes(b"no ledger at all " * 1000)
    agent.write("other.json", service("other", OTHER))
    agent.start(wait=False)
    eventually(lambda: told(agent, "ledger"))
    assert dump() == before
    ledger.write_bytes(whole)
    eventually(lambda: served(OTHER))


def test_set_in_use_by_foreign_rules_is_reported(agent: AgentProcess) -> None:
    agent.start()
    agent.stop()
    rule = ("INPUT", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "DROP")
    sh("iptables", "-A", *rule)
    refused = agent.command("cleanup", "--run-dir", str(agent.run), expect=1)
    assert "KUBE-CLUSTER-IP" in refused.stderr
    assert "in use" in refused.stderr
    assert sh("ipset", "list", "-n").split() == ["KUBE-CLUSTER-IP"]
    agent.start()
    assert agent.plan() == []
    agent.stop()
    sh("iptables", "-D", *rule)
    agent.command("cleanup", "--run-dir", str(agent.run))
    assert sh("ipset", "list", "-n") == ""


def test_overflowed_event_queue_causes_a_full_pass(agent: AgentProcess) -> None:
    """ENOBUFS: a full comparison finds the drift whose events were lost."""
    agent.configure({"ipvs": {"syncPeriod": "1h"}, "metricsBindAddress": "127.0.0.1:10249"})
    agent.start()
    sh("ip", "link", "add", "eth0", "type", "dummy")
    agent.kill(signal.SIGSTOP)
    try:
        flood = ["addr add 192.0.2.1/24 dev eth0", "addr del 192.0.2.1/24 dev eth0"] * 5000
        sh("ip", "-batch", "-", text="\n".join(flood) + "\n")
        sh("ip", "addr", "del", f"{WEB}/32", "dev", "kube-ipvs0")
    finally:
        agent.kill(signal.SIGCONT)
    eventually(lambda: f"{WEB}/32" in sh("ip", "addr"))
    eventually(lambda: 'kubenode_full_syncs_total{reason="events lost"} 1' in metrics())


def test_missing_descriptors_are_survived(agent: AgentProcess) -> None:
    """The agent keeps the state while descriptors are missing, and repairs everything once it gets them."""
    agent.start()
    assert agent.process is not None
    pid = agent.process.pid
    whole = dump()
    used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    sh("ipset", "flush", "KUBE-CLUSTER-IP")
    free = [number for number in range(max(used) + 10) if number not in used]
    for spare in range(5):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[spare], usual[1]))
        agent.kill(signal.SIGHUP)
        agent.kill(signal.SIGUSR1)  # the agent handles this signal after SIGHUP
        eventually(lambda spare=spare: agent.exited() or agent.log.read_text().count("state version=") > spare)
        assert not agent.exited(), agent.log.read_text()
        assert dump()["ipvs"] == whole["ipvs"]
    assert "cannot converge" in agent.log.read_text()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    agent.kill(signal.SIGHUP)
    agent.converged()
    assert agent.plan() == []
    assert dump()["ipset"] == whole["ipset"]
