# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet report as one self-contained HTML page: no fonts, no pictures, no scripts from elsewhere.

``templates/fleet.html.j2`` has the page. Jinja2 escapes all text. The page's own policy (CSP) lets the browser run and
use only the script and the style of this collection, and make no request.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2

from .fleet import CHECKS, OK, VERDICTS, Check, NodeReport
from .fleet_runs import Changes, Run, compare, present
from .fleet_text import SIGNS

MOST_LINES = 12  # shown lines of one check; the next ones unfold
MOST_FOLDED = 200  # lines of one check that unfold; fleet.json has all
MOST_CHANGES = 200  # nodes in the list of changes
_TEMPLATES = Path(__file__).parent / "templates"
_HEIGHT = 100  # of the plot, in units of its own
_BAR = 60  # width of the longest bar of a table


class Column(NamedTuple):
    """One run in the plot: its time, its counts, and the parts of its bar as (verdict, y, height)."""

    time: str
    counts: dict[str, int]
    parts: list[tuple[str, float, float]]


class Row(NamedTuple):
    """Row of one node; ``bars`` are the widths for its virtual servers, and for its real servers by weight."""

    report: NodeReport
    bars: tuple[float, float, float] | None


def page(
    reports: list[NodeReport], runs: list[Run] | None = None, problems: list[str] | None = None, time: str = ""
) -> str:
    """Return the page. ``runs`` are the kept runs, oldest first; ``problems`` name those that cannot be read."""
    style, script = _text("fleet.css"), _text("fleet.js")
    now = present(reports, time)
    return _template().render(
        changes=_shortened(compare(runs[-1], now)) if runs else None,
        checks=[check.name for check in reports[0].checks] if reports else [title for title, _key in CHECKS[:-1]],
        columns=plot([*(runs or ()), now]),
        counts=now.counts,
        folded=MOST_FOLDED,
        ok=OK,
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action"
        " 'none'",
        problems=problems or (),
        rows=_rows(reports),
        script=script,
        shown=MOST_LINES,
        signs={**SIGNS, OK: "\N{CHECK MARK}"},
        style=style,
        time=time,
        verdicts=VERDICTS,
        worst_first=sorted(
            (report for report in reports if report.verdict != OK), key=lambda report: -VERDICTS.index(report.verdict)
        ),
    )


@cache
def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["sign_of"] = sign_of
    environment.filters["reasons"] = reasons
    return environment.get_template("fleet.html.j2")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def sign_of(line: str) -> str:
    """Return the style of a plan's line by its sign, "" for any other line."""
    return {"+ ": "more", "- ": "less", "~ ": "other"}.get(line[:2], "")


def reasons(report: NodeReport) -> list[Check]:
    """Return the checks of a node that have something to say: those that are not ok and have lines."""
    return [check for check in report.checks if check.verdict != OK and check.lines]


def plot(runs: list[Run]) -> list[Column]:
    """Return the columns of the plot: the nodes that are not ok, by verdict, with one scale for all runs."""
    bad = [verdict for verdict in reversed(VERDICTS) if verdict != OK]
    most = max([1, *(sum(run.counts[verdict] for verdict in bad) for run in runs)])
    columns = []
    for run in runs:
        y, parts = float(_HEIGHT), []
        for verdict in bad:
            height = _HEIGHT * run.counts[verdict] / most
            y -= height
            if height:
                parts.append((verdict, round(y, 2), round(height, 2)))
        columns.append(Column(run.time, run.counts, parts))
    return columns


def _rows(reports: list[NodeReport]) -> list[Row]:
    tables = [report.servers for report in reports if report.servers is not None]
    virtual_most, real_most = (max([1, *(table[index] for table in tables)]) for index in (0, 1))
    rows = []
    for report in reports:
        bars = None
        if report.servers is not None:
            virtual, real, draining = report.servers
            bars = (
                _BAR * virtual / virtual_most,
                _BAR * (real - draining) / real_most,
                _BAR * draining / real_most,
            )
        rows.append(Row(report, bars))
    return rows


def _shortened(changes: Changes) -> tuple[Changes, int]:
    """Return the changes with at most ``MOST_CHANGES`` nodes, and the number of others."""
    return changes._replace(nodes=changes.nodes[:MOST_CHANGES]), max(0, len(changes.nodes) - MOST_CHANGES)
