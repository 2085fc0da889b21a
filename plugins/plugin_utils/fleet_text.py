# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet report as text for a terminal."""

from __future__ import annotations

from .fleet import CHECKS, OK, VERDICTS, NodeReport

SIGNS = dict(zip(VERDICTS, ".?~!X"))
MOST_LINES = 20


def text(reports: list[NodeReport]) -> str:
    """Return one line per node, and below it each check that is not ok."""
    width = max((len(report.name) for report in reports), default=4)
    lines = ["  ".join(f"{SIGNS[verdict]} {verdict}" for verdict in VERDICTS)]
    lines += [f"{'':{width}}  {'| ' * index}{title}" for index, (title, _key) in enumerate(CHECKS)]
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
    counts = [f"{sum(report.verdict == verdict for report in reports)} {verdict}" for verdict in VERDICTS]
    lines.append(f"{len(reports)} node{'' if len(reports) == 1 else 's'}: {', '.join(counts)}")
    return "\n".join(lines) + "\n"
