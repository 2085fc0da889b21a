# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the engine: reading and comparing large sets and chains, against the kernel's tools.

It also compares the engine's two ways to bind addresses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .report import Row

if TYPE_CHECKING:
    from .node import Node

MEMBERS, RULES, ADDRESSES, ROUNDS = 100_000, 2000, 1000, 7


def measure(node: Node) -> list[Row]:
    """Return the rows; leave the node's tables empty."""
    node.run("modprobe -a ip_set ip_set_hash_ip iptable_filter dummy")
    seconds = json.loads(node.python("reading.py", *map(str, (MEMBERS, RULES, ADDRESSES, ROUNDS))))
    return [
        Row(
            f"read and compare {MEMBERS:,} members of a set",
            "`ipset save`",
            seconds["sets"],
            seconds["ipset save"],
            bar=3,
        ),
        Row(f"read and compare {RULES:,} rules", "`iptables-save`", seconds["rules"], seconds["iptables-save"], bar=3),
        Row(
            f"bind {ADDRESSES:,} addresses by one local route",
            "the engine's own way to add them to a link",
            seconds["route"],
            seconds["addresses"],
            bar=0.1,
        ),
    ]
