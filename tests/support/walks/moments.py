# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that a node has while a plan is executed, one after each change that the kernel makes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from support.fakes.node import PaperNode

from kubenode.engine.explain.view import Host, NodeView, rules_of, view_of
from kubenode.engine.kernel.ipset.write import _lines
from kubenode.engine.model import State
from kubenode.engine.model.kinds import KINDS
from kubenode.engine.plan import Plan, Step
from kubenode.engine.proxy.drain.policy import Drain
from kubenode.engine.proxy.planning import Claims, make_plan

_ROUTED = ("address", "route", "sysctl")


def at_once(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps that take effect at one moment, as the tables of ``engine/kernel`` send them.

    A transaction of nftables is one; so is the COMMIT of a table of iptables, the line of ``ipset restore``, the swap
    of a set with its new members, and each message to IPVS and rtnetlink.
    """
    for table, group in groupby(steps, key=lambda step: KINDS[step.kind].table):
        run = list(group)
        if table == "nftables":
            yield run
        elif table == "iptables":
            batches: dict[int, dict[str, list[Step]]] = {}
            for step in run:
                batches.setdefault(step.key.family, {}).setdefault(step.key.table, []).append(step)
            for tables in batches.values():
                yield from tables.values()
        elif table == "ipset":
            yield from _sets_at_once(run)
        else:
            yield from ([step] for step in run)


def _sets_at_once(run: list[Step]) -> Iterator[list[Step]]:
    changing = {step.key for step in run if step.kind == "set" and step.verb == "change"}
    inside = [step for step in run if step.kind == "member" and step.key.set in changing]
    rest = [step for step in run if step not in inside]
    for is_change, group in groupby(rest, key=lambda step: step.kind == "set" and step.verb == "change"):
        part = list(group)
        if is_change:
            yield from ([step, *(each for each in inside if each.key.set == step.key)] for step in part)
        else:
            yield from _lines(part)[1]


class WalkedNode(PaperNode):
    """Node on paper that plans as the agent does, with its claims in the ledger, and shows itself to the predictor."""

    def __init__(self, state: State, host: Host) -> None:
        super().__init__({})
        self._host = host
        self._view: NodeView | None = None
        self.owned: dict[str, set[Any]] = {}
        self.adopt = False
        for kind, items in state.items():
            self.state[kind] = dict(items)
        self.state["jump"] = {}
        self._place([Step("jump", key, None, position) for key, position in _positions(state.get("jump", {}))])

    def plan(self, want: State, drain: Drain) -> tuple[Plan, dict[Any, float]]:
        """Return the agent's plan."""
        have = self.read(want, {})
        return make_plan(have, want, Claims(self.owned, {}, self.adopt), drain)

    def execute(self, plan: Plan) -> Iterator[list[Step]]:
        """Execute a plan; yield after each of its moments."""
        for kind, keys in plan.adopted.items():
            self.owned.setdefault(kind, set()).update(keys)
        for steps in at_once(plan.steps):
            result = self.apply(steps, False)
            assert not result.failed, result.failed
            for step in steps:
                if KINDS[step.kind].parent is None and step.before is None:
                    self.owned.setdefault(step.kind, set()).add(step.key)
                elif step.after is None:
                    self.owned.get(step.kind, set()).discard(step.key)
            yield steps
        self.adopt = False

    def view(self, changed: Sequence[Step] = ()) -> NodeView:
        """Return the node for the predictor; ``changed`` are the steps since the last call."""
        if self._view is None or not changed or any(step.kind in _ROUTED for step in changed):
            self._view = view_of(self.state, self._host)
            return self._view
        before = self._view
        after = NodeView.__new__(NodeView)  # without new routing tables, which take most of the time
        after.__dict__.update(before.__dict__, _by_set=None, _by_nft_set=None, _reals=None)
        if any(step.kind in ("chain", "jump") for step in changed):
            after.rules = rules_of(self.state)
        self._view = after
        return after


def _positions(jumps: Mapping[Any, Any]) -> list[tuple[Any, int]]:
    """Return desired jumps with numbers, as they stand on a node without others."""
    numbers: dict[tuple[Any, ...], int] = {}
    placed = []
    for key in sorted(jumps, key=lambda key: jumps[key].order if hasattr(jumps[key], "order") else jumps[key]):
        numbers[key[:3]] = numbers.get(key[:3], 0) + 1
        placed.append((key, numbers[key[:3]]))
    return placed
