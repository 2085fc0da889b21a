# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health checks of a running agent: under abuse, while another process holds iptables' lock, and while a tool hangs."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import AgentProcess, eventually
from support.agent.web import node, web
from support.processes.kernel import IPTABLES
from support.processes.namespace import sh

ABUSE = Path(__file__).parents[1] / "bench/onnode/http_abuse.py"
HEALTH, METRICS = 10256, 10249


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    for process in node(tmp_path):
        process.configure({"healthzBindAddress": f"0.0.0.0:{HEALTH}", "metricsBindAddress": f"0.0.0.0:{METRICS}"})
        yield process


def health() -> int:
    """Return the status of /healthz."""
    try:
        with urllib.request.urlopen(f"http://192.0.2.1:{HEALTH}/healthz", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def listening() -> bool:
    """Return whether the health check port listens."""
    return f":{HEALTH} " in sh("ss", "-ltnH")


def told(agent: AgentProcess, words: str) -> bool:
    """Return whether the agent reports this problem."""
    status = agent.ask("status") or {"problems": []}
    return any(words in problem["text"] for problem in status["problems"])


@pytest.mark.parametrize("address", ["192.0.2.1", "::1"])
def test_abusive_clients_deny_no_health_check(agent: AgentProcess, address: str) -> None:
    # This small kernel's table of connections (8,192) fills in a minute. The kernel then drops the probes' packets.
    sh("nsenter", "--net=/proc/1/ns/net", "sysctl", "-w", "net.netfilter.nf_conntrack_max=262144")
    agent.start(wait=False)
    agent.converged(60)
    words = [sys.executable, str(ABUSE), address, str(HEALTH), str(METRICS), "100", "200"]
    result = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert result["refused"] == []
    assert len(result["seconds"]) == 100
    agent.write("web.json", web(3))
    eventually(lambda: "10.244.1.3:8080" in sh("ipvsadm", "-Sn"), 60)


def test_held_iptables_lock_does_not_delay_health(agent: AgentProcess) -> None:
    """The lock is held from before the start; the agent retries."""
    with open("/run/xtables.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent.start(wait=False)
        eventually(listening, 60)
        if IPTABLES == "legacy":  # iptables-nft takes no lock
            eventually(lambda: told(agent, "another program has held the lock /run/xtables.lock for 2 seconds"), 60)
            for _probe in range(20):
                assert health() == 503  # the rules have not been applied yet
            assert "KUBE-SERVICES" not in sh("iptables-save")
    agent.converged(60)
    eventually(lambda: health() == 200)


def test_briefly_held_lock_is_waited_for(agent: AgentProcess) -> None:
    agent.start(wait=False)
    agent.converged(60)
    sh("iptables", "-t", "nat", "-F", "KUBE-SERVICES")
    with open("/run/xtables.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = subprocess.Popen(["sleep", "0.5"], pass_fds=(lock.fileno(),))
    assert agent.ask("sync")["problems"] == []
    assert "-A KUBE-SERVICES" in sh("iptables-save")
    assert holder.wait() == 0


def test_hanging_tool_is_named_before_the_watchdog(agent: AgentProcess, tmp_path: Path) -> None:
    """The agent names a hanging tool, answers health checks meanwhile, and recovers when the tool does.

    A script in front of the real tool sleeps.
    """
    fake, hangs, name = tmp_path / "fake", tmp_path / "hangs", "iptables-restore"
    fake.mkdir()
    (fake / name).write_text(f'#!/bin/sh\n[ -e {hangs} ] && sleep 1000\nexec {shutil.which(name)} "$@"\n')
    (fake / name).chmod(0o755)
    agent.start(wait=False, environment={"PATH": f"{fake}:{os.environ['PATH']}", "WATCHDOG_USEC": "6000000"})
    agent.converged(60)
    hangs.touch()
    sh("iptables", "-t", "nat", "-F", "KUBE-SERVICES")
    agent.kill(signal.SIGHUP)
    eventually(lambda: told(agent, f"{name} --noflush -w 2 did not end in 2 seconds and was stopped"), 60)
    assert health() in (200, 503)
    hangs.unlink()
    eventually(lambda: "-A KUBE-SERVICES" in sh("iptables-save"), 60)
    assert agent.converged(60)["problems"] == []
