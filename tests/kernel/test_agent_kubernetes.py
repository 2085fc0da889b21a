# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent with the Kubernetes API as its source, in a real kernel; the API server is the scripted fake."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent.process import NODE, AgentProcess, dump, eventually
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.processes.namespace import fresh, sh

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "dummy", "br_netfilter")
WEB = "10.96.0.10"
SERVICES, SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    fresh()
    sh("ip", "link", "set", "lo", "up")
    process = AgentProcess(tmp_path)
    yield process
    process.close()


@pytest.fixture
def api(agent: AgentProcess) -> Iterator[FakeApiServer]:
    """Start the fake API server in the agent's namespace, and make it known to the agent."""
    server = FakeApiServer()
    server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"addresses": []}})
    endpoints(server, 2)
    agent.use_api(server.url, {})
    yield server
    server.close()


def endpoints(server: FakeApiServer, count: int, name: str = "web", ip: str = WEB) -> None:
    """Put a Service with this many endpoints."""
    server.put(objects.service(name, [ip], [objects.port(80, "http")]))
    addresses = [f"10.244.1.{number}" for number in range(1, count + 1)]
    server.put(
        objects.piece(name, [objects.endpoint(address, NODE) for address in addresses], [objects.port(8080, "http")])
    )


def start(agent: AgentProcess, *, wait: bool = True) -> None:
    agent.start("--manifests", "", "--state-dir", str(agent.directory / "state"), wait=wait)


def real_servers(address: str = WEB) -> list[str]:
    lines = [line.split() for line in sh("ipvsadm", "-Sn").splitlines()]
    return sorted(words[4] for words in lines if words[0] == "-a" and words[2] == f"{address}:80")


def problems(agent: AgentProcess) -> dict[str, str]:
    status: dict[str, Any] = agent.ask("status")
    return {problem["name"]: problem["text"] for problem in status["problems"]}


TWO = ["10.244.1.1:8080", "10.244.1.2:8080"]


def test_agent_serves_the_objects_of_the_api(agent: AgentProcess, api: FakeApiServer) -> None:
    # the agent serves changes from the API at once, not with the next full sync
    agent.use_api(api.url, {"ipvs": {"syncPeriod": "1h"}})
    start(agent)
    assert real_servers() == TWO
    eventually(lambda: api.watching(SLICES))
    endpoints(api, 3)
    eventually(lambda: "0AF40103:1F90" in Path("/proc/net/ip_vs").read_text())
    api.delete("Service", "ns1", "web")
    eventually(lambda: real_servers() == [])
    eventually(lambda: [event["reason"] for event in api.events] == ["Starting"])
    assert problems(agent) == {}
    assert agent.stop() == 0
    assert "secret-token" not in agent.log.read_text()


def label(server: FakeApiServer, *labels: str) -> None:
    metadata = {"name": NODE, "labels": dict.fromkeys(labels, "agent")}
    server.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": []}})


def heard() -> bool:
    """Return whether the agent listens for the load balancer's health checks."""
    return ":10256" in sh("ss", "-Hltn")


def test_node_label_decides_whether_the_agent_serves(agent: AgentProcess, api: FakeApiServer) -> None:
    source = {"kubernetes": {"kubeconfig": str(agent.directory / "kubeconfig")}}
    agent.configure({}, source=source, nodeSelector={"kubenode.ipvs/proxy": "agent"})
    before = dump()
    start(agent, wait=False)
    eventually(lambda: "kubenode.ipvs/proxy=agent" in (agent.ask("status") or {"waiting": ""})["waiting"])
    assert (dump(), heard()) == (before, False)

    label(api, "kubenode.ipvs/proxy")
    eventually(lambda: len(real_servers()) == 2 and heard())
    agent.converged()

    label(api)
    eventually(lambda: not heard())
    held = dump()
    endpoints(api, 3)
    sh("ipset", "flush", "KUBE-CLUSTER-IP")  # the agent does not repair this either
    assert not agent.ask("sync")["converged"]
    assert len(real_servers()) == 2
    assert {part for part, text in dump().items() if text != held[part]} == {"ipset"}

    label(api, "kubenode.ipvs/proxy")
    eventually(lambda: len(real_servers()) == 3 and heard())
    agent.converged()


def test_unservable_object_gets_a_kubernetes_event(agent: AgentProcess, api: FakeApiServer) -> None:
    start(agent)
    api.put(objects.service("bad", ["10.96.0.300"]))
    eventually(lambda: [event["regarding"]["name"] for event in api.events] == [NODE, "bad"])
    assert "10.96.0.300" in api.events[-1]["note"]
    assert real_servers() == TWO


def test_idle_agent_does_nothing(agent: AgentProcess, api: FakeApiServer) -> None:
    """Waiting for the API costs hardly a system call; a busy loop would make thousands a second."""
    start(agent)
    eventually(lambda: api.watching(SLICES))
    calls = agent.directory / "calls"

    def quiet() -> bool:
        """three seconds with less than 100 system calls"""
        assert agent.process is not None
        words = ["strace", "-f", "-qq", "-o", str(calls), "-p", str(agent.process.pid)]
        subprocess.run(["timeout", "--preserve-status", "--signal=INT", "3", *words], check=False)
        return 0 < len(calls.read_text().splitlines()) < 100

    eventually(quiet)  # a start on a slow machine may still have work to do


def test_nothing_is_removed_before_both_lists_are_complete(agent: AgentProcess, api: FakeApiServer) -> None:
    start(agent)
    agent.stop()
    (agent.directory / "state/objects").unlink()
    api.stalled.add(SLICES)
    start(agent, wait=False)
    eventually(lambda: "lists are being read" in (agent.ask("status") or {"waiting": ""})["waiting"])
    time.sleep(1.5)
    assert real_servers() == TWO
    endpoints(api, 1)
    api.stalled.clear()
    agent.converged()
    eventually(lambda: real_servers() == TWO[:1])  # after the real server has drained


def test_start_without_api_restores_and_return_changes_little(agent: AgentProcess, api: FakeApiServer) -> None:
    endpoints(api, 1, "other", "10.96.0.11")
    start(agent)
    agent.stop()
    api.close()
    sh("ipvsadm", "-C")  # as after a reboot
    start(agent)
    assert real_servers() == TWO
    assert "are restored from" in problems(agent)["snapshot"]
    assert "cannot be reached: connection refused" in problems(agent)[SERVICES]
    assert agent.ask("status")["holding_removals"]
    assert "are restored from" in agent.log.read_text()
    again = FakeApiServer(version=api.version, port=api.port, objects=api.objects)
    try:
        again.delete("Service", "ns1", "other")
        endpoints(again, 3)
        eventually(lambda: real_servers() == [*TWO, "10.244.1.3:8080"] and real_servers("10.96.0.11") == [])
        eventually(lambda: problems(agent) == {})
        assert not agent.ask("status")["holding_removals"]
    finally:
        again.close()


def test_agent_killed_while_the_api_is_away_converges(agent: AgentProcess, api: FakeApiServer) -> None:
    """The snapshot on disk is complete, whatever moment the agent is killed at."""
    start(agent)
    eventually(lambda: (agent.directory / "state/objects").exists())
    for number in range(3, 6):
        endpoints(api, number)
        time.sleep(0.05 * number)
        agent.stop(signal.SIGKILL)
        start(agent)
        eventually(lambda number=number: len(real_servers()) == number)
    assert problems(agent) == {}
