# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet report as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .fleet import CHECKS, OK, VERDICTS, NodeReport
from .fleet_runs import Changes

SIGNS = dict(zip(VERDICTS, ".?~!X"))
MOST_LINES = 20


def text(reports: list[NodeReport], changes: Changes | None = None, problems: Sequence[str] = ()) -> str:
    """Return one line per node, below it each check that is not ok; then the verdicts that changed since a run."""
    width = max((len(report.name) for report in reports), default=4)
    lines = ["  ".join(f"{SIGNS[verdict]} {verdict}" for verdict in VERDICTS)]
    titles = [check.name for check in reports[0].checks] if reports else [title for title, _key in CHECKS[:-1]]
    lines += [f"{'':{width}}  {'| ' * index}{title}" for index, title in enumerate(titles)]
    for report in reports:
        signs = " ".join(SIGNS[check.verdict] for check in report.checks)
        servers = f", {report.servers[0]} virtual servers, {report.servers[1]} real servers" if report.servers else ""
        lines.append(
            f"{report.name:{width}}  {signs}  {report.verdict}{'; ' if report.facts else ''}{report.facts}{servers}"
        )
        for check in report.checks:
            if check.verdict != OK:
                lines += [
                    f"{'':{width}}    {SIGNS[check.verdict]} {check.name}: {line}" for line in check.lines[:MOST_LINES]
                ]
                if len(check.lines) > MOST_LINES:
                    lines.append(f"{'':{width}}      and {len(check.lines) - MOST_LINES} more")
    lines += problems
    if changes is not None:
        moved = [f"{node.name} {node.before} -> {node.now}" for node in changes.nodes if node.before != node.now]
        rest = f" and {len(moved) - MOST_LINES} more" if len(moved) > MOST_LINES else ""
        lines.append(f"changed since {changes.time}: {', '.join(moved[:MOST_LINES]) or 'no verdict'}{rest}")
    counts = [f"{sum(report.verdict == verdict for report in reports)} {verdict}" for verdict in VERDICTS]
    lines.append(f"{len(reports)} node{'' if len(reports) == 1 else 's'}: {', '.join(counts)}")
    return "\n".join(lines) + "\n"
