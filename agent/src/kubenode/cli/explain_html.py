# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTML page for an explanation: the path drawn, the fault, and each decision. It makes no request to anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from string import Template
from typing import Any

from .explain_text import packet_name, ways

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ground: #fff; --text: #1d2733; --line: #c5ced8; --soft: #f2f5f8;
  --good: #11703b; --bad: #b3261e; --unsure: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --text: #e3e8ee; --line: #3b4754; --soft: #1d232a;
  --good: #6fd39a; --bad: #ff8a80; --unsure: #ffc46b; } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--ground); color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
.verdict { padding: .7rem 1rem; border-left: .4rem solid; background: var(--soft); overflow-wrap: anywhere; }
.arrives { border-color: var(--good); } .fault { border-color: var(--bad); } .unknown { border-color: var(--unsure); }
svg { width: 100%; height: auto; max-height: 40rem; }
svg rect { fill: var(--soft); stroke: var(--line); } svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
svg path { fill: none; stroke: var(--line); stroke-width: 2; }
svg .good { stroke: var(--good); } svg .bad { stroke: var(--bad); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { white-space: nowrap; font-weight: 600; }
</style>
</head>
<body>
<h1>$title</h1>
<div class="verdict $verdict"><strong>$word</strong> $summary$remedy</div>
$drawing
<h2>Decisions</h2>
<table>$decisions</table>
$targets
$trace
$notes
</body>
</html>""")
_WORDS = {"arrives": "Arrives:", "fault": "Fault:", "unknown": "Cannot be judged:"}
_MOST = 12  # real servers in the drawing
_ROW = 46


def page(answer: dict[str, Any]) -> str:
    """Return the page for :func:`~kubenode.engine.explain.report.report`'s answer."""
    remedy = f"<br><strong>Remedy:</strong> {escape(answer['fault']['remedy'])}" if answer["fault"] else ""
    notes = [("Not judged", answer["doubts"]), ("Not known", answer["lacking"])]
    notes += [
        (f"Observed: {title}", [texts] if isinstance(texts, str) else texts)
        for title, texts in answer["observed"].items()
        if title != "trace"
    ]
    trace = answer["observed"].get("trace", {"packets": [], "notes": []})
    notes.append(("Observed: trace", trace["notes"]))
    return _PAGE.substitute(
        title=escape(f"{answer['flow']} {answer['service']}".strip()),
        verdict=answer["verdict"],
        word=_WORDS[answer["verdict"]],
        summary=escape(answer["summary"]),
        remedy=remedy,
        drawing=_drawing(answer),
        decisions=_rows((item["stage"], item["text"], item["owner"]) for item in answer["decisions"]),
        targets="".join(_target(target) for target in answer["targets"]),
        trace="".join(_way(packets) for packets in ways(trace["packets"])),
        notes="".join(f"<h2>{escape(title)}</h2><p>{escape('; '.join(texts))}</p>" for title, texts in notes if texts),
    )


def _rows(rows: Iterable[tuple[str, str, str]]) -> str:
    return "".join(
        f"<tr><th>{escape(stage)}</th><td>{escape(text)}</td><td>{escape(owner)}</td></tr>"
        for stage, text, owner in rows
    )


def _way(packets: list[dict[str, Any]]) -> str:
    """Return the section of packets that took one way."""
    first = packets[0]
    more = f" and {len(packets) - 1} more" if len(packets) > 1 else ""
    rows = _rows((item["stage"], item["text"], item["owner"]) for item in first["steps"])
    title = f"Observed {first['direction']}: {packet_name(first)}{more}"
    return f"<h2>{escape(title)}</h2><p>{escape(first['end'])}: {escape(first['result'])}</p><table>{rows}</table>"


def _target(target: dict[str, Any]) -> str:
    title = f"{target['real_server']}, weight {target['weight']}, sees {target['client']}"
    state = f"<p>{escape(target['problem'])}</p>" if target["problem"] else ""
    rows = _rows((item["stage"], item["text"], item["owner"]) for item in target["decisions"])
    return f"<h2>Real server {escape(title)}</h2>{state}<table>{rows}</table>"


def _drawing(answer: dict[str, Any]) -> str:
    """Return the path as SVG: client, node and virtual server, and a line to each real server."""
    targets = answer["targets"][:_MOST]
    height = max(len(targets), 1) * _ROW + 30
    middle = height // 2
    arrives = answer["verdict"] == "arrives"
    server = f"{answer['destination']} port {answer['port']}"
    parts = [
        *_box(10, middle, answer["source"] or "the node", "client"),
        *_box(360, middle, server, answer["service"] or "virtual server"),
        f'<path class="{"good" if arrives or targets else "bad"}" d="M250 {middle} H360"/>',
    ]
    for number, target in enumerate(targets):
        y = 15 + number * _ROW + _ROW // 2
        colour = "bad" if target["problem"] else "good"
        parts.append(f'<path class="{colour}" d="M600 {middle} C660 {middle} 650 {y} 710 {y}"/>')
        parts.extend(_box(710, y, target["real_server"], f"sees {target['client']}"))
    if not targets:
        parts.append(f'<path class="bad" d="M600 {middle} H700 M690 {middle - 10} l20 20 M710 {middle - 10} l-20 20"/>')
    label = escape(f"{answer['flow']}: {answer['summary']}")
    return f'<svg viewBox="0 0 960 {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _box(x: int, y: int, title: str, below: str) -> Iterator[str]:
    yield f'<rect x="{x}" y="{y - 20}" width="240" height="40" rx="5"/>'
    yield f'<text x="{x + 8}" y="{y - 3}">{escape(title[:34])}</text>'
    yield f'<text x="{x + 8}" y="{y + 14}">{escape(below[:36])}</text>'
