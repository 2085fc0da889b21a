# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of an explanation: the verdict and the fault first, then each decision."""

from __future__ import annotations

from typing import Any

_MOST_TARGETS = 8


def lines(answer: dict[str, Any]) -> list[str]:
    """Return the lines of :func:`~kubenode.engine.explain.report.report`'s answer."""
    head = answer["flow"] + (f"   {answer['service']}" if answer["service"] else "")
    found = [head, f"{_VERDICTS[answer['verdict']]}: {answer['summary']}"]
    if answer["fault"] is not None:
        found.append(f"remedy: {answer['fault']['remedy']}")
    found.extend(f"not judged: {text}" for text in answer["doubts"])
    found.extend(f"not known: {text}" for text in answer["lacking"])
    found.append("")
    found.extend(_decisions(answer["decisions"], ""))
    for target in answer["targets"][:_MOST_TARGETS]:
        state = f"problem: {target['problem']}" if target["problem"] else "arrives, and its answer returns"
        found.append(f"-> {target['real_server']} weight {target['weight']}   sees {target['client']}   {state}")
        found.extend(_decisions(target["decisions"], "   "))
    if len(answer["targets"]) > _MOST_TARGETS:
        found.append(f"-> {len(answer['targets']) - _MOST_TARGETS} more real servers (--format json has all)")
    found.extend(f"-> {name} drains: weight 0, no new connections" for name in answer["draining"][:_MOST_TARGETS])
    for title, texts in answer["observed"].items():
        found.append(f"observed {title}: " + (texts if isinstance(texts, str) else "; ".join(texts) or "none"))
    return found


def _decisions(decisions: list[dict[str, str]], indent: str) -> list[str]:
    width = max((len(item["stage"]) for item in decisions), default=0)
    found = []
    for item in decisions:
        owner = f"   [{item['owner']}]" if item["owner"] else ""
        found.append(f"{indent}{item['stage']:{width}}  {item['text']}{owner}")
    return found


_VERDICTS = {"arrives": "arrives", "fault": "FAULT", "unknown": "cannot be judged"}
