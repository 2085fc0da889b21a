# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet report as one self-contained HTML page: no scripts, no fonts, no pictures from elsewhere.

Nodes that need attention come first, the worst on top; then all nodes, one line each.
"""

from __future__ import annotations

from html import escape

from .fleet import CHECKS, OK, VERDICTS, Check, NodeReport
from .fleet_text import SIGNS

MOST_LINES = 12  # shown lines of one check; the others unfold
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #59636e; --paper: #fff; --card: #f6f8fa; --line: #d1d9e0;
  --bar: #3572c6; --weak: #9ec1f0; --more: #116329; --less: #a40e26; --other: #7d4e00;
  --ok: #2da44e; --unknown: #818b98; --drift: #9a6700; --failed: #cf222e; --unreachable: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --card: #151b23; --line: #3d444d;
    --bar: #58a6ff; --weak: #1f4b85; --more: #7ee787; --less: #ffa198; --other: #f2cc60;
    --ok: #3fb950; --unknown: #7d8590; --drift: #d29922; --failed: #f85149; --unreachable: #a371f7; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 96rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .7rem; } \
p, .soft { color: var(--soft); font-weight: 400; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; padding: 0; list-style: none; }
.tiles li { border: 1px solid var(--line); border-top: .25rem solid var(--colour, var(--soft)); border-radius: .4rem;
  padding: .3rem .8rem; min-width: 5rem; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.3; }
.ok { --colour: var(--ok); } .unknown { --colour: var(--unknown); } .drift { --colour: var(--drift); }
.failed { --colour: var(--failed); } .unreachable { --colour: var(--unreachable); }
svg { display: block; border-radius: .2rem; } svg rect { fill: var(--colour); }
svg .servers { fill: var(--bar); } svg .draining { fill: var(--weak); }
.mark { display: inline-block; width: 1.5em; text-align: center; border-radius: .3em; font-weight: 700;
  color: var(--paper); background: var(--colour); }
.mark.ok { color: var(--ok); background: none; }
article { background: var(--card); border: 1px solid var(--line); border-left: .3rem solid var(--colour); \
border-radius: .4rem;
  margin: .7rem 0; padding: .6rem 1rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; } h3 .soft { margin-left: .5rem; font-size: .85rem; }
h4 { font-size: .9rem; margin: .6rem 0 .2rem; } summary { cursor: pointer; color: var(--soft); font-size: .85rem; }
pre { font: .82rem/1.45 ui-monospace, monospace; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.more { color: var(--more); } .less { color: var(--less); } .other { color: var(--other); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child > * { border-bottom: 0; }
thead th { font-size: .8rem; font-weight: 500; color: var(--soft); background: var(--card); white-space: normal; \
vertical-align: bottom; }
tbody th { position: sticky; left: 0; background: var(--paper); font-weight: 600; } \
thead th.cell, td.cell { text-align: center; }
td.number { text-align: right; } .key { font-size: .85rem; }
.facts { font-size: .8rem; }
@media (max-width: 90rem) { .facts { display: none; } }
@media (max-width: 50rem) { tbody th { max-width: 9rem; overflow: hidden; text-overflow: ellipsis; } \
th, td { padding: .2rem .3rem; } }
"""


def page(reports: list[NodeReport], title: str = "IPVS nodes") -> str:
    """Return the page. All text from nodes is escaped."""
    counts = {verdict: sum(report.verdict == verdict for report in reports) for verdict in VERDICTS}
    worst_first = sorted(
        (report for report in reports if report.verdict != OK), key=lambda report: -VERDICTS.index(report.verdict)
    )
    parts = [
        "<!DOCTYPE html>",
        (
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,'
            ' initial-scale=1">'
        ),
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        _tiles(counts, len(reports)),
        _share(counts),
        "<h2>Nodes that need attention</h2>",
        *(_article(report) for report in worst_first),
        "" if worst_first else "<p>None: all nodes are converged.</p>" if reports else "<p>No node was checked.</p>",
        "<h2>All nodes</h2>",
        _table(reports),
        f'<p class="key">{" &nbsp; ".join(f"{_mark(verdict)} {verdict}" for verdict in VERDICTS)}</p>',
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _mark(verdict: str) -> str:
    return f'<span class="mark {verdict}" title="{verdict}">{"&#x2713;" if verdict == OK else SIGNS[verdict]}</span>'


def _tiles(counts: dict[str, int], total: int) -> str:
    tiles = [
        f'<li class="{verdict}"><b>{count}</b>{verdict}</li>'
        for verdict, count in counts.items()
        if count or verdict == OK
    ]
    return f'<ul class="tiles"><li><b>{total}</b>{"node" if total == 1 else "nodes"}</li>{"".join(tiles)}</ul>'


def _share(counts: dict[str, int]) -> str:
    """Draw one bar with the share of nodes of each verdict."""
    total, begin, parts = sum(counts.values()) or 1, 0.0, []
    for verdict, count in counts.items():
        if count:
            width = 100 * count / total
            parts.append(f'<rect class="{verdict}" x="{begin:.2f}%" width="{width:.2f}%" height="12"/>')
            begin += width
    label = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "none"
    return f'<svg width="100%" height="12" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _article(report: NodeReport) -> str:
    """Return a node's article: the steps that a run would do, or the reasons why it cannot."""
    checks = [check for check in report.checks if check.verdict != OK and check.lines]
    facts = f'<span class="soft">{escape(report.facts)}</span>' if report.facts else ""
    inside = "".join(map(_reasons, checks)) or "<p>No more is known.</p>"
    return (
        f'<article class="{report.verdict}"><h3>{_mark(report.verdict)} {escape(report.name)}'
        f" {facts}</h3>{inside}</article>"
    )


def _reasons(check: Check) -> str:
    lines = [_line(line) for line in check.lines]
    shown, others = "\n".join(lines[:MOST_LINES]), "\n".join(lines[MOST_LINES:])
    rest = (
        f"<details><summary>and {len(lines) - MOST_LINES} more</summary><pre>{others}</pre></details>" if others else ""
    )
    return f"<h4>{_mark(check.verdict)} {escape(check.name)}</h4><pre>{shown}</pre>{rest}"


def _line(line: str) -> str:
    """Return a line of a plan in the colour of its sign."""
    colour = {"+ ": "more", "- ": "less", "~ ": "other"}.get(line[:2])
    return f'<span class="{colour}">{escape(line)}</span>' if colour else escape(line)


def _table(reports: list[NodeReport]) -> str:
    """Draw all nodes: the verdict of each check, and bars for the numbers of servers, with one scale per column."""
    tables = [report.servers for report in reports if report.servers is not None]
    most = [max([1, *(table[index] for table in tables)]) for index in (0, 1)]
    head = "".join(f'<th class="cell">{escape(title)}</th>' for title, _key in CHECKS)
    counted = '<th colspan="2">virtual servers</th><th colspan="2">real servers</th><th>of weight 0</th>'
    head = f'<th>node</th>{head}{counted}<th class="facts">system</th>'
    rows = "".join(_row(report, most) for report in reports)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(report: NodeReport, most: list[int]) -> str:
    cells = "".join(
        f'<td class="cell" title="{escape("; ".join(check.lines[:5]))}">{_mark(check.verdict)}</td>'
        for check in report.checks
    )
    servers = '<td colspan="5"></td>'
    if report.servers is not None:
        virtual, real, draining = report.servers
        servers = (
            f"<td>{_bar([('servers', virtual)], most[0])}</td>"
            f'<td class="number">{virtual}</td>'
            f"<td>{_bar([('servers', real - draining), ('draining', draining)], most[1])}</td>"
            f'<td class="number">{real}</td><td class="number">{draining or ""}</td>'
        )
    facts = f'<td class="facts soft">{escape(report.facts)}</td>'
    return (
        f'<tr><th title="{escape(report.name)}:'
        f' {escape(report.facts)}">{escape(report.name)}</th>{cells}{servers}{facts}</tr>'
    )


def _bar(parts: list[tuple[str, int]], most: int) -> str:
    begin, drawn = 0.0, []
    for style, count in parts:
        width = 80 * count / most
        drawn.append(f'<rect class="{style}" x="{begin:.1f}" width="{width:.1f}" height="10"/>')
        begin += width
    return f'<svg width="80" height="10" aria-hidden="true">{"".join(drawn)}</svg>'
