# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of a cluster, and the agent's result for them: tables, problems, steps."""

from __future__ import annotations

import re
from pathlib import Path

from ..clusters.cluster import Cluster, piece, service
from ..processes.namespace import sh
from .process import AgentProcess, metrics

SLOW = 120.0  # seconds; an API server needs most of a kernel with one processor
_STEP = re.compile(r'kubenode_steps_total\{kind="(\w+)",verb="(\w+)"\} (\d+)')


def serve(cluster: Cluster, name: str, labels: dict[str, str] | None = None) -> str:
    """Make a Service with one endpoint; return its address."""
    address: str = cluster.create(service(name, labels))["spec"]["clusterIP"]
    cluster.create(piece(name, labels))
    return address


def start(agent: AgentProcess, kubeconfig: Path) -> None:
    """Start an agent with this kubeconfig, without waiting for it."""
    agent.configure({"ipvs": {"syncPeriod": "5s"}}, source={"kubernetes": {"kubeconfig": str(kubeconfig)}})
    agent.start("--manifests", "", "--state-dir", str(agent.directory / "state"), wait=False)


def real_servers(address: str, port: int = 80) -> list[str]:
    """Return the real servers of an address and port."""
    lines = [line.split() for line in sh("ipvsadm", "-Sn").splitlines()]
    return sorted(words[4] for words in lines if words[0] == "-a" and words[2] == address_port(address, port))


def address_port(address: str, port: int = 80) -> str:
    """Return an address and port as ipvsadm prints them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def virtual_servers() -> set[str]:
    """Return the addresses of all virtual servers."""
    return {line.split()[2] for line in sh("ipvsadm", "-Sn").splitlines() if line.startswith("-A")}


def problems(agent: AgentProcess) -> dict[str, str]:
    """Return the agent's problems by name; one named "agent" if it does not answer."""
    status = agent.ask("status")
    if status is None:
        return {"agent": "does not answer"}
    return {problem["name"]: problem["text"] for problem in status["problems"]}


def steps() -> dict[str, int]:
    """Return the number of steps since the agent's start, by kind of item and verb."""
    return {f"{kind} {verb}": int(count) for kind, verb, count in _STEP.findall(metrics())}


def steps_since(before: dict[str, int]) -> dict[str, int]:
    """Return the number of steps since ``before``."""
    now = steps()
    return {step: now[step] - before.get(step, 0) for step in now if now[step] > before.get(step, 0)}
