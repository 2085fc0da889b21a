# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent starts before its prerequisites: it waits, names them, goes on when they come, and never exits."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.fakes.service_manager import ServiceManager
from support.processes.kernel_modules import no_module_loads, unload_ip_vs
from support.processes.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
WEB = "10.96.0.10"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """Make an agent in a namespace without any network; even the loopback is down."""
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    process = AgentProcess(tmp_path)
    process.write("web.json", web())
    yield process
    process.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    started = ServiceManager(tmp_path)
    yield started
    started.close()


def web() -> list[objects.Object]:
    ports = [objects.port(80, "http", node_port=30080)]
    pieces = objects.piece("web", [objects.endpoint("10.244.1.1", NODE)], [objects.port(8080, "http")])
    return [objects.service("web", [WEB], ports, kind="NodePort"), pieces]


def test_agent_waits_for_ip_vs(agent: AgentProcess, manager: ServiceManager) -> None:
    sh("ip", "link", "set", "lo", "up")

    unload_ip_vs()
    with no_module_loads():  # the kernel cannot load the module by itself either
        agent.start(wait=False, environment=manager.environment)
        eventually(lambda: manager.status.startswith("waiting: ") and "modprobe ip_vs" in manager.status)
        assert "modprobe ip_vs" in eventually(lambda: agent.ask("status"))["waiting"]
        assert not manager.ready
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    eventually(lambda: manager.ready)
    assert manager.status.startswith("1 virtual servers")  # the status precedes readiness
    assert f"{WEB}:80" in sh("ipvsadm", "-Sn")


def test_agent_follows_a_network_that_comes_later(agent: AgentProcess, manager: ServiceManager) -> None:
    agent.start(environment=manager.environment)
    assert f"{WEB}:80" in sh("ipvsadm", "-Sn")
    assert "30080" not in sh("ipvsadm", "-Sn")
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "eth0", "type", "dummy")
    sh("ip", "addr", "add", "192.0.2.1/24", "dev", "eth0")
    sh("ip", "link", "set", "eth0", "up")
    eventually(lambda: "192.0.2.1:30080" in sh("ipvsadm", "-Sn"))
    assert agent.plan() == []


def test_agent_waits_for_the_api(agent: AgentProcess, manager: ServiceManager) -> None:
    sh("ip", "link", "set", "lo", "up")
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    agent.use_api(f"http://127.0.0.1:{port}", {})
    words = ("--manifests", "", "--state-dir", str(agent.directory / "state"))
    agent.start(*words, wait=False, environment=manager.environment)
    eventually(lambda: manager.status.startswith("waiting: the Kubernetes API: ") and "refused" in manager.status)
    agent.kill(signal.SIGHUP)  # a reload does not end the start
    eventually(lambda: "reloading" in agent.log.read_text())
    assert not manager.ready
    eventually(lambda: manager.ready)  # the kubelet, which may start the API server, waits for the agent
    assert manager.status.startswith("waiting: ")
    api = FakeApiServer(port=port)
    try:
        for item in web():
            api.put(item)
        agent.converged(40)
        assert f"{WEB}:80" in sh("ipvsadm", "-Sn")
        eventually(lambda: "waiting" not in manager.status)
    finally:
        agent.stop()
        api.close()


def test_agent_waits_for_all_prerequisites(agent: AgentProcess, manager: ServiceManager) -> None:
    """Configuration and manifests are missing."""
    sh("ip", "link", "set", "lo", "up")
    away = agent.directory / "away"
    agent.manifests.rename(away)
    text = agent.config.read_text()
    agent.config.unlink()
    agent.start(wait=False, environment=manager.environment)
    eventually(lambda: "there is no such file" in manager.status)
    agent.config.write_text(text)
    eventually(lambda: "manifests" in manager.status)
    away.rename(agent.manifests)
    agent.converged()
    assert f"{WEB}:80" in sh("ipvsadm", "-Sn")
