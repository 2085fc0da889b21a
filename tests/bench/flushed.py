# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the repair of the agent's tables after another process has flushed the whole ruleset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .report import Row

if TYPE_CHECKING:
    from .node import Node

ENDPOINTS = 5
SERVICES = (100, 1002, 10000)
ROUNDS = 7


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    rows = []
    for services in SERVICES:
        seconds = json.loads(node.python("flushed.py", str(services), str(ENDPOINTS), str(ROUNDS), timeout=3600))
        of = f"{services:,} services x {ENDPOINTS} endpoints"
        rows.append(Row(f"`nft flush ruleset` until the agent's tables are whole again, {of}", "", seconds, bar=1))
    return rows
