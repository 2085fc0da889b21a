# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Description of the measured machine and node."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

_PEERS = Path(os.environ.get("BENCH_PEERS", ".cache/peers")) / "ansible_collections"


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, text = line.partition(":")
        if name.strip() == key:
            return text.strip()
    return "unknown"


def _memory() -> int:
    return int(_first("/proc/meminfo", "MemTotal").split()[0])  # KiB


def _peer(path: str) -> str:
    info = json.loads((_PEERS / path / "MANIFEST.json").read_text())["collection_info"]
    return f"{info['namespace']}.{info['name']} {info['version']}"


def describe(node: Node) -> dict[str, str]:
    """Return the description, name to text."""
    (ipvsadm,) = node.run("ipvsadm --version").splitlines()[:1]
    ansible = subprocess.run(["ansible", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[
        0
    ]
    return {
        **describe_run(node),
        "peers": ", ".join(
            ["ipvsadm " + ipvsadm.split()[1], ansible, _peer("ansible/posix"), _peer("community/general")]
        ),
    }


def describe_run(node: Node) -> dict[str, str]:
    """Return the description without the peers."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    python, version = node.run("python3 -V; uname -r").splitlines()[:2]
    kernel = node.kernel.summary() if node.kernel.version() else f"Linux {version}, {node.kernel.summary()}"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit or "not a git checkout",
        "machine": f"{_first('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores, {_memory() >> 10} MiB of memory, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}",
        "load": f"{os.getloadavg()[1]:.1f} processes on average in the five minutes before",
        "node": f"{kernel}, one CPU, {node.memory} of memory, Debian {node.release}, {python}",
    }
