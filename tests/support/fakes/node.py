# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake node with tables in memory, for tests without a kernel (order, properties, undo).

The same properties are tested against the real kernel in ``tests/kernel``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kubenode.engine.kernel import Failure, Result
from kubenode.engine.model.iptables import JumpKey
from kubenode.engine.model.kinds import KINDS
from kubenode.engine.plan import Step


class PaperNode:
    """Node with a state in memory; it applies steps, and refuses the keys that a test sets."""

    def __init__(self, state: dict[str, dict[Any, Any]]) -> None:
        self.state = {kind: dict(state.get(kind, {})) for kind in KINDS}
        self.refuse: set[Any] = set()
        self.log: list[Step] = []
        self.tables = {kind.table: self.apply for kind in KINDS.values()}

    def read(self, _want: Any, _owned: Any) -> dict[str, dict[Any, Any]]:
        return {kind: dict(items) for kind, items in self.state.items()}

    def reading(self, want: Any, owned: Any, _believed: Any = None) -> Generator[None, None, dict[str, dict[Any, Any]]]:
        """Read everything in the first of three slices, so that writes during the others are not in the result."""
        items = self.read(want, owned)
        yield
        yield
        return items

    def apply(self, steps: list[Step], keep_going: bool) -> Result:
        result = Result([], [])
        jumps = []
        for step in steps:
            parent = KINDS[step.kind].parent
            orphan = parent is not None and parent[1](step.key) not in self.state[parent[0]]
            lost = step.kind == "jump" and step.before is not None and step.key not in self.state["jump"]
            if step.key in self.refuse or orphan or lost:
                result.failed.append(
                    Failure(step, "no such parent" if orphan else "no such rule" if lost else "refused")
                )
                if not keep_going:
                    break
                continue
            result.done.append(step)
            self.log.append(step)
            if step.kind == "jump":
                jumps.append(step)
                continue
            held = self.state[step.kind]
            if step.after is None:
                held.pop(step.key)
                for child, kind in KINDS.items():
                    if kind.parent and kind.parent[0] == step.kind:
                        left = [key for key in self.state[child] if kind.parent[1](key) == step.key]
                        assert not left, f"{step.key} goes before {left}"
            else:
                held[step.key] = step.after
        self._place(jumps)
        return result

    def _place(self, steps: list[Step]) -> None:
        chains: dict[tuple[int, str, str], list[str]] = {}
        for key in sorted(self.state["jump"], key=lambda key: self.state["jump"][key]):
            chains.setdefault(key[:3], []).append(key.rule)
        for step in steps:
            if step.before is not None:
                chains[step.key[:3]].remove(step.key.rule)
        for step in sorted((step for step in steps if step.after is not None), key=lambda step: step.after):
            chains.setdefault(step.key[:3], []).insert(step.after - 1, step.key.rule)
        self.state["jump"] = {
            JumpKey(*chain, rule): index for chain, rules in chains.items() for index, rule in enumerate(rules, 1)
        }
