# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on a real kernel: converge, follow changes, restart, clean up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, dump, eventually, same
from support.agent.web import WEB, node, web
from support.clusters import objects
from support.processes.kernel import use_tables
from support.processes.kernel_modules import no_module_loads
from support.processes.namespace import sh
from support.waiting import PATIENCE

from kubenode.cli.ask import question
from kubenode.engine.errors import EngineError


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    yield from node(tmp_path)


def real_servers(address: str = WEB, port: int = 80) -> list[str]:
    """Return address:port and weight of each real server, as ipvsadm lists them."""
    reals = []
    for line in sh("ipvsadm", "-Sn").splitlines():
        words = line.split()
        if words[0] == "-a" and words[2] == f"{address}:{port}":
            reals.append(f"{words[4]} {words[7]}")
    return sorted(reals)


def test_agent_converges_and_has_nothing_left_to_do(agent: AgentProcess) -> None:
    agent.start()
    assert real_servers() == ["10.244.1.1:8080 1", "10.244.1.2:8080 1"]
    assert real_servers("192.0.2.1", 30080) == real_servers()
    assert f"{WEB}/32" in sh("ip", "addr", "show", "dev", "kube-ipvs0")
    assert "30080" in sh("ipset", "save", "KUBE-NODE-PORT-TCP")
    assert "-A KUBE-SERVICES" in sh("iptables-save", "-t", "nat")
    assert sh("sysctl", "-n", "net.ipv4.vs.conntrack").strip() == "1"
    assert agent.plan() == []
    assert agent.stop() == 0
    assert real_servers() != []  # the kernel goes on balancing


def test_object_of_an_attacker_costs_only_itself(agent: AgentProcess) -> None:
    """Such an object once ended every agent that read it, at each start again."""
    weights = {"kubenode.ipvs/weight": "9" * 5000}
    agent.write("poison.json", [objects.piece("web", name="poison", annotations=weights)])
    agent.start()
    assert real_servers() == ["10.244.1.1:8080 1", "10.244.1.2:8080 1"]
    (problem,) = agent.ask("status")["problems"]
    assert problem["name"] == "ns1/poison"
    assert len(problem["text"]) < 700
    (agent.manifests / "poison.json").unlink()
    eventually(lambda: agent.ask("status")["problems"] == [])
    agent.write("poison.json", [objects.piece("web", name="poison", annotations=weights)])
    eventually(lambda: len(agent.ask("status")["problems"]) == 1)
    agent.write("web.json", web(1))
    eventually(lambda: real_servers() == ["10.244.1.1:8080 1"])


def test_agent_follows_edits_of_manifests(agent: AgentProcess) -> None:
    agent.start()
    agent.write("web.json", web(3))
    eventually(lambda: "0AF40103:1F90" in Path("/proc/net/ip_vs").read_text())
    agent.write("other.json", web(1, "other", "10.96.0.11", 30081))
    eventually(lambda: real_servers("10.96.0.11"))
    (agent.manifests / "other.json").unlink()
    eventually(lambda: not real_servers("10.96.0.11"))
    eventually(lambda: "10.96.0.11" not in sh("ipvsadm", "-Sn"))
    eventually(lambda: "10.96.0.11/32" not in sh("ip", "addr"))
    assert agent.plan() == []


def test_bad_file_keeps_its_last_good_version(agent: AgentProcess) -> None:
    agent.start()
    (agent.manifests / "web.json").write_text('{"kind": "List", "items": [')
    agent.write("other.json", web(1, "other", "10.96.0.11", 30081))
    eventually(lambda: real_servers("10.96.0.11"))
    assert len(real_servers()) == 2
    (problem,) = [item["text"] for item in agent.ask("status")["problems"]]
    assert "web.json:1: not valid JSON" in problem
    assert "its last good version stays in place" in problem
    agent.write("web.json", web(1))
    eventually(lambda: len(real_servers()) == 1)
    assert agent.ask("status")["problems"] == []


def test_bad_service_is_reported_and_others_converge(agent: AgentProcess) -> None:
    bad = objects.service("bad", ["10.96.0.12"], [objects.port(70000, "http")])
    agent.write("bad.json", [bad, *web(1, "other", "10.96.0.11", 30081)])
    agent.start()
    assert real_servers("10.96.0.11")
    (problem,) = agent.ask("status")["problems"]
    assert problem["name"] == "ns1/bad"
    assert "70000" in problem["text"]
    agent.write("bad.json", web(1, "bad", "10.96.0.12", 30082))
    eventually(lambda: real_servers("10.96.0.12"))


def test_deleted_set_is_restored(agent: AgentProcess) -> None:
    agent.configure({"ipvs": {"syncPeriod": "2s"}})
    agent.start()
    before = dump()
    sh("iptables", "-F")
    sh("iptables", "-t", "nat", "-F")
    sh("ipset", "destroy", "KUBE-NODE-PORT-TCP")
    eventually(lambda: same(dump(), before))


def test_restart_changes_nothing_and_reload_applies_config(agent: AgentProcess) -> None:
    agent.start()
    before = dump()
    agent.stop()
    assert dump() == before
    agent.start()
    assert agent.ask("status")["last_full_sync"]["steps"] == 0
    assert dump() == before
    agent.configure({"ipvs": {"scheduler": "wrr"}, "clusterCIDR": "10.244.0.0/16"})
    agent.kill(signal.SIGHUP)
    eventually(lambda: f"-A -t {WEB}:80 -s wrr" in sh("ipvsadm", "-Sn"))
    eventually(lambda: "! -s 10.244.0.0/16" in sh("iptables-save", "-t", "nat"))
    agent.config.write_text("mode: [")
    agent.kill(signal.SIGHUP)
    eventually(lambda: any(item["about"] == "configuration" for item in agent.ask("status")["problems"]))
    assert f"-A -t {WEB}:80 -s wrr" in sh("ipvsadm", "-Sn")


def test_cleanup_leaves_foreign_items_byte_for_byte(agent: AgentProcess) -> None:
    sh("ipvsadm", "-A", "-t", "203.0.113.9:443", "-s", "wrr")
    sh("ipvsadm", "-a", "-t", "203.0.113.9:443", "-r", "203.0.113.10:8443", "-m", "-w", "7")
    sh("ipset", "create", "mine", "hash:ip")
    sh("ipset", "add", "mine", "198.51.100.1")
    sh("iptables", "-N", "MINE")
    sh("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "22", "-j", "ACCEPT")
    sh("iptables", "-t", "nat", "-A", "PREROUTING", "-d", "198.51.100.1/32", "-j", "RETURN")
    sh("ip6tables", "-N", "MINE6")
    use_tables()
    before = dump()
    agent.start()
    assert "203.0.113.9:443" in sh("ipvsadm", "-Sn")
    refused = agent.command("cleanup", "--run-dir", str(agent.run), expect=1)
    assert "the agent is running" in refused.stderr
    agent.stop()
    agent.command("cleanup", "--check", "--run-dir", str(agent.run), expect=2)
    agent.command("cleanup", "--run-dir", str(agent.run))
    assert dump() == before
    agent.command("cleanup", "--check", "--run-dir", str(agent.run), expect=0)


def test_cleanup_restores_sysctls_unless_changed_since(agent: AgentProcess) -> None:
    former = {
        "net.ipv4.ip_forward": "0",
        "net.ipv4.vs.conntrack": "0",
        "net.netfilter.nf_conntrack_tcp_timeout_close_wait": "61",
    }
    sh("sysctl", "-w", *(f"{name}={value}" for name, value in former.items()))

    def live() -> dict[str, str]:
        return dict(zip(former, sh("sysctl", "-n", *former).split(), strict=True))

    for _time in range(2):  # the saved values survive a second start of the agent
        agent.start()
        assert not former.items() & live().items()
        agent.stop()
    sh("sysctl", "-w", "net.netfilter.nf_conntrack_tcp_timeout_close_wait=1234")
    foreseen = agent.command("cleanup", "--check", "--run-dir", str(agent.run), expect=2).stdout
    assert "~ sysctl net.ipv4.ip_forward: 1 -> 0" in foreseen
    agent.command("cleanup", "--run-dir", str(agent.run))
    assert live() == {**former, "net.netfilter.nf_conntrack_tcp_timeout_close_wait": "1234"}
    agent.command("cleanup", "--check", "--run-dir", str(agent.run), expect=0)


def test_foreign_virtual_server_is_left_alone_and_named(agent: AgentProcess) -> None:
    sh("ipvsadm", "-A", "-t", f"{WEB}:80", "-s", "sh")
    agent.write("other.json", web(1, "other", "10.96.0.11", 30081))
    agent.start()
    assert f"-A -t {WEB}:80 -s sh" in sh("ipvsadm", "-Sn")
    assert real_servers() == []
    assert real_servers("10.96.0.11")
    assert any(f"tcp {WEB}:80 exists already" in item["text"] for item in agent.ask("status")["problems"])
    agent.stop()
    agent.start("--adopt")
    assert len(real_servers()) == 2


def test_agent_with_unreadable_manifests_removes_nothing(agent: AgentProcess) -> None:
    agent.start()
    agent.stop()
    hidden = agent.directory / "away"
    agent.manifests.rename(hidden)
    agent.start(wait=False)
    answer = eventually(lambda: agent.ask("status"))
    assert "cannot be read" in answer["waiting"]
    assert len(real_servers()) == 2
    (hidden / "web.json").write_text("{")
    hidden.rename(agent.manifests)
    answer = eventually(lambda: (status := agent.ask("status"))["holding_removals"] and status)
    assert len(real_servers()) == 2
    assert "nothing of this file is known" in answer["problems"][0]["text"]
    agent.write("web.json", web(1))
    eventually(lambda: len(real_servers()) == 1)


def test_show_and_check_report_the_node(agent: AgentProcess) -> None:
    agent.start()
    text = agent.command("show", *agent.options()).stdout
    assert f"tcp {WEB}:80 rr   agent   ns1/web:http" in text
    assert "10.244.1.1:8080" in text
    assert agent.command("status", "--run-dir", str(agent.run)).stdout.startswith(f"node {NODE}")
    for directory in (agent.directory, *agent.directory.parents):
        if not directory.stat().st_mode & 0o001:
            directory.chmod(0o711)
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
    try:
        with pytest.raises(
            EngineError, match=r"agent\.sock cannot be opened: expected root or a member of the agent's group"
        ):
            question(str(agent.run / "agent.sock"), "status")
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
    agent.stop()
    assert "the agent is not running" in agent.command("status", "--run-dir", str(agent.run), expect=1).stderr
    text = agent.command("show", "--objects", str(agent.manifests), *agent.options()).stdout
    assert f"tcp {WEB}:80 rr   agent   ns1/web:http" in text
    checked = agent.command("check", "--run-dir", str(agent.run), expect=None)
    assert "IPVS with the scheduler rr: a virtual server could be made" in checked.stdout


def test_foreign_thresholds_are_reverted(agent: AgentProcess) -> None:
    """A quick read of real servers does not contain thresholds."""
    agent.start()
    before = sh("ipvsadm", "-Ln", "--thresholds")
    sh("ipvsadm", "-e", "-t", f"{WEB}:80", "-r", "10.244.1.1:8080", "-m", "-w", "1", "-x", "100", "-y", "50")
    assert sh("ipvsadm", "-Ln", "--thresholds") != before
    assert len(agent.plan()) == 1
    agent.kill(signal.SIGHUP)
    eventually(lambda: sh("ipvsadm", "-Ln", "--thresholds") == before)


def test_used_listen_address_ends_the_agent_if_configured(agent: AgentProcess) -> None:
    with socket.create_server(("127.0.0.1", 10249)):
        agent.start()
        assert "cannot listen for metrics" in agent.log.read_text()
        assert agent.stop() == 0
        agent.configure({"bindAddressHardFail": True})
        agent.start(wait=False)
        assert agent.process is not None
        assert agent.process.wait(PATIENCE) == 1
    assert "cannot listen for metrics on 127.0.0.1 port 10249: Address already in use" in agent.log.read_text()
    assert len(real_servers()) == 2


@pytest.mark.parametrize(("given", "score"), [({}, -999), ({"oomScoreAdj": 500}, 500)])
def test_oom_score_of_the_agent_is_applied(agent: AgentProcess, given: dict[str, int], score: int) -> None:
    agent.configure(given)
    agent.start()
    assert agent.process is not None
    path = Path(f"/proc/{agent.process.pid}/oom_score_adj")
    eventually(lambda: int(path.read_text()) == score)


def test_check_tests_the_prerequisites_of_kube_proxy(agent: AgentProcess, tmp_path: Path) -> None:
    """One answer names an old ipset and a missing scheduler. The check leaves existing items as they are."""
    agent.configure({"ipvs": {"scheduler": "fo"}})
    subprocess.run(["modprobe", "-r", "ip_vs_fo"], check=True)
    before = sh("ipvsadm", "-Sn")
    tool = tmp_path / "ipset"
    tool.write_text("#!/bin/sh\necho 'ipset v4.3.0, protocol version: 4'\n")
    tool.chmod(0o755)
    with no_module_loads():
        words = ("check", "--config", str(agent.config), "--run-dir", str(agent.run))
        checked = agent.command(*words, expect=1, environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"}).stdout
    assert "FAIL  ipset is version 4.3, expected 6.0 or newer" in checked
    assert (
        "FAIL  virtual server tcp 198.51.100.0:20000: scheduler fo is not available (kernel module ip_vs_fo)" in checked
    )
    assert sh("ipvsadm", "-Sn") == before


def test_apply_converges_once(agent: AgentProcess) -> None:
    words = ("--objects", str(agent.manifests), *agent.options())
    agent.command("apply", "--check", *words, expect=2)
    assert real_servers() == []
    agent.command("apply", *words)
    assert len(real_servers()) == 2
    assert agent.plan() == []
    agent.write("web.json", web(1))
    agent.command("apply", *words)
    assert real_servers() == ["10.244.1.1:8080 1"]


def test_watchdog_abort_logs_where_the_loop_hung(agent: AgentProcess) -> None:
    agent.start()
    assert agent.stop(signal.SIGABRT) == -signal.SIGABRT
    text = agent.log.read_text()
    assert "Fatal Python error: Aborted" in text
    assert "daemon/loop.py" in text
