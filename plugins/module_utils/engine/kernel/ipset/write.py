# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute steps on sets with ``ipset restore``; write a few members without it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ...errors import KernelError, MissingError
from ...model.step import Step
from .. import Failure, Result
from . import direct
from .replace import replace
from .tool import Complaint, restore
from .words import explain


def apply(steps: Sequence[Step], keep_going: bool = False) -> Result:
    """Execute steps of the kinds ``set`` and ``member``, in one process at most unless a step fails.

    A set whose header changes is replaced by a new set with its present members, changed by all of the run's steps for
    members (see :mod:`.replace`).

    Raises:
        MissingError: no ipset, no kernel support, no right.
        KernelError: the tool ended abnormally (only with ``keep_going``).

    Without ``keep_going`` these are raised only if nothing was done.
    """
    changing = {step.key for step in steps if step.kind == "set" and step.verb == "change"}
    inside: dict[str, list[Step]] = {name: [] for name in changing}
    rest = []
    for step in steps:
        if step.kind == "member" and step.key.set in changing:
            inside[step.key.set].append(step)
        else:
            rest.append(step)
    result = Result([], [])
    for change, group in groupby(rest, key=lambda step: step.kind == "set" and step.verb == "change"):
        run = list(group)
        parts = [[step, *inside[step.key]] for step in run] if change else [run]
        for part in parts:
            try:
                if change:
                    _merge(result, replace(part[0], part[1:]))
                else:
                    _plain(part, keep_going, result)
            except KernelError as error:
                if keep_going or (isinstance(error, MissingError) and not result.done):
                    raise
                known = {*result.done, *(failure.step for failure in result.failed)}
                unclear = [step for step in part if step not in known]
                _merge(result, Result(unclear, [Failure(part[0], str(error))]))
            if result.failed and not keep_going:
                return result
    return result


def _plain(steps: list[Step], keep_going: bool, result: Result) -> None:
    """Feed steps, and continue after each failed one; steps that cannot succeed after it are not tried."""
    if direct.apply(steps):
        result.done.extend(steps)
        return
    lines, origins = _lines(steps)
    start = 0
    while start < len(lines):
        refused = restore(lines[start:])
        if refused is None:
            result.done.extend(_steps(origins[start:]))
            return
        stop = start + refused.line
        if stop > start:  # ipset may have dropped these with the unparsable line
            again = restore(lines[start:stop])
            if again is not None:
                refused, stop = again, start + again.line
        result.done.extend(_steps(origins[start:stop]))
        failed = origins[stop]
        first = _making_room(origins, stop) if "is full" in refused.text else []
        if first:
            order = [*first, *sorted({*range(stop, len(lines))}.difference(first))]
            lines, origins, start = [lines[index] for index in order], [origins[index] for index in order], 0
            continue
        start = stop + 1
        if refused.absent and failed[0].after is None:  # kernels before 5.9 refuse to delete what is absent
            result.done.extend(failed)
            continue
        result.failed.extend(Failure(step, explain(step, refused.text)) for step in failed)
        if not keep_going:
            return
        lost = [index for index in range(start, len(lines)) if _hopeless(origins[index][0], failed[0], refused)]
        result.failed.extend(Failure(step, explain(step, refused.text)) for index in lost for step in origins[index])
        dropped = set(lost)
        kept = [index for index in range(start, len(lines)) if index not in dropped]
        lines, origins, start = [lines[index] for index in kept], [origins[index] for index in kept], 0


def _lines(steps: list[Step]) -> tuple[list[str], list[list[Step]]]:
    """Return restore lines, each with its steps.

    One line empties a set that is removed.
    """
    going = {step.key for step in steps if step.kind == "set" and step.after is None}
    flushed: dict[str, list[Step]] = {}
    lines: list[str] = []
    origins: list[list[Step]] = []
    for step in steps:
        if step.kind == "member" and step.after is None and step.key.set in going:
            if step.key.set in flushed:
                flushed[step.key.set].append(step)
                continue
            lines.append(f"flush {step.key.set}")
            flushed[step.key.set] = [step]
            origins.append(flushed[step.key.set])
            continue
        lines.append(line(step))
        origins.append([step])
    return lines, origins


def line(step: Step) -> str:
    """Return the restore line of one step (but for a set whose header changes)."""
    if step.kind == "set":
        return f"destroy {step.key}" if step.after is None else f"create {step.key} {step.after.text()}"
    if step.after is None:
        return f"del {step.key.set} {step.key.member}"
    return f"add {step.key.set} {step.key.member} {step.after}".rstrip()


def _making_room(origins: list[list[Step]], stop: int) -> list[int]:
    """Return the lines after ``stop`` that delete members of the full set."""
    (failed, *_others) = origins[stop]
    rest = range(stop + 1, len(origins))
    steps = ((index, origins[index][0]) for index in rest)
    return [
        index
        for index, step in steps
        if step.kind == "member" and step.after is None and step.key.set == failed.key.set
    ]


def _hopeless(step: Step, failed: Step, refused: Complaint) -> bool:
    """Tell whether ``step`` fails for the same reason as ``failed``: the set is absent or full."""
    if step.kind != "member" or step.after is None:
        return False
    if failed.kind == "set":
        return bool(step.key.set == failed.key and failed.after is not None)
    return bool(step.key.set == failed.key.set and (refused.absent or "is full" in refused.text))


def _steps(origins: list[list[Step]]) -> list[Step]:
    return [step for group in origins for step in group]


def _merge(result: Result, other: Result) -> None:
    result.done.extend(other.done)
    result.failed.extend(other.failed)
