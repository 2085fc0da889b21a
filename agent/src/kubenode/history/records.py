# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the history: changes of the desired state, passes, problems, starts and ends of the agent.

A line of JSON has the records of one write: ``[NUMBER, FURTHER, MOMENT, LENGTH, [RECORD, ...]]``, which are the number
of the first record, how many follow it, the earliest moment, and the milliseconds from there to the latest. A record is
``[MILLISECONDS, TYPE, FIELDS]``: the time since the record before, or since MOMENT, and its content. Numbers have no
gaps unless records were lost. A moment is in milliseconds since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

from ..engine.errors import cut
from ..engine.model.ipvs import VirtualServerKey
from ..engine.model.kinds import name
from ..engine.model.step import Step
from . import items
from .items import DecodeError, Item, many, number, optional, record, text

_MOST_TEXT = 1000  # characters of a reason


class Started(NamedTuple):
    """The agent has started. Before this record, no agent ran since the last record."""

    node: str
    version: str
    pid: int


class Ended(NamedTuple):
    """The agent has ended in order; the kernel keeps its state."""

    pid: int


class Alive(NamedTuple):
    """A full comparison found nothing to do."""

    seconds: float


class Name(NamedTuple):
    """Service port of a virtual server, as ``namespace/name:port``; "" for none."""

    server: VirtualServerKey
    port: str


class Wanted(NamedTuple):
    """Change of the desired state.

    ``objects`` are the first objects whose change is the cause, as ``EndpointSlice shop/web-x``. ``services`` are the
    Services that they belong to, as ``shop/web``, if no virtual or real server among the items tells.
    """

    items: tuple[Item, ...]
    names: tuple[Name, ...]
    objects: tuple[str, ...]
    services: tuple[str, ...]


class StepLine(NamedTuple):
    """One step as :meth:`.Step.describe` prints it. ``key`` is None for a kind that this release does not know.

    ``reason`` is that of a step that failed, else "".
    """

    kind: str
    key: Any
    text: str
    reason: str = ""


class WantedStep(NamedTuple):
    """Step for an item of the last :class:`Wanted` record, by its position there, to save room.

    ``change`` is "" if the step creates or deletes the item as wanted, else the text behind the item's name.
    """

    position: int
    change: str


AnyStep = Union[StepLine, WantedStep]  # Union: Python 3.9 evaluates it


class Passed(NamedTuple):
    """A pass: its reason, its duration, and its steps.

    ``steps`` are the first ones of ``done`` (:func:`resolved`). ``failed`` are refusals of the kernel. ``drift`` are
    changes of another process that the pass reverted. ``conflicts`` are items of other owners: None if they are as
    before.
    """

    reason: str
    full: bool
    seconds: float
    done: int
    steps: tuple[AnyStep, ...]
    failed: tuple[StepLine, ...]
    drift: tuple[StepLine, ...]
    conflicts: tuple[str, ...] | None


class Problem(NamedTuple):
    """One sentence about an object that cannot be used in full; ``name`` is ``namespace/name``."""

    name: str
    text: str


class Problems(NamedTuple):
    """Problems of objects that began and that ended."""

    begun: tuple[Problem, ...]
    ended: tuple[Problem, ...]


class Trouble(NamedTuple):
    """The agent waits, or a pass was not possible; "" when that has ended."""

    reason: str


class Lost(NamedTuple):
    """Records before this one could not be written; their numbers are missing."""

    reason: str


Content = Union[Started, Ended, Alive, Wanted, Passed, Problems, Trouble, Lost]


class Record(NamedTuple):
    """One record."""

    number: int
    moment: int
    content: Content


class Line(NamedTuple):
    """One record of a file: number and moment are known without its content."""

    number: int
    moment: int
    content: Any
    type: str

    def record(self) -> Record:
        """Return the record.

        Raises:
            ValueError: no release writes this.
        """
        if self.type not in _CONTENTS:
            raise DecodeError("expected a type of record")
        return Record(self.number, self.moment, _CONTENTS[self.type](self.content))


def resolved(steps: Iterable[AnyStep], last: Wanted | None) -> list[StepLine]:
    """Return the steps of a pass, after the last change of the desired state; positions that it lacks are left out."""
    lines = []
    items_ = last.items if last is not None else ()
    for step in steps:
        if isinstance(step, StepLine):
            lines.append(step)
        elif 0 <= step.position < len(items_):
            item = items_[step.position]
            line = f"~ {name(item.kind, item.key)}{step.change}" if step.change else _as_wanted(item).describe()
            lines.append(StepLine(item.kind, item.key, clean(line)))
    return lines


def spelled(step: Step, position: int, item: Item) -> AnyStep:
    """Return a step for the item at a position of the last change of the desired state."""
    if item.value == step.after and (step.before is None or step.after is None):
        return WantedStep(position, "")
    if step.before is not None and step.after is not None:
        return WantedStep(position, clean(step.change))
    return StepLine(step.kind, step.key, clean(step.describe()))


def _as_wanted(item: Item) -> Step:
    if item.value is None:
        return Step(item.kind, item.key, True, None)  # the text of a deletion does not name the former value
    return Step(item.kind, item.key, None, item.value)


def clean(reason: str) -> str:
    """Return a text of bounded length without characters that could change a terminal."""
    short = cut(reason, _MOST_TEXT)
    return short if short.isprintable() else "".join(each if each.isprintable() else "?" for each in short)


def encode(written: Sequence[Record]) -> bytes:
    """Return the line of records whose numbers follow one another, without its end."""
    moments = [each.moment for each in written]
    before = since = min(moments)
    raw = []
    for _number, moment, content in written:
        raw.append([moment - before, type(content).__name__, _fields(content)])
        before = moment
    return items.to_json([written[0].number, len(written) - 1, since, max(moments) - since, raw]).encode()


def _fields(content: Content) -> list[Any]:
    fields: list[Any] = list(content)
    if isinstance(content, Wanted):
        fields[0] = [items.encode(*each) for each in content.items]
    elif isinstance(content, Passed):
        fields[4:7] = [[_step(each) for each in lines] for lines in (content.steps, content.failed, content.drift)]
    return fields


def _step(line: AnyStep) -> Any:
    if isinstance(line, WantedStep):
        return list(line) if line.change else line.position
    return [line.kind, line.key if line.kind in items.KINDS else None, line.text, line.reason]


def decode(line: bytes, last: int = 0, latest: int = 0) -> list[Line]:
    """Return the records of a line; their content is not decoded yet.

    The line of a sealed log counts from the ``last`` number and the ``latest`` moment of the line before.

    Raises:
        ValueError: no release writes this.
    """
    try:
        raw = json.loads(line)
    except RecursionError:
        raise DecodeError("expected records") from None
    if type(raw) is not list or len(raw) != 5 or type(raw[4]) is not list or len(raw[4]) != number(raw[1]) + 1:
        raise DecodeError("expected records")
    first, since, length = number(last + number(raw[0])), number(latest + number(raw[2])), number(raw[3])
    lines, moment = [], since
    for at, each in enumerate(raw[4]):
        if type(each) is not list or len(each) != 3:
            raise DecodeError("expected a record")
        moment += number(each[0])
        lines.append(Line(first + at, moment, each[2], text(each[1])))
    moments = [each.moment for each in lines]
    if not lines or (min(moments), max(moments)) != (since, since + length):
        raise DecodeError("expected records with the moments of their line")
    return lines


def _seconds(raw: Any) -> float:
    if type(raw) not in (int, float) or not 0 <= raw < 1e9:
        raise DecodeError("expected seconds")
    return float(raw)


def _flag(raw: Any) -> bool:
    if type(raw) is not bool:
        raise DecodeError("expected true or false")
    return raw


def _step_line(raw: Any) -> StepLine:
    if type(raw) is not list or len(raw) != 4:
        raise DecodeError("expected a step")
    kind, key, line, reason = raw
    return StepLine(text(kind), None if key is None else items.decode_key(kind, key), text(line), text(reason))


def _any_step(raw: Any) -> AnyStep:
    if type(raw) is int:
        return WantedStep(number(raw), "")
    if type(raw) is list and len(raw) == 2:
        return WantedStep(number(raw[0]), text(raw[1]))
    return _step_line(raw)


_STEPS = many(_step_line)
_TEXTS = many(text)
_PROBLEMS = many(record(Problem, text, text))
NAME = record(Name, items.SERVER, text)
_CONTENTS: dict[str, items.Decoder] = {
    "Started": record(Started, text, text, number),
    "Ended": record(Ended, number),
    "Alive": record(Alive, _seconds),
    "Wanted": record(Wanted, many(items.decode, most=1 << 22), many(NAME, most=1 << 22), _TEXTS, _TEXTS),
    "Passed": record(Passed, text, _flag, _seconds, number, many(_any_step), _STEPS, _STEPS, optional(_TEXTS)),
    "Problems": record(Problems, _PROBLEMS, _PROBLEMS),
    "Trouble": record(Trouble, text),
    "Lost": record(Lost, text),
}
