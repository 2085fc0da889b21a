# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the history as text, and as one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ..engine.model.step import plain
from ..history.files import Names
from ..history.records import (
    Alive,
    Content,
    Ended,
    Lost,
    Passed,
    Problems,
    Record,
    Started,
    StepLine,
    Trouble,
    Wanted,
    resolved,
)
from ..history.replay import Attribution, is_gap
from .history_time import shown

_MOST = 50  # lines of one kind below a record


class Printer:
    """Prints records. ``service`` limits them to one Service; ``names`` are those before the first record."""

    def __init__(self, form: str, service: str | None, names: Names) -> None:
        self.has_gaps = False
        self._json = form == "json"
        self._service = service
        self._attribution = Attribution(names)
        self._before: Record | None = None
        self._change: Wanted | None = None
        self._idle = 0  # full comparisons without anything to do that were not printed yet
        self._last_alive = 0
        self._cause: set[str] = set()  # Services of the last change of the desired state

    def begin(self, exact: int | None, first: int | None) -> None:
        """Print the first line: moments of the oldest state and of the oldest record."""
        line = f"the desired state is known from {shown(exact)} on" if exact is not None else "no state is known"
        print(f"# {line}" + (f", records from {shown(first)} on" if first is not None else ""))

    def learn(self, record: Record) -> None:
        """Use a record that is not printed."""
        if isinstance(record.content, Wanted):
            self._attribution.learn(record.content)
            self._change = record.content
        self._before = record

    def show(self, record: Record) -> None:
        """Print a record."""
        if is_gap(self._before, record):
            self.has_gaps = True
            count = record.number - self._before.number - 1 if self._before is not None else 0
            if not self._json:
                self._flush_idle()
                print(f"{shown(record.moment)}  lost     {count} records before this moment")
        before, self._before = self._before, record
        content = record.content
        if isinstance(content, Wanted):
            self._attribution.learn(content)
            self._change = content
            self._cause = {*content.services, *(name.port.partition(":")[0] for name in content.names if name.port)}
        elif isinstance(content, Passed):
            content = content._replace(steps=tuple(resolved(content.steps, self._change)))
            record = record._replace(content=content)
        if self._service is not None and not self._concerns(content):
            return
        if self._json:
            print(json.dumps(self._document(record)))
            return
        if isinstance(content, Alive):
            self._idle += 1
            self._last_alive = record.moment
            return
        self._flush_idle()
        if isinstance(content, Started) and before is not None and not isinstance(before.content, Ended):
            print(f"{shown(before.moment)}  ended    without notice, after this moment")
        for line in _TEXTS[type(content)](self, content):
            print(line if line.startswith(" ") else f"{shown(record.moment)}  {line}")

    def end(self) -> None:
        """Print what is left."""
        self._flush_idle()

    def _flush_idle(self) -> None:
        if self._idle and self._before is not None and self._service is None:
            times = "" if self._idle == 1 else f" {self._idle} times"
            print(f"{shown(self._last_alive)}  period   nothing to do{times}")
        self._idle = 0

    def _concerns(self, content: Content) -> bool:
        """Tell whether a record is about the chosen Service."""
        service = self._service
        if isinstance(content, Wanted):
            if service in self._cause:
                return True
            return any(self._is_of(StepLine(item.kind, item.key, "")) for item in content.items)
        if isinstance(content, Passed):
            lines = (*resolved(content.steps, None), *content.failed, *content.drift)
            return any(map(self._is_of, lines)) or (content.reason == "event" and service in self._cause)
        if isinstance(content, Problems):
            return any(problem.name == service for problem in (*content.begun, *content.ended))
        return isinstance(content, (Started, Ended, Lost, Trouble))

    def _is_of(self, step: StepLine) -> bool:
        return self._attribution.service_of(step).partition(":")[0] == self._service

    def _chosen(self, steps: Sequence[StepLine]) -> list[tuple[StepLine, str]]:
        """Return steps with their Service ports, without those of other Services than the chosen one."""
        known = [(step, self._attribution.service_of(step)) for step in steps]
        if self._service is None:
            return known
        return [(step, port) for step, port in known if port.partition(":")[0] in ("", self._service)]

    # text

    def _lines(self, label: str, steps: Sequence[StepLine], all_: int) -> list[str]:
        chosen = self._chosen(steps)
        lines = []
        for step, port in chosen[:_MOST]:
            reason = f": {step.reason}" if step.reason else ""
            lines.append(f"    {label}{step.text}{reason}" + (f"   {port}" if port else ""))
        hidden = len(chosen) - _MOST if self._service is not None else all_ - min(_MOST, len(chosen))
        if hidden > 0:
            lines.append(f"    {label}... and {hidden} more (--format json has up to 5000)")
        return lines

    def _wanted(self, content: Wanted) -> list[str]:
        objects = ", ".join(content.objects) or "configuration or node"
        kinds: dict[str, int] = {}
        for item in content.items:
            kinds[item.kind] = kinds.get(item.kind, 0) + 1
        items = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return [f"wanted   {objects}" + (f" ({items})" if items else "")]

    def _passed(self, content: Passed) -> list[str]:
        failed = f", {len(content.failed)} failed" if content.failed else ""
        steps = f"{content.done} step{'' if content.done == 1 else 's'}"
        lines = [f"{content.reason:8} {steps} in {content.seconds:.3f} s{failed}"]
        drift = set(content.drift)
        rest = [step for step in resolved(content.steps, None) if step not in drift]
        lines += self._lines("drift: ", content.drift, len(content.drift))
        lines += self._lines("", rest, content.done - len(content.drift))
        lines += self._lines("failed: ", content.failed, len(content.failed))
        for text in (content.conflicts or ())[:_MOST] if self._service is None else ():
            lines.append(f"    left alone: {text}")
        if content.conflicts == ():
            lines.append("    no more items of other owners")
        return lines

    def _problems(self, content: Problems) -> list[str]:
        lines = []
        for word, problems in (("problem", content.begun), ("solved", content.ended)):
            chosen = [each for each in problems if self._service in (None, each.name)]
            lines += [f"{word:8} {problem.text}" for problem in chosen[:_MOST]]
            if len(chosen) > _MOST:
                lines.append(f"{word:8} ... and {len(chosen) - _MOST} more (--format json)")
        return lines

    # JSON

    def _document(self, record: Record) -> dict[str, Any]:
        content = record.content
        document = {"number": record.number, "time": record.moment / 1000, "type": type(content).__name__.lower()}
        if isinstance(content, Wanted):
            items = [{"kind": each.kind, "key": plain(each.key), "value": plain(each.value)} for each in content.items]
            names = [{"virtual_server": str(each.server), "service": each.port} for each in content.names]
            fields: dict[str, Any] = {
                "items": items,
                "names": names,
                "objects": content.objects,
                "services": content.services,
            }
        elif isinstance(content, Passed):
            fields = content._asdict()
            for field in ("steps", "failed", "drift"):
                fields[field] = [_step(step, port) for step, port in self._chosen(fields[field])]
        else:
            fields = {name: plain(value) for name, value in content._asdict().items()}
        return {**document, **fields}


def _step(step: StepLine, port: str) -> dict[str, Any]:
    return {"kind": step.kind, "key": plain(step.key), "text": step.text, "reason": step.reason, "service": port}


_TEXTS: dict[type[Any], Callable[[Printer, Any], list[str]]] = {
    Started: lambda _printer, content: [f"started  agent {content.version}, pid {content.pid}, node {content.node}"],
    Ended: lambda _printer, content: [f"ended    agent with pid {content.pid}"],
    Wanted: Printer._wanted,
    Passed: Printer._passed,
    Problems: Printer._problems,
    Trouble: lambda _printer, content: [f"waiting  {content.reason}" if content.reason else "waiting  no more"],
    Lost: lambda _printer, content: [f"lost     {content.reason}"],
}
