# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of `kubenode explain` beside a running agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .report import Row

if TYPE_CHECKING:
    from .node import Node

SIZES = (10, 1002)  # Services
ENDPOINTS = 5
TIMES = 5  # explanations of each of three flows
_BAR = 1.0


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    rows = []
    for services in SIZES:
        result = json.loads(node.python("explain.py", str(services), str(ENDPOINTS), str(TIMES)))
        bar = _BAR if services == SIZES[-1] else None
        note = f"{len(result['wall'])} explanations; verdicts {', '.join(sorted(set(result['verdicts'])))}"
        what = f"`kubenode explain` at {services:,} Services"
        rows.append(Row(what, "", result["wall"], bar=bar, note=note))
        rows.append(Row(f"{what}: processor time", "", result["cpu"]))
    return rows
