# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over the node without the running agent, shared by plan, apply and cleanup."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import MappingProxyType, TracebackType
from typing import Any

from ..engine.apply import Outcome, execute
from ..engine.desired.vip_allocator import VipHolders
from ..engine.kernel import sysctls
from ..engine.ledger import Ledger
from ..engine.model import State
from ..engine.model.ipvs import VirtualServerKey
from ..engine.node_lock import node_lock
from ..engine.plan import Plan, plan
from ..engine.proxy import saved_sysctls
from ..engine.proxy.drain.policy import Drain
from ..engine.proxy.drain.store import recall, recall_holders, remember, remember_holders
from ..engine.proxy.node import Node
from ..engine.proxy.planning import Claims, make_plan
from ..engine.proxy.rules_backend import spelled
from ..engine.proxy.takeover import keys_to_read
from ..paths import OWNER
from .desired import complain


class Pass:
    """Holds the node's lock and the ledger for as long as its ``with`` block lasts.

    Raises:
        EngineError: a right or a prerequisite of the node is missing. Every method raises it.
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
        self._open.callback(self._close)
        return self

    def _close(self) -> None:
        for problem in self._ledger.problems:
            complain(problem)
        self._ledger.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def holders(self) -> VipHolders:
        """Return the Services that hold virtual servers, from the ledger."""
        return recall_holders(self._ledger, OWNER)

    def remember_holders(self, changes: Mapping[VirtualServerKey, tuple[str, str] | None]) -> None:
        """Write the changed holders of virtual servers to the ledger."""
        remember_holders(self._ledger, OWNER, changes)

    def spelled(self, want: State, setting: str) -> State:
        """Return the desired state in the items of the node's rules back end; ``setting`` is ``rules.backend``."""
        return spelled(want, setting, lambda: self._ledger.owned(OWNER))

    def plan(
        self, want: State, *, drain: bool = True, keep: Mapping[str, Collection[Any]] = MappingProxyType({})
    ) -> Plan:
        """Return the steps to ``want``; without ``drain``, real servers with connections are removed, too.

        Claimed items in ``keep``, keys by kind, stay as they are.
        """
        owned = {kind: keys - set(keep.get(kind, ())) for kind, keys in self._ledger.owned(OWNER).items()}
        have = self._node.read(want, keys_to_read(owned, self._adopt))
        claims = Claims(owned, self._ledger.others(OWNER), self._adopt)
        connections = self._node.connections if drain else None
        moment = Drain(recall(self._ledger, OWNER), time.monotonic(), self._maximum, connections)
        prepared, self._draining = make_plan(have, want, claims, moment)
        return prepared

    def execute(self, prepared: Plan) -> Outcome:
        """Execute the plan that :meth:`plan` returned last; report failed steps and do the others."""
        remember(self._ledger, OWNER, recall(self._ledger, OWNER), self._draining)
        saved_sysctls.note(self._ledger, OWNER, prepared.steps)
        return execute(prepared, self._node.tables, self._ledger, OWNER, keep_going=True)

    def plan_back(self) -> Plan:
        """Return the steps that restore the sysctls' original values."""
        live = sysctls.read(saved_sysctls.names(self._ledger, OWNER))
        back = saved_sysctls.wanted_back(self._ledger, OWNER, live)
        return plan(live, back, back)

    def give_back(self, back: Plan) -> Outcome:
        """Execute the plan of :meth:`plan_back`; forget the original values and the holders."""
        outcome = execute(back, self._node.tables, self._ledger, OWNER, keep_going=True)
        saved_sysctls.forget(self._ledger, OWNER)
        remember_holders(self._ledger, OWNER, dict.fromkeys(recall_holders(self._ledger, OWNER)))
        return outcome

    def ask_adoption(self) -> None:
        """Request that the agent adopts unowned items, once."""
        self._ledger.ask_adoption(OWNER)

    def forget(self, *, only_count: bool = False) -> int:
        """Remove the agent's claims from the ledger, not the items from the kernel; return the number of claims."""
        items = [(kind, key) for kind, keys in self._ledger.owned(OWNER).items() for key in keys]
        if not only_count:
            self._ledger.forget(OWNER, items)
            remember(self._ledger, OWNER, recall(self._ledger, OWNER), {})
            remember_holders(self._ledger, OWNER, dict.fromkeys(recall_holders(self._ledger, OWNER)))
            saved_sysctls.forget(self._ledger, OWNER)
        return len(items)

    def owned(self) -> dict[str, set[Any]]:
        """Return the keys that the agent claims, by kind."""
        return self._ledger.owned(OWNER)

    def hand_over(self, items: Mapping[str, Collection[Any]]) -> None:
        """Remove the claims on some items, which another service proxy has made its own."""
        self._ledger.forget(OWNER, [(kind, key) for kind, keys in items.items() for key in keys])

    @property
    def draining(self) -> int:
        """Return the number of real servers that drain after the last plan."""
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
