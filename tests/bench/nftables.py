# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the agent's rules in tables of nftables, against iptables rules and IP sets of the same agent.

BENCH_NFTABLES_SERVICES is the largest number of Services, by default all sizes. BENCH_NFTABLES_ROUNDS is the largest
number of cold starts and of turns of endpoint changes of each back end, by default all.
"""

from __future__ import annotations

import json
import os
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from .report import Row

if TYPE_CHECKING:
    from .node import Node

ENDPOINTS = 5
CHANGES = 24  # of endpoints in a turn of each size: the first ones after a rest take longer
ELEMENTS = 100_000
ROUNDS = 7
PATIENCE = 7200.0  # seconds; 10,000 Services take an hour of an emulated kernel


class Size(NamedTuple):
    """Number of Services, and the samples for each back end.

    A machine is quicker in some minutes than in others. So turns are many and short.
    """

    services: int
    starts: int  # cold ones
    turns: int  # of CHANGES endpoints each
    steady: int = 0  # seconds without changes after each start


LARGEST = int(os.environ.get("BENCH_NFTABLES_SERVICES", "10000"))
MOST_ROUNDS = int(os.environ.get("BENCH_NFTABLES_ROUNDS", "1000"))
_ALL = (
    Size(100, starts=10, turns=24),
    Size(1002, starts=10, turns=24),
    Size(10000, starts=4, turns=20, steady=60),
)
SIZES = tuple(size for size in _ALL if size.services <= LARGEST)
FLAT_BAR = 1.2
TRAFFIC = tuple(size for size in ((10, 2000), (10000, 2000)) if size[0] <= LARGEST)  # Services, connections of a round


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the agent made."""
    against = f"the same with `{node.run('iptables --version').strip()}` and IP sets"
    rows: dict[str, list[Row]] = {"cold": [], "event": [], "cpu": [], "memory": []}
    events: dict[int, list[float]] = {}
    for size in SIZES:
        starts, turns = min(size.starts, MOST_ROUNDS), min(size.turns, MOST_ROUNDS)
        arguments = (size.services, ENDPOINTS, starts, size.steady, turns, CHANGES)
        result = json.loads(node.python("backends.py", *map(str, arguments), timeout=PATIENCE))
        ours, theirs = result["nftables"], result["iptables"]
        of = f"{size.services:,} services x {ENDPOINTS} endpoints"
        bar = 1.0 if size.services > 1000 else None
        rows["cold"].append(
            Row(f"cold start to everything in place, {of}", against, ours["cold"], theirs["cold"], bar=bar)
        )
        rows["event"].append(
            Row(
                f"an endpoint is added, until the kernel has all of it, {of}",
                against,
                ours["event"],
                theirs["event"],
                bar=1.0,
                turns=turns,
            )
        )
        events[size.services] = ours["event"]
        if size.steady:
            rows["cpu"].append(
                Row(f"CPU in a minute in which nothing changes, {of}", against, ours["cpu"], theirs["cpu"], bar=1.0)
            )
        note = f"{median(ours['memory']):.1f} MiB with nftables, {median(theirs['memory']):.1f} MiB with iptables"
        more = [median(ours["memory"]) - median(theirs["memory"])]
        rows["memory"].append(
            Row(
                f"resident memory at its largest, more than with iptables, {of}", "", more, bar=3, unit="MiB", note=note
            )
        )
    small, large = SIZES[0], SIZES[-1]
    if large is not small:
        rows["event"].append(
            Row(
                f"the same at {large.services:,} services",
                f"the same at {small.services:,} services",
                events[large.services],
                events[small.services],
                bar=FLAT_BAR,
                turns=min(small.turns, large.turns, MOST_ROUNDS),
            )
        )
    return [row for group in rows.values() for row in group] + _elements(node) + _traffic(node, against)


def _elements(node: Node) -> list[Row]:
    seconds = json.loads(node.python("elements.py", str(ELEMENTS), str(ROUNDS)))
    what = f"{ELEMENTS:,} members of a set"
    return [
        Row(f"{what} in one transaction", "`nft -f` of the same", seconds["write"], seconds["nft -f"], bar=1.5),
    ]


def _traffic(node: Node, against: str) -> list[Row]:
    rows = []
    for services, connections in TRAFFIC:
        result = json.loads(
            node.python("first_packets.py", str(services), str(ROUNDS), str(connections), timeout=PATIENCE)
        )
        ours, theirs = result["nftables"], result["iptables"]
        of = f"{services:,} services"
        rate, other = 1 / median(ours["connect"]), 1 / median(theirs["connect"])
        note = f"{rate:,.0f} a second with nftables, {other:,.0f} with iptables"
        rows += [
            Row(
                f"a new TCP connection through a cluster IP, {of}",
                against,
                ours["connect"],
                theirs["connect"],
                bar=1.03,
                note=note,
            ),
            Row(
                f"the first UDP packet of a flow through a cluster IP, {of}",
                against,
                ours["first"],
                theirs["first"],
                bar=1.03,
            ),
        ]
    return rows
