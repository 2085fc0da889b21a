# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the agent's health checks beside 200 abusive clients, all on the node's one processor."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING

from .report import Row

if TYPE_CHECKING:
    from .node import Node

PROBES = 400
CLIENTS = 200
_BAR = 0.25


def percentile(seconds: list[float], share: float) -> float:
    """Return a percentile: the value that ``share`` of the values do not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    rows = []
    for clients, bar in ((0, None), (CLIENTS, _BAR)):
        result = json.loads(node.python("health_checks.py", str(PROBES), str(clients)))
        seconds, refused = result["seconds"], len(result["refused"])
        what = f"an answer to `/healthz`, with {clients} abusive clients"
        note = (
            f"{len(seconds)} probes; median {1000 * median(seconds):.0f} ms, most {1000 * max(seconds):.0f} ms, refused"
            f" {refused}"
        )
        rows.append(Row(f"{what}: 99th percentile", "", [percentile(seconds, 0.99)], bar=bar, note=note))
        rows.append(Row(f"{what}: refused probes", "", [refused], bar=0 if clients else None, unit=f"of {PROBES}"))
    return rows
