# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile the node with the desired state, by full comparisons with the kernel and by changes of single items.

A full comparison reads every table once. An event plans only the changed items, against the believed state: the last
full comparison and later writes. The next full comparison detects where the kernel disagrees. One that no change waits
for reads in slices, between which events are handled, and plans only the items that differ.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Any, Callable, Protocol

from ...engine.apply import execute
from ...engine.errors import LedgerError
from ...engine.kernel import finished
from ...engine.ledger import Ledger
from ...engine.model import ReadState, State
from ...engine.model.kinds import KINDS
from ...engine.plan import Plan, Step
from ...engine.proxy import saved_sysctls
from ...engine.proxy.diff import Differences, differing
from ...engine.proxy.drain import policy as termination
from ...engine.proxy.drain.policy import Drain
from ...engine.proxy.drain.store import Holders, recall, recall_holders, remember, remember_holders
from ...engine.proxy.planning import Claims, make_plan
from ...engine.proxy.scope import deserving, only, spots, together
from ...engine.proxy.takeover import keys_to_read
from ...paths import OWNER
from ..pass_result import PassResult
from .agent_ledger import AgentLedger

Items = dict[str, dict[Any, Any]]  # kind -> key -> value
Delta = Mapping[str, Mapping[Any, Any]]  # kind -> key -> value, or None for what is no longer wanted

# Kinds whose change is rare and depends on more than itself: a full comparison is simpler than being clever.
_LAYOUT = frozenset(("jump", "link", "sysctl", "set"))
_OF_SERVICES = ("virtual_server", "address", "route")  # kinds whose items come and go with Services
A_TURN = 16  # draining real servers that are looked after at a time, so that changes do not wait for long


class Tables(Protocol):
    """What is needed of a node; :class:`~..node.Node` is the real one."""

    @property
    def tables(self) -> Mapping[str, Any]:
        """Return ``apply`` of each table."""

    def reading(self, want: ReadState, owned: Mapping[str, Any]) -> Generator[None, None, State]:
        """Return what the kernel holds; yield after each slice of the work."""

    def connections(self, of: Collection[Any]) -> Mapping[Any, tuple[int, int]]:
        """Return active and inactive connections of the real servers of these virtual servers at least."""


class Reconciler:
    """Holds what is wanted, what we believe the kernel holds, and what is draining.

    ``hold`` forbids all removals: as long as it is not known what everybody wants. ``maximum`` bounds draining, in
    seconds (0: none). Every method that writes takes the node's lock. Errors of single items end up in reports; what
    stops a whole pass is raised (EngineError), and nothing is believed until the next full one.
    """

    def __init__(self, node: Tables, directory: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.want: Items = {}
        self.draining: dict[Any, float] = {}
        self.hold = self.adopt = False
        self.maximum = 0.0
        self.progress: Callable[[], None] = lambda: None  # is called again and again while a full comparison gets on
        self.known = False  # whether it is known what the node holds
        self.failing: dict[str, set[Any]] = {}  # what was refused since the last full pass, or by it
        self.pending: dict[str, set[Any]] = {}  # wanted or unwanted since the last pass that got through
        self._node = node
        self.ledger = AgentLedger(directory, self._known_items)
        self._clock = clock
        self._have: Items = {}
        self._owned: dict[str, set[Any]] = {}
        self._others: dict[str, dict[Any, str]] = {}
        self._noted: dict[Any, float] | None = None
        self._written: dict[str, set[Any]] | None = None  # since a comparison in slices began
        self.new_holders: dict[Any, tuple[str, str] | None] = {}  # changes that are not written down yet
        self._drained: Any = None  # the draining real server that had the last turn

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    @property
    def synced(self) -> bool:
        """Tell whether the node is as wanted, as far as we know."""
        return self.known and not any(self.failing.values())

    def accept(self, delta: Delta, *, whole: bool = False) -> None:
        """Accept a change of the desired state; if ``whole``, ``delta`` replaces all of it."""
        if whole:
            gone = {kind: dict.fromkeys(items.keys() - delta.get(kind, {}).keys()) for kind, items in self.want.items()}
            delta = {kind: {**delta.get(kind, {}), **gone.get(kind, {})} for kind in {*delta, *gone}}
        for kind, items in delta.items():
            wanted = self.want.setdefault(kind, {})
            self.pending.setdefault(kind, set()).update(items)
            for key, value in items.items():
                if value is None:
                    wanted.pop(key, None)
                else:
                    wanted[key] = value

    def holders(self) -> Holders:
        """Return which Services held virtual servers when the ledger was written last.

        Raises:
            EngineError: it cannot be read.
        """
        return recall_holders(self.ledger.open(), OWNER)

    def full(self) -> PassResult:
        """Compare everything with the kernel and make it right."""
        start = self._clock()
        known, self.known, self._written = self.known, False, None
        kept = self._kept()
        with self.ledger.locked():
            self._have = finished(self._reading(), self.progress)
            report = self._pass(self.ledger.open(), self._have, self.want, None, start)
            self._give_up(self.ledger.open())
            self._end_adoption(report)
        return self._concluded(report, kept if known else None)

    def compare(self) -> Generator[None, None, PassResult | None]:
        """Do what :meth:`full` does, in slices between which everything else may be called.

        Return None if a call in between made it needless.

        What is written meanwhile is known better than what was read. The node's lock is only taken for the last slice.
        """
        start = self._clock()
        written = self._written = {}
        looking = self._looking()
        while True:
            try:
                next(looking)
            except StopIteration as end:
                found: Differences = end.value
                break
            yield
            if self._written is not written or not self.synced:
                looking.close()
                return None
        kept = self._kept()
        for kind, news in found.news.items():
            self._correct(kind, {key: value for key, value in news.items() if key not in written.get(kind, ())})
        with self.ledger.locked():
            self._look_up(self.ledger.open())
            self._written, self.known = None, False
            part = None if self.adopt else deserving(found, self._have, self.want, self.draining, kept, self._others)
            have, want = (self._have, self.want) if part is None else (only(self._have, part), only(self.want, part))
            report = self._pass(self.ledger.open(), have, want, part, start)._replace(full=True)
            self._give_up(self.ledger.open())
            self._end_adoption(report)
        return self._concluded(report, kept)

    def _looking(self) -> Generator[None, None, Differences]:
        have = yield from self._reading()
        return (yield from differing(have, self._have, self.want))

    def _reading(self) -> Generator[None, None, State]:
        """Read the ledger, then the node.

        A claim that is made between two slices adds the item to those of its owner.
        """
        self._look_up(self.ledger.open())
        self.adopt = self.adopt or self.ledger.open().is_adoption_asked(OWNER)
        yield
        return (yield from self._node.reading(self.want, keys_to_read(self._owned, self.adopt)))

    def _look_up(self, ledger: Ledger) -> None:
        """Read the owners of items, if another process has written to the ledger."""
        if ledger.written_by_others() or not self.known:
            ledger.forget_problems()
            self._owned = ledger.owned(OWNER)
            self._others = ledger.others(OWNER)

    def _end_adoption(self, report: PassResult) -> None:
        if self.adopt and not self.hold and not report.failed:
            self.adopt = False
            self.ledger.open().end_adoption(OWNER)

    def _give_up(self, ledger: Ledger) -> None:
        """Release claims on items that another process removed and that are not desired.

        Otherwise claims would pile up.
        """
        gone = [
            (kind, key)
            for kind in _OF_SERVICES
            for key in self._owned.get(kind, set()) - self._have.get(kind, {}).keys() - self.want.get(kind, {}).keys()
        ]
        with contextlib.suppress(LedgerError):  # of what cannot be written now, the next comparison takes care
            ledger.forget(OWNER, gone)
            for kind, key in gone:
                self._owned[kind].discard(key)

    def _correct(self, kind: str, news: Mapping[Any, Any]) -> None:
        """Replace the believed state by the state that was read."""
        items = self._have.setdefault(kind, {})
        for key, value in news.items():
            if value is None:
                items.pop(key, None)
            else:
                items[key] = value

    def _concluded(self, report: PassResult, kept: Mapping[str, set[Any]] | None) -> PassResult:
        """Settle a full pass, and report its unexpected steps as drift.

        ``kept`` is what was there for draining real servers before the pass; None if nothing was known before it.
        """
        if kept is not None:
            report = report._replace(drift=[step for step in report.done if not self._expected(step, kept)])
        return self._settle(report)

    def _expected(self, step: Step, kept: Mapping[str, set[Any]]) -> bool:
        """Tell whether a step was requested, retries a failed one, or only ends what draining real servers kept."""
        parent = KINDS[step.kind].parent
        asked = step.key in self.pending.get(step.kind, ()) or step.key in self.failing.get(step.kind, ())
        waited = parent is not None and parent[1](step.key) in self.failing.get(parent[0], ())
        ends = step.after is None or termination.ends_fallback(step)
        return asked or waited or (ends and step.key in kept.get(step.kind, ()))

    def bound(self) -> float:
        """Return when the first draining real server reaches its maximum, on the clock; infinity if never."""
        return min(self.draining.values(), default=math.inf) + self.maximum if self.maximum else math.inf

    def changed(self) -> PassResult | None:
        """Apply pending changes; None if there are none."""
        pending = self.pending = {kind: keys for kind, keys in self.pending.items() if keys}
        if not pending:
            return None
        part = together(pending, self._have, self.want, self.draining)
        if not self.known or not _LAYOUT.isdisjoint(pending) or self._fails(part):
            return self.full()
        return self._settle(self._partial(part))

    def drain(self) -> PassResult | None:
        """Check whether connections of some draining real servers have ended, others each time.

        Return None if nothing is draining, the node is not known, or the kernel refused one of the items before.
        """
        if not self.draining or not self.known:
            return None
        until = self._clock() - self.maximum if self.maximum else -math.inf
        chosen = termination.turn(self.draining, self._drained, A_TURN, until)
        self._drained = chosen[-1]
        servers = {key.server for key in chosen}
        keys = {"real_server": chosen, "virtual_server": servers, **spots(self._have, self.want, servers)}
        part = together(keys, self._have, self.want, self.draining)
        return None if self._fails(part) else self._noticed(self._partial(part))

    def _fails(self, part: Mapping[str, set[Any]]) -> bool:
        """Tell whether the kernel refused a part of it; dependent steps were left out, so their items are unknown."""
        return any(not part.get(kind, set()).isdisjoint(keys) for kind, keys in self.failing.items())

    def _kept(self) -> dict[str, set[Any]]:
        """Return the draining real servers, and what may be there only because of them."""
        servers = {key.server for key in self.draining}
        return {"real_server": set(self.draining), "virtual_server": servers, **spots(self._have, self.want, servers)}

    def _partial(self, part: Mapping[str, set[Any]]) -> PassResult:
        start = self._clock()
        with self.ledger.locked():
            return self._pass(self.ledger.open(), only(self._have, part), only(self.want, part), part, start)

    def _pass(
        self, ledger: Ledger, have: State, want: State, part: Mapping[str, set[Any]] | None, start: float
    ) -> PassResult:
        """Plan ``have`` against ``want``, both whole or both the same part, and carry it out."""
        draining = self._remembered(ledger)
        elsewhere = (
            {} if part is None else {key: since for key, since in draining.items() if key not in part["real_server"]}
        )
        prepared, verdict = self._prepare(ledger, have, want, elsewhere)
        self._remember(ledger, {**elsewhere, **verdict})
        remember_holders(ledger, OWNER, self.new_holders)
        self.new_holders = {}
        saved_sysctls.note(ledger, OWNER, prepared.steps)
        spent: dict[str, float] = {}
        outcome = execute(prepared, self._timed(spent), ledger, OWNER, keep_going=True)
        self._believe(outcome.done, prepared)
        return PassResult(
            part is None, outcome.done, outcome.failed, prepared.conflicts, [], self._clock() - start, spent
        )

    def _settle(self, report: PassResult) -> PassResult:
        """Clear the pending changes; a full pass also clears the failed items.

        Failures of this pass are added again.
        """
        self.known, self.pending = True, {}
        self.failing = {} if report.full else self.failing
        return self._noticed(report)

    def _noticed(self, report: PassResult) -> PassResult:
        """Remember what failed: each full pass tries it again, and an event that has to do with it is one."""
        for step in report.done:
            self.failing.get(step.kind, set()).discard(step.key)
        for failure in report.failed:
            self.failing.setdefault(failure.step.kind, set()).add(failure.step.key)
        return report

    def _prepare(
        self, ledger: Ledger, have: State, want: State, elsewhere: Collection[Any]
    ) -> tuple[Plan, dict[Any, float]]:
        """Return the plan, and since when real servers are draining when it is done."""
        claims = Claims(self._owned, self._others, self.adopt)
        drain = Drain(self._remembered(ledger), self._clock(), self.maximum, self._node.connections, elsewhere)
        return make_plan(have, want, claims, drain, hold=self.hold)

    def _remembered(self, ledger: Ledger) -> dict[Any, float]:
        """Return the drain start times, including those from before a restart."""
        if self._noted is None:
            self._noted = recall(ledger, OWNER)
            self.draining = dict(self._noted)
        return self.draining

    def _remember(self, ledger: Ledger, draining: dict[Any, float]) -> None:
        """Persist the drain start times before the drain begins."""
        remember(ledger, OWNER, self._noted or {}, draining)
        self._noted = dict(draining)
        self.draining = draining

    def _believe(self, done: Iterable[Step], prepared: Plan) -> None:
        for step in done:
            if self._written is not None:
                self._written.setdefault(step.kind, set()).add(step.key)
            items = self._have.setdefault(step.kind, {})
            parent = KINDS[step.kind].parent
            if step.after is None:
                items.pop(step.key, None)
                self._owned.get(step.kind, set()).discard(step.key)
            else:
                items[step.key] = step.after
                if step.before is None and parent is None:
                    self._owned.setdefault(step.kind, set()).add(step.key)
        for kind, keys in prepared.adopted.items():
            self._owned.setdefault(kind, set()).update(keys)

    def _known_items(self) -> list[tuple[str, Any]]:
        self._noted = {}  # what drains is written down with the next pass
        return [(kind, key) for kind, keys in self._owned.items() for key in keys if key in self._have.get(kind, ())]

    def _timed(self, spent: dict[str, float]) -> dict[str, Any]:
        """Return the tables' functions, each of which adds the seconds it takes to ``spent``."""

        def timed(name: str, apply: Callable[[list[Step], bool], Any]) -> Callable[[list[Step], bool], Any]:
            def run(steps: list[Step], keep_going: bool) -> Any:
                start = self._clock()
                self.progress()
                try:
                    return apply(steps, keep_going)
                finally:
                    spent[name] = spent.get(name, 0.0) + self._clock() - start

            return run

        return {name: timed(name, apply) for name, apply in self._node.tables.items()}
