# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of writes and reads of the IPVS table, against ipvsadm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .report import Row

if TYPE_CHECKING:
    from .node import Node

ROUNDS = 7
SERVERS, REAL_SERVERS = 1000, 5


def measure(node: Node) -> list[Row]:
    """Return the rows; leave the table empty."""
    seconds = json.loads(node.python("tables.py", str(SERVERS), str(REAL_SERVERS), str(ROUNDS)))
    size = f"{SERVERS:,} virtual servers x {REAL_SERVERS} real servers"
    return [
        Row(
            f"write {size} into an empty table",
            "`ipvsadm --restore` of the same",
            seconds["write"],
            seconds["restore"],
            bar=0.75,
        ),
        Row(
            "read the same table into the model",
            "`ipvsadm --save --numeric`",
            seconds["read"],
            seconds["save"],
            bar=0.2,
        ),
    ]
