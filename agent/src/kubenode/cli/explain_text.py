# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of an explanation: the verdict and the fault first, then each decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..engine.model.ipvs import endpoint

_MOST_TARGETS = 8
_MOST_PACKETS = 4  # of one way


def lines(answer: dict[str, Any]) -> list[str]:
    """Return the lines of :func:`~kubenode.engine.explain.report.report`'s answer."""
    head = answer["flow"] + (f"   {answer['service']}" if answer["service"] else "")
    printed = [head, f"{_VERDICTS[answer['verdict']]}: {answer['summary']}"]
    if answer["fault"] is not None:
        printed.append(f"remedy: {answer['fault']['remedy']}")
    printed.extend(f"not judged: {text}" for text in answer["doubts"])
    printed.extend(f"not known: {text}" for text in answer["lacking"])
    printed.append("")
    printed.extend(_decisions(answer["decisions"], ""))
    for target in answer["targets"][:_MOST_TARGETS]:
        state = f"problem: {target['problem']}" if target["problem"] else "arrives, and its answer returns"
        printed.append(f"-> {target['real_server']} weight {target['weight']}   sees {target['client']}   {state}")
        printed.extend(_decisions(target["decisions"], "   "))
    if len(answer["targets"]) > _MOST_TARGETS:
        printed.append(f"-> {len(answer['targets']) - _MOST_TARGETS} more real servers (--format json has all)")
    printed.extend(f"-> {name} drains: weight 0, no new connections" for name in answer["draining"][:_MOST_TARGETS])
    for title, texts in answer["observed"].items():
        if title != "trace":
            printed.append(f"observed {title}: " + (texts if isinstance(texts, str) else "; ".join(texts) or "none"))
    printed.extend(_trace(answer["observed"].get("trace")))
    return printed


def _trace(trace: dict[str, Any] | None) -> Iterator[str]:
    """Yield the lines of a trace: each way once, with the packets that took it."""
    if trace is None:
        return
    for note in trace["notes"]:
        yield f"observed trace: {note}"
    for packets in ways(trace["packets"]):
        yield ""
        yield f"observed {packets[0]['direction']}: {', '.join(map(packet_name, packets[:_MOST_PACKETS]))}"
        yield from _decisions(packets[0]["steps"], "   ")
        end, result = packets[0]["end"], packets[0]["result"]
        yield f"   {end}" if end == "dropped" else f"   {end}: {result}"


def ways(packets: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the packets by their ways, in the order of the first packet of each."""
    packets_of: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for packet in packets:
        steps = tuple((step["stage"], step["text"]) for step in packet["steps"])
        packets_of.setdefault((packet["direction"], packet["end"], packet["result"], steps), []).append(packet)
    return list(packets_of.values())


def packet_name(packet: dict[str, Any]) -> str:
    """Return for example ``tcp 10.0.0.9:40000 -> 10.96.0.10:53 on eth0 (SYN)``."""
    source = endpoint(packet["source"], packet["source_port"])
    link = f" on {packet['in_interface']}" if packet["in_interface"] else ""
    flags = f" ({packet['flags']})" if packet["flags"] else ""
    return f"{packet['protocol']} {source} -> {endpoint(packet['destination'], packet['port'])}{link}{flags}"


def _decisions(decisions: list[dict[str, str]], indent: str) -> list[str]:
    width = max((len(item["stage"]) for item in decisions), default=0)
    lines = []
    for item in decisions:
        owner = f"   [{item['owner']}]" if item["owner"] else ""
        lines.append(f"{indent}{item['stage']:{width}}  {item['text']}{owner}")
    return lines


_VERDICTS = {"arrives": "arrives", "fault": "FAULT", "unknown": "cannot be judged"}
