# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node in a network namespace, with an agent that serves one Service."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from ..clusters import objects
from ..processes.namespace import fresh, sh
from .process import NODE, AgentProcess

_MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
WEB = "10.96.0.10"


def node(directory: Path) -> Iterator[AgentProcess]:
    """Yield the agent before its start."""
    subprocess.run(["modprobe", "-a", *_MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "eth0", "type", "dummy")
    sh("ip", "addr", "add", "192.0.2.1/24", "dev", "eth0")
    sh("ip", "link", "set", "eth0", "up")
    process = AgentProcess(directory)
    process.write("web.json", web(2))
    yield process
    process.close()


def web(count: int, name: str = "web", ip: str = WEB, node_port: int = 30080) -> list[objects.Object]:
    """Return a NodePort Service and its slice with ``count`` endpoints."""
    ports = [objects.port(80, "http", node_port=node_port)]
    addresses = [f"10.244.1.{number}" for number in range(1, count + 1)]
    return [
        objects.service(name, [ip], ports, kind="NodePort"),
        objects.piece(name, [objects.endpoint(address, NODE) for address in addresses], [objects.port(8080, "http")]),
    ]
