# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the agent on clusters of growing size, without kube-proxy (see ``kube_proxy.py``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .report import Row

if TYPE_CHECKING:
    from .node import Node

ENDPOINTS = 5


class Size(NamedTuple):
    """Size of a cluster, the number of samples of each kind, and the bars."""

    services: int
    starts: int
    events: int
    steady: int = 0  # seconds
    cold_bar: float | None = None
    event_bar: float | None = None
    cpu_bar: float | None = None
    memory_bar: float | None = None


SIZES = (
    Size(100, 5, 7, 60),
    Size(200, 5, 7, cold_bar=4),
    Size(202, 5, 7, cold_bar=3, event_bar=0.1),
    Size(1002, 5, 7, 60, cold_bar=8, event_bar=0.1, cpu_bar=1, memory_bar=60),
    Size(10000, 1, 7, 60),
)


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    rows: dict[str, list[Row]] = {"cold": [], "event": [], "cpu": [], "memory": []}
    for size in SIZES:
        arguments = (size.services, ENDPOINTS, size.starts, size.events, size.steady)
        result = json.loads(node.python("agent.py", *map(str, arguments)))
        of = f"{size.services:,} services x {ENDPOINTS} endpoints"
        rows["cold"].append(Row(f"cold start to everything in place, {of}", "", result["cold"], bar=size.cold_bar))
        rows["event"].append(
            Row(f"an endpoint is added, until IPVS has it, {of}", "", result["event"], bar=size.event_bar)
        )
        if size.steady:
            cpu, memory = [result["cpu_per_minute"]], [result["memory"]]
            rows["cpu"].append(Row(f"CPU in a minute in which nothing changes, {of}", "", cpu, bar=size.cpu_bar))
            rows["memory"].append(
                Row(f"resident memory at its largest, {of}", "", memory, bar=size.memory_bar, unit="MiB")
            )
    return [row for group in rows.values() for row in group]
