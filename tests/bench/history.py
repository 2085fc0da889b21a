# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the history at 50 changes a second, on this machine: processor time, room, and how far it reaches back.

BENCH_HISTORY_SECONDS is the duration of each run, by default 30 seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from lab.paths import ROOT

from .report import Row

if TYPE_CHECKING:
    from .node import Node

ROUNDS = 3
RATE = 50  # changes a second
SIZES = (1_000, 10_000)  # Services of a checkpoint
BAR = 1.0  # percent of a processor
RING, LOG = 16 << 20, 1 << 20  # bytes; two logs of this size are kept free


def _run(what: str, number: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "tests/bench/recording.py"), what, number]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


def measure(_: Node) -> list[Row]:
    """Return the rows; the node is not used."""
    seconds = os.environ.get("BENCH_HISTORY_SECONDS", "30")
    pairs = [(_run("without", seconds), _run("with", seconds)) for _round in range(ROUNDS)]
    sealed = [run["sealed"] for _without, run in pairs]
    hours = [(RING - 2 * LOG) / (RATE * size) / 3600 for size in sealed]
    of = f"the history at {RATE} changes a second (no kernel, this machine)"
    share = [run["percent"] - without["percent"] for without, run in pairs]
    own = [run["own"] for _without, run in pairs]
    rows = [
        Row(f"{of}: processor time of its code", "", own, bar=BAR, unit="%", note="with the compression of full logs"),
        Row(f"{of}: processor time more than without it", "", share, unit="%"),
        Row("the agent without it: processor time", "", [each["percent"] for each, _run_ in pairs], unit="%"),
        Row(f"{of}: room of a change with its pass, in a log", "", [run["log"] for _, run in pairs], unit="bytes"),
        Row(f"{of}: the same in a sealed log", "", sealed, unit="bytes"),
        Row(f"{of}: time for which 16 MiB suffice", "", hours, unit="h"),
    ]
    for services in SIZES:
        result = _run("checkpoint", str(services))
        what = f"a checkpoint of {services:,} Services ({result['items']:,} items)"
        rows.append(Row(what, "", [result["bytes"] / 1024], unit="KiB"))
        rows.append(Row(f"{what}: processor time", "", [result["seconds"]]))
    return rows
