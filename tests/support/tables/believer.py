# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service proxy's part of a comparison, with one table: it believes what it has read or written last."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from kubenode.engine.kernel import Result, finished
from kubenode.engine.model import State
from kubenode.engine.plan import Step

Slices = Generator[None, None, State]


class Believer:
    """Writes through ``apply``; reads by ``slices``, which gets the believed items."""

    def __init__(
        self, apply: Callable[[list[Step]], Result], slices: Callable[[State], Slices], created: Sequence[Step]
    ) -> None:
        self.slices = slices
        self.believed: State = {step.kind: {} for step in created}
        self._apply = apply
        self.write(created)
        self.read()

    def write(self, steps: Sequence[Step]) -> None:
        """Execute steps, none of which the kernel may refuse."""
        assert self._apply(list(steps)).failed == []
        for step in steps:
            self.believed[step.kind].pop(step.key, None)
            if step.after is not None:
                self.believed[step.kind][step.key] = step.after

    def read(self) -> State:
        """Read, and believe what was read."""
        self.believed = finished(self.slices(self.believed))
        return self.believed

    def read_beside(self, steps: Sequence[Step], slices: int) -> None:
        """Write after this number of slices of a reading, whose result is dropped."""
        reading: Any = self.slices(self.believed)
        for _slice in range(slices):
            next(reading, None)
        self.write(steps)
        for _slice in reading:
            pass

    def reads_nothing(self) -> bool:
        """Tell whether a reading returns the believed items themselves."""
        before = dict(self.believed)
        return all(self.read()[kind] is items for kind, items in before.items())
