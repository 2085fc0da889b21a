# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of a large cluster whose endpoints change all the time.

It measures changes without a kernel, on this machine, and in the whole agent, on the node.

BENCH_SCALE_SECONDS is the duration, by default 30 seconds. The figures in docs/explanation/scale.md are of 300.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from lab.paths import ROOT

from .report import Row, value

if TYPE_CHECKING:
    from .node import Node

SERVICES, ENDPOINTS, RATE = 5_000, 20, 50
BAR = 1.0  # seconds, at the 99th percentile


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    seconds = int(os.environ.get("BENCH_SCALE_SECONDS", "30"))
    arguments = [str(number) for number in (SERVICES, ENDPOINTS, RATE, seconds)]
    path = os.pathsep.join((str(ROOT / "agent/src"), str(ROOT / "tests/bench")))
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/kernel_free.py", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    of = f"{RATE} endpoint changes a second for {seconds} s, {SERVICES:,} services x {ENDPOINTS} endpoints"
    rows = _rows(json.loads(done.stdout), f"{of}, until planned and packed (no kernel, this machine)")
    return rows + _rows(json.loads(node.python("scale.py", *arguments)), f"{of}, until IPVS has them (the node)")


def _rows(result: dict[str, Any], of: str) -> list[Row]:
    latency: list[float] = result["latency"]
    last = quantiles(latency, n=100)[98]
    note = (
        f"99th percentile of {len(latency):,} changes; median {value(median(latency), 's')}, most"
        f" {value(max(latency), 's')}"
    )
    rows = [
        Row(of, "", [last], bar=BAR, note=note),
        Row(f"{of}: CPU in a minute", "", [60 * result["cpu"]], unit="s"),
        Row(f"{of}: memory", "", [result["memory"]], unit="MiB"),
    ]
    if "own" in result:
        rows.append(
            Row(f"{of}: CPU in a minute of the bench itself, on the same processor", "", [60 * result["own"]], unit="s")
        )
    return rows
