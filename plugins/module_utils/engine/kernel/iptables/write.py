# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute steps on rules with one ``iptables-restore`` per family.

The kernel replaces each table as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import BusyError, KernelError
from ...model.iptables import written
from ...model.kinds import name
from ...model.step import Step
from .. import Failure, Result
from .tool import restore
from .words import explain


class Line(NamedTuple):
    """A line for iptables-restore, with its step."""

    text: str
    step: Step | None = None


def apply(steps: Sequence[Step], keep_going: bool = False) -> Result:
    """Execute steps of the kinds ``chain`` and ``jump``.

    The steps of one family and table succeed or fail together. Without ``keep_going``, the result has only the failed
    step that caused it.

    Raises:
        MissingError: no iptables, or not root.
        BusyError: another program holds the lock (only without ``keep_going``).
        KernelError: the lock cannot be opened.

    Without ``keep_going`` these are raised only if nothing was done.
    """
    batches: dict[int, dict[str, list[Step]]] = {}
    for step in steps:
        batches.setdefault(step.key.family, {}).setdefault(step.key.table, []).append(step)
    result = Result([], [])
    for family, tables in batches.items():
        left = list(tables.items())
        while left:
            try:
                left = _restore(family, left, keep_going, result)
            except KernelError as error:
                reported = {*result.done, *(failure.step for failure in result.failed)}
                rest = [step for step in steps if step not in reported]
                if result.done and not keep_going:
                    rest = rest[:1]
                elif not keep_going or not isinstance(error, BusyError):
                    raise
                result.failed.extend(Failure(step, str(error)) for step in rest)
                return result  # the other tables would wait for the lock as long
            if result.failed and not keep_going:
                return result
    return result


def compose(table: str, steps: Sequence[Step]) -> list[Line]:
    """Return the lines for one table.

    Declaring a chain creates or flushes it. Chains to remove are flushed first, too, because they may refer to each
    other. In built-in chains, all deletions come before the insertions, and insertions run from the top down, so that
    their positions are final.
    """
    chains = [step for step in steps if step.kind == "chain"]
    jumps = [step for step in steps if step.kind == "jump"]
    placed = sorted((step for step in jumps if step.after is not None), key=lambda step: (step.key.chain, step.after))
    lines = [Line(f"*{table}")]
    lines += [Line(f":{step.key.chain} - [0:0]", step) for step in chains]
    lines += [Line(f"-A {step.key.chain} {rule}".rstrip(), step) for step in chains for rule in step.after or ()]
    lines += [
        Line(f"-D {step.key.chain} {written(step.key.rule)}".rstrip(), step)
        for step in jumps
        if step.before is not None
    ]
    lines += [Line(f"-I {step.key.chain} {step.after} {written(step.key.rule)}".rstrip(), step) for step in placed]
    lines += [Line(f"-X {step.key.chain}", step) for step in chains if step.after is None]
    return [*lines, Line("COMMIT")]


def _restore(
    family: int, tables: list[tuple[str, list[Step]]], keep_going: bool, result: Result
) -> list[tuple[str, list[Step]]]:
    """Feed tables; return those left because an earlier one failed."""
    lines: list[Line] = []
    ends = []
    for table, steps in tables:
        lines += compose(table, steps)
        ends.append(len(lines))
    refused = restore(family, [line.text for line in lines], ends[0])
    if refused is None:
        for _table, steps in tables:
            result.done.extend(steps)
        return []
    # iptables names a line, except in errors about the whole input
    broken = next((index for index, end in enumerate(ends) if refused.line <= end), len(tables) - 1)
    for _table, steps in tables[:broken]:
        result.done.extend(steps)
    table, steps = tables[broken]
    line = lines[refused.line - 1] if refused.line else Line("")
    batch = {line.text for line in compose(table, steps)}
    reason = str(refused.cause or explain(family, table, line.text, refused.text, batch))
    if line.step is None:
        result.failed.extend(Failure(step, reason) for step in (steps if keep_going else steps[:1]))
    else:
        result.failed.append(Failure(line.step, reason))
        blame = f"not done together with {name(line.step.kind, line.step.key)}, which failed"
        if keep_going:
            result.failed.extend(Failure(step, blame) for step in steps if step is not line.step)
    return tables[broken + 1 :]
