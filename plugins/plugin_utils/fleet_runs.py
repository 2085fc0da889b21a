# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kept runs of the playbook verify: read them, and compare the last one with the present report.

A kept run is the report as JSON (:func:`~.fleet.as_data`) in a file of the name ``20261124T124118Z.json``. Files of
other names belong to others. A file that cannot be read costs only itself.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from .fleet import OK, UNREACHABLE, VERDICTS, NodeReport

_NAME = re.compile(r"\d{8}T\d{6}Z\.json")
_MOST_LINES = 12  # lines that came or went, of one check
UNREADABLE = "kept run {name} cannot be read: {reason}"


class Run(NamedTuple):
    """One run: its time, the number of nodes by verdict, and by node and check the verdict with its lines."""

    time: str
    counts: dict[str, int]
    nodes: dict[str, tuple[str, dict[str, tuple[str, tuple[str, ...]]]]]


class NodeChange(NamedTuple):
    """Difference of one node: its verdicts before and now, and what changed, one line each."""

    name: str
    before: str
    now: str
    lines: tuple[str, ...]


class Changes(NamedTuple):
    """Differences from the run at ``time``; ``added`` and ``missing`` are nodes of only one of both runs."""

    time: str
    nodes: tuple[NodeChange, ...]
    added: tuple[str, ...]
    missing: tuple[str, ...]


def read(directory: str) -> tuple[list[Run], list[str]]:
    """Return the kept runs, oldest first, and a sentence for each file that cannot be read."""
    runs, problems = [], []
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    except OSError:  # the first run
        return [], []
    for name in names:
        try:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                runs.append(_run(json.load(file)))
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problems.append(UNREADABLE.format(name=name, reason=reason))
    return runs, problems


def _run(data: Any) -> Run:
    """Return a run from the JSON of a report.

    Raises:
        ValueError: the JSON is not a report.
    """
    try:
        nodes = {
            str(node["name"]): (
                _verdict(node["verdict"]),
                {
                    str(check["name"]): (_verdict(check["verdict"]), tuple(map(str, check["lines"])))
                    for check in node["checks"]
                },
            )
            for node in data["nodes"]
        }
        return Run(str(data["time"]), _counts(verdict for verdict, _checks in nodes.values()), nodes)
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is no report of verify ({error!r})") from error


def _verdict(text: Any) -> str:
    if text not in VERDICTS:
        raise ValueError(f"verdict is {text!r}, expected one of {', '.join(VERDICTS)}")
    return str(text)


def _counts(verdicts: Any) -> dict[str, int]:
    counts = dict.fromkeys(VERDICTS, 0)
    for verdict in verdicts:
        counts[verdict] += 1
    return counts


def present(reports: list[NodeReport], time: str) -> Run:
    """Return the present report as a run."""
    nodes = {
        report.name: (report.verdict, {check.name: (check.verdict, check.lines) for check in report.checks})
        for report in reports
    }
    return Run(time, _counts(report.verdict for report in reports), nodes)


def compare(before: Run, now: Run) -> Changes:
    """Return what changed between two runs; nodes that became worse come first, the worst on top."""
    changed = []
    for name, (verdict, checks) in now.nodes.items():
        if name in before.nodes:
            former, former_checks = before.nodes[name]
            lines = () if UNREACHABLE in (former, verdict) else _lines(former_checks, checks)
            if lines or former != verdict:
                changed.append(NodeChange(name, former, verdict, lines))
    changed.sort(key=lambda node: (-VERDICTS.index(node.now), VERDICTS.index(node.before)))
    return Changes(
        before.time,
        tuple(changed),
        tuple(name for name in now.nodes if name not in before.nodes),
        tuple(name for name in before.nodes if name not in now.nodes),
    )


def _lines(
    before: dict[str, tuple[str, tuple[str, ...]]], now: dict[str, tuple[str, tuple[str, ...]]]
) -> tuple[str, ...]:
    """Return the checks that have another verdict, and for checks that are not ok the reasons that came and went."""
    changes = []
    for name, (verdict, lines) in now.items():
        former, former_lines = before.get(name, (verdict, lines))
        if former != verdict:
            changes.append(f"{name}: {former} \N{RIGHTWARDS ARROW} {verdict}")
        shown = [f"gone: {line}" for line in former_lines if former != OK and line not in lines]
        shown += [f"new: {line}" for line in lines if verdict != OK and line not in former_lines]
        changes += [f"{name}: {line}" for line in shown[:_MOST_LINES]]
        if len(shown) > _MOST_LINES:
            changes.append(f"{name}: {len(shown) - _MOST_LINES} more differences")
    return tuple(changes)


def changes_as_data(changes: Changes | None) -> dict[str, Any] | None:
    """Return the changes as data for JSON; None for the first run."""
    if changes is None:
        return None
    return {
        "since": changes.time,
        "nodes": [
            {"name": node.name, "before": node.before, "now": node.now, "lines": list(node.lines)}
            for node in changes.nodes
        ],
        "added": list(changes.added),
        "missing": list(changes.missing),
    }
