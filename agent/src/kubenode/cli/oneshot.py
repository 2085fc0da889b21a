# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over the node, without the running agent: what plan, apply and cleanup share."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ..daemon.notes import recall, remember
from ..daemon.planning import make_plan, named
from ..engine import former
from ..engine.apply import Outcome, execute
from ..engine.kernel import sysctls
from ..engine.ledger import Ledger, node_lock
from ..engine.model import State
from ..engine.plan import Plan, plan
from ..node import Node
from ..paths import OWNER


class Pass:
    """Holds the node's lock and the ledger for as long as its ``with`` block lasts.

    Raises:
        EngineError: no right to, or the node lacks something; from every method.
    """

    def __init__(self, directory: str, maximum: float = 0.0, adopt: bool = False) -> None:
        self._directory = directory
        self._maximum = maximum
        self._adopt = adopt
        self._node = Node(precise=True)
        self._open = ExitStack()
        self._draining: dict[Any, float] = {}

    def __enter__(self) -> Pass:
        self._open.enter_context(node_lock(self._directory))
        self._ledger = Ledger(self._directory)
        self._open.callback(self._ledger.close)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self._open.close()

    def plan(self, want: State, *, drain: bool = True) -> Plan:
        """Return what has to be done; without ``drain`` real servers go whatever their connections."""
        owned = self._ledger.owned(OWNER)
        prepared, self._draining = make_plan(
            self._node.read(want, named(owned, self._adopt)),
            want,
            owned,
            self._ledger.others(OWNER),
            recall(self._ledger),
            connections=self._node.connections if drain else None,
            now=time.monotonic(),
            maximum=self._maximum,
            adopt=self._adopt,
        )
        return prepared

    def execute(self, prepared: Plan) -> Outcome:
        """Do what :meth:`plan` said last; steps that fail are reported, the others done."""
        remember(self._ledger, recall(self._ledger), self._draining)
        former.note(self._ledger, OWNER, prepared.steps)
        return execute(prepared, self._node.tables, self._ledger, OWNER, keep_going=True)

    def plan_back(self) -> Plan:
        """Return what gives sysctls back their former values."""
        live = sysctls.read(former.names(self._ledger, OWNER))
        back = former.wanted_back(self._ledger, OWNER, live)
        return plan(live, back, back)

    def give_back(self, back: Plan) -> Outcome:
        """Do what :meth:`plan_back` said, and remember no former values any more."""
        outcome = execute(back, self._node.tables, self._ledger, OWNER, keep_going=True)
        former.forget(self._ledger, OWNER)
        return outcome

    def forget(self, *, only_count: bool = False) -> int:
        """Strike everything of ours out of the ledger, and leave it in place; return how much it is."""
        items = [(kind, key) for kind, keys in self._ledger.owned(OWNER).items() for key in keys]
        if not only_count:
            self._ledger.forget(OWNER, items)
            remember(self._ledger, recall(self._ledger), {})
            former.forget(self._ledger, OWNER)
        return len(items)

    @property
    def draining(self) -> int:
        """Return how many real servers the last plan leaves to drain."""
        return len(self._draining)


def show(prepared: Plan, form: str) -> None:
    """Print a plan."""
    if form == "json":
        conflicts = [conflict.describe() for conflict in prepared.conflicts]
        print(json.dumps({"steps": prepared.as_json(), "conflicts": conflicts}, indent=1))
        return
    for line in prepared.lines():
        print(line)
    adopted = sum(map(len, prepared.adopted.values()))
    if adopted:
        print(f"{adopted} items are taken over as they are")
