# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as one HTML page that needs nothing but itself: no scripts, no fonts, no pictures from elsewhere."""

from __future__ import annotations

from html import escape

from .fleet import CHECKS, OK, VERDICTS, NodeReport
from .fleet_text import SIGNS

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #59636e; --paper: #fff; --line: #d1d9e0; --bar: #3572c6; --weak: #9ec1f0;
  --ok: #2da44e; --unknown: #8c959f; --drift: #bf8700; --refused: #cf222e; --unreachable: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --bar: #58a6ff; --weak: #1f4b85;
    --ok: #3fb950; --unknown: #6e7681; --drift: #d29922; --refused: #f85149; --unreachable: #a371f7; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } p, .facts { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: .3rem .6rem; text-align: left; border-bottom: 1px solid var(--line); }
thead th { font-weight: 500; color: var(--soft); vertical-align: bottom; } td.cell { text-align: center; }
.mark { display: inline-block; min-width: 1.5em; text-align: center; border-radius: .3em; color: var(--paper); font-weight: 700; }
.ok { background: var(--ok); } .unknown { background: var(--unknown); } .drift { background: var(--drift); }
.refused { background: var(--refused); } .unreachable { background: var(--unreachable); }
svg { display: block; } svg .ok { fill: var(--ok); } svg .unknown { fill: var(--unknown); } svg .drift { fill: var(--drift); }
svg .refused { fill: var(--refused); } svg .unreachable { fill: var(--unreachable); }
svg .servers { fill: var(--bar); } svg .draining { fill: var(--weak); }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem .8rem; } summary { cursor: pointer; }
li { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
"""


def page(reports: list[NodeReport], title: str = "IPVS nodes") -> str:
    """Return the page. Whatever comes from nodes is escaped."""
    counts = {verdict: sum(report.verdict == verdict for report in reports) for verdict in VERDICTS}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "none"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p>{len(reports)} nodes: {said}</p>",
        _share(counts, said),
        "<h2>Nodes and checks</h2>",
        _matrix(reports),
        f"<p>{' '.join(f'{_mark(verdict)} {verdict}' for verdict in VERDICTS)}</p>",
        "<h2>What they balance</h2>",
        _bars(reports),
        "<h2>What is not as wanted</h2>",
        *(_details(report) for report in reports if report.verdict != OK),
        "" if any(report.verdict != OK for report in reports) else "<p>Nothing.</p>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _mark(verdict: str) -> str:
    return f'<span class="mark {verdict}" title="{verdict}">{SIGNS[verdict]}</span>'


def _share(counts: dict[str, int], said: str) -> str:
    """Draw one bar that shows how many nodes have which verdict."""
    total, begin, parts = sum(counts.values()) or 1, 0.0, []
    for verdict, count in counts.items():
        if count:
            parts.append(
                f'<rect class="{verdict}" x="{begin:.2f}%" width="{100 * count / total:.2f}%" height="14"><title>{count} {verdict}</title></rect>'
            )
            begin += 100 * count / total
    return f'<svg width="100%" height="14" role="img" aria-label="{said}">{"".join(parts)}</svg>'


def _matrix(reports: list[NodeReport]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title, _key in CHECKS)
    rows = []
    for report in reports:
        cells = "".join(
            f'<td class="cell" title="{escape("; ".join(check.lines[:5]))}">{_mark(check.verdict)}</td>'
            for check in report.checks
        )
        name = escape(report.name)
        rows.append(f'<tr><th>{name}<br><span class="facts">{escape(report.facts)}</span></th>{cells}</tr>')
    return f'<div class="scroll"><table><thead><tr><th>node</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _bars(reports: list[NodeReport]) -> str:
    """Draw for each node how many virtual and real servers it has, to one scale a column."""
    known = [report for report in reports if report.servers is not None]
    if not known:
        return "<p>No table was read.</p>"
    tables = [report.servers for report in known if report.servers is not None]
    most = [max(1, *(table[index] for table in tables), 1) for index in (0, 1)]
    rows = []
    for report, (virtual, real, draining) in zip(known, tables):
        cells = (
            f"<td>{_bar([('servers', virtual)], most[0])}</td><td>{virtual}</td>"
            f"<td>{_bar([('servers', real - draining), ('draining', draining)], most[1])}</td><td>{real}</td><td>{draining}</td>"
        )
        rows.append(f"<tr><th>{escape(report.name)}</th>{cells}</tr>")
    head = '<th>node</th><th colspan="2">virtual servers</th><th colspan="2">real servers</th><th>of these, weight 0</th>'
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _bar(parts: list[tuple[str, int]], most: int) -> str:
    begin, drawn = 0.0, []
    for style, count in parts:
        width = 200 * count / most
        drawn.append(f'<rect class="{style}" x="{begin:.1f}" width="{width:.1f}" height="12"/>')
        begin += width
    return f'<svg width="200" height="12" aria-hidden="true">{"".join(drawn)}</svg>'


def _details(report: NodeReport) -> str:
    parts = []
    for check in report.checks:
        if check.verdict != OK and check.lines:
            lines = "".join(f"<li>{escape(line)}</li>" for line in check.lines)
            parts.append(f"<p>{_mark(check.verdict)} {escape(check.name)}</p><ul>{lines}</ul>")
    inside = "".join(parts) or "<p>No more is known.</p>"
    return f"<details open><summary>{_mark(report.verdict)} {escape(report.name)}</summary>{inside}</details>"
