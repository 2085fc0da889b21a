# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of `kubenode render` for a large cluster, on this machine: time and memory of the whole process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.paths import ROOT

from .objects import NODE, as_list, cluster
from .report import Row

if TYPE_CHECKING:
    from .node import Node

ROUNDS = 5
SERVICES, ENDPOINTS = 10_000, 10


def _run(objects: Path, output: Path) -> tuple[float, float]:
    """Render once; return seconds and the largest resident memory in MiB."""
    command = [
        sys.executable,
        "-S",
        "-m",
        "kubenode",
        "render",
        "--objects",
        str(objects),
        "--node",
        NODE,
        "--node-address",
        "10.77.0.11",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent" / "src")}
    began = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"kubenode render: status {process.returncode}")
    return seconds, usage.ru_maxrss / 1024


def measure(_: Node) -> list[Row]:
    """Return the rows; the node is not used."""
    with tempfile.TemporaryDirectory() as directory:
        objects, output = Path(directory) / "objects.json", Path(directory) / "state.json"
        objects.write_text(json.dumps(as_list(cluster(SERVICES, ENDPOINTS))))
        samples = [_run(objects, output) for _ in range(ROUNDS + 1)][1:]
        made = len(json.loads(output.read_text())["virtual_servers"])
    if made < SERVICES:
        raise RuntimeError(f"kubenode render: {made} virtual servers of {SERVICES} services")
    of = f"`kubenode render`, {SERVICES:,} services x {ENDPOINTS} endpoints, from objects to JSON, on this machine"
    return [
        Row(of, "", [seconds for seconds, _ in samples], bar=3),
        Row(f"{of}: memory", "", [memory for _, memory in samples], bar=300, unit="MiB"),
    ]
