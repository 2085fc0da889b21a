# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile the node with the desired state, by full comparisons with the kernel and by changes of single items.

A full comparison reads every table once. An event plans only the changed items, against the believed state: the last
full comparison and later writes. The next full comparison detects where the kernel disagrees. One that no change waits
for reads in slices, between which events are handled, and plans only the items that differ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Generator, Mapping
from typing import Any, Callable

from ...engine.apply import execute
from ...engine.desired.vip_allocator import VipHolders
from ...engine.kernel import finished
from ...engine.ledger import Ledger
from ...engine.model import State
from ...engine.model.kinds import KINDS
from ...engine.model.nftables import KINDS as KINDS_OF_NFTABLES
from ...engine.plan import Plan, Step
from ...engine.proxy import saved_sysctls
from ...engine.proxy.diff import Differences, differing
from ...engine.proxy.drain import policy as drain_policy
from ...engine.proxy.drain.policy import Drain
from ...engine.proxy.drain.store import recall, recall_holders, remember, remember_holders
from ...engine.proxy.planning import Claims, make_plan
from ...engine.proxy.scope import deserving, only, spots, together
from ...engine.proxy.takeover import keys_to_read
from ...paths import OWNER
from ..pass_result import PassResult
from .agent_ledger import AgentLedger
from .believed_state import BelievedState
from .sync_policy import SyncPolicy
from .tables import Tables, timed

Delta = Mapping[str, Mapping[Any, Any]]  # kind -> key -> value, or None for an item that is no longer desired

# Kinds whose change is rare and depends on more than itself: a full comparison is simpler than being clever.
_LAYOUT = frozenset(("jump", "link", "sysctl", "set"))
_DEFAULT = SyncPolicy()
A_TURN = 16  # draining real servers checked at a time, so that changes do not wait for long


class Reconciler:
    """Desired state, believed state of the kernel, and draining real servers.

    Every method that writes takes the node's lock. Errors of single items end up in results. An error that stops a
    whole pass is raised (EngineError), and nothing is believed until the next full one.

    ``policy`` applies to the next pass. An adoption that was completed, or requested in the ledger, changes its field
    ``adopt``. ``progress`` is called again and again during a full comparison.
    """

    def __init__(
        self,
        node: Tables,
        directory: str,
        clock: Callable[[], float] = time.monotonic,
        policy: SyncPolicy = _DEFAULT,
    ) -> None:
        self.policy = policy
        self.want: State = {}
        self.draining: dict[Any, float] = {}  # real server -> since when
        self.progress: Callable[[], None] = lambda: None
        self.known = False  # whether the believed state is known at all
        self.failing: dict[str, set[Any]] = {}  # refused by the last full pass or since
        self.pending: dict[str, set[Any]] = {}  # changed in the desired state since the last completed pass
        self.new_holders: dict[Any, tuple[str, str] | None] = {}  # changes that are not in the ledger yet
        self.ledger = AgentLedger(directory, self._known_items)
        self._node = node
        self._clock = clock
        self._believed = BelievedState()
        self._noted: dict[Any, float] | None = None  # drain start times in the ledger
        self._drained: Any = None  # the draining real server that had the last turn

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    @property
    def synced(self) -> bool:
        """Tell whether the kernel is believed to hold the desired state."""
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

    def holders(self) -> VipHolders:
        """Return which Services held virtual servers when the ledger was written last.

        Raises:
            EngineError: it cannot be read.
        """
        return recall_holders(self.ledger.open(), OWNER)

    def full(self) -> PassResult:
        """Compare everything with the kernel and repair it."""
        start = self._clock()
        known, is_corrected = self.known, self._believed.is_corrected
        self.known, self._believed.written = False, None
        kept = self._kept()
        with self.ledger.locked():
            self._believed.items = finished(self._reading(known and is_corrected), self.progress)
            report = self._pass(self.ledger.open(), self._believed.items, self.want, None, start)
            self._believed.release(self.ledger.open(), self.want)
            self._end_adoption(report)
        return self._concluded(report, kept if known else None)

    def compare(self) -> Generator[None, None, PassResult | None]:
        """Do what :meth:`full` does, in slices between which everything else may be called.

        Return None if a call in between made it needless. Only the last slice takes the node's lock.
        """
        start, believed = self._clock(), self._believed
        looking = self._looking(believed.is_corrected)
        written = believed.begin_reading()
        while True:
            try:
                next(looking)
            except StopIteration as end:
                differences: Differences = end.value
                break
            yield
            if believed.written is not written or not self.synced:
                looking.close()
                return None
        kept = self._kept()
        believed.correct(differences.news)
        with self.ledger.locked():
            self._read_owners(self.ledger.open())
            believed.written, self.known = None, False
            part, have, want = None, believed.items, self.want
            if not self.policy.adopt:
                part = deserving(differences, have, want, self.draining, kept, believed.others)
            if part is not None:
                have, want = only(have, part), only(want, part)
            report = self._pass(self.ledger.open(), have, want, part, start)._replace(full=True)
            believed.release(self.ledger.open(), self.want)
            self._end_adoption(report)
        return self._concluded(report, kept)

    def repair_rules(self) -> PassResult:
        """Compare the tables of nftables alone with the kernel, and repair them; that is no full pass.

        A comparison in slices may be under way: it takes what this one has read and written as known better.
        """
        start, kept = self._clock(), self._kept()
        with self.ledger.locked():
            self._read_owners(self.ledger.open())
            self.known = False
            believed = {kind: self._believed.items.get(kind, {}) for kind in KINDS_OF_NFTABLES}
            want = {kind: self.want.get(kind, {}) for kind in KINDS_OF_NFTABLES}
            have = self._node.read_nftables(want, self._believed.owned, believed)
            found = finished(differing(have, believed, want), self.progress)
            self._believed.renew(found.news)
            part = {kind: odd.union(found.news[kind]) for kind, odd in found.odd.items()}
            part = together(part, self._believed.items, self.want, self.draining)
            have, want = only(self._believed.items, part), only(self.want, part)
            report = self._pass(self.ledger.open(), have, want, part, start)
        others = {kind: keys for kind, keys in self.pending.items() if kind not in KINDS_OF_NFTABLES}
        report = self._concluded(report, kept)
        self.pending = others
        return report

    def _looking(self, is_corrected: bool) -> Generator[None, None, Differences]:
        have = yield from self._reading(is_corrected)
        return (yield from differing(have, self._believed.items, self.want))

    def _reading(self, is_corrected: bool) -> Generator[None, None, State]:
        """Read the ledger, then the node. A claim between two slices adds the item to its owner's.

        If the believed items were corrected by the reading before, this one decodes only what has changed since.
        """
        self._read_owners(self.ledger.open())
        if not self.policy.adopt and self.ledger.open().is_adoption_asked(OWNER):
            self.policy = self.policy._replace(adopt=True)
        yield
        keys = keys_to_read(self._believed.owned, self.policy.adopt)
        return (yield from self._node.reading(self.want, keys, self._believed.items if is_corrected else None))

    def _read_owners(self, ledger: Ledger) -> None:
        """Read the owners of items, if another process has written to the ledger."""
        if ledger.written_by_others() or not self.known:
            self._believed.read_owners(ledger)

    def _end_adoption(self, report: PassResult) -> None:
        """End the adoption after the first full pass that may remove and has no failure."""
        if self.policy.adopt and not self.policy.hold and not report.failed:
            self.policy = self.policy._replace(adopt=False)
            self.ledger.open().end_adoption(OWNER)

    def _concluded(self, report: PassResult, kept: Mapping[str, set[Any]] | None) -> PassResult:
        """Settle a full pass, and report its unexpected steps as drift.

        ``kept`` are the items kept for draining real servers before the pass; None if no state was known before it.
        """
        if kept is not None:
            report = report._replace(drift=[step for step in report.done if not self._expected(step, kept)])
        return self._settle(report)

    def _expected(self, step: Step, kept: Mapping[str, set[Any]]) -> bool:
        """Tell whether a step was requested, retries a failed one, or only ends what draining real servers kept."""
        parent = KINDS[step.kind].parent
        asked = step.key in self.pending.get(step.kind, ()) or step.key in self.failing.get(step.kind, ())
        waited = parent is not None and parent[1](step.key) in self.failing.get(parent[0], ())
        ends = step.after is None or drain_policy.ends_fallback(step)
        return asked or waited or (ends and step.key in kept.get(step.kind, ()))

    def bound(self) -> float:
        """Return when the first draining real server reaches its maximum, on the clock; infinity if never."""
        most = self.policy.max_drain
        return min(self.draining.values(), default=math.inf) + most if most else math.inf

    def changed(self) -> PassResult | None:
        """Apply pending changes; None if there are none."""
        pending = self.pending = {kind: keys for kind, keys in self.pending.items() if keys}
        if not pending:
            return None
        part = together(pending, self._believed.items, self.want, self.draining)
        if not self.known or not _LAYOUT.isdisjoint(pending) or self._fails(part):
            return self.full()
        return self._settle(self._partial(part))

    def drain(self) -> PassResult | None:
        """Check whether connections of some draining real servers have ended, others each time.

        Return None if none drains, the node's state is unknown, or the kernel refused one of the items before.
        """
        if not self.draining or not self.known:
            return None
        until = self._clock() - self.policy.max_drain if self.policy.max_drain else -math.inf
        chosen = drain_policy.turn(self.draining, self._drained, A_TURN, until)
        self._drained = chosen[-1]
        part = together(self._with_servers(set(chosen)), self._believed.items, self.want, self.draining)
        return None if self._fails(part) else self._noticed(self._partial(part))

    def _fails(self, part: Mapping[str, set[Any]]) -> bool:
        """Tell whether the kernel refused a part of it; skipped dependent steps leave their items unknown."""
        return any(not part.get(kind, set()).isdisjoint(keys) for kind, keys in self.failing.items())

    def _kept(self) -> dict[str, set[Any]]:
        """Return the draining real servers, and the items that may exist only because of them."""
        return self._with_servers(set(self.draining))

    def _with_servers(self, reals: set[Any]) -> dict[str, set[Any]]:
        """Return these real servers, their virtual servers, and where those are bound."""
        servers = {key.server for key in reals}
        return {"real_server": reals, "virtual_server": servers, **spots(self._believed.items, self.want, servers)}

    def _partial(self, part: Mapping[str, set[Any]]) -> PassResult:
        start = self._clock()
        with self.ledger.locked():
            return self._pass(self.ledger.open(), only(self._believed.items, part), only(self.want, part), part, start)

    def _pass(
        self, ledger: Ledger, have: State, want: State, part: Mapping[str, set[Any]] | None, start: float
    ) -> PassResult:
        """Plan ``have`` against ``want``, both whole or both the same part, and execute the plan."""
        draining = self._remembered(ledger)
        reals = draining if part is None else part["real_server"]
        elsewhere = {key: since for key, since in draining.items() if key not in reals}
        prepared, verdict = self._prepare(ledger, have, want, elsewhere)
        self._remember(ledger, {**elsewhere, **verdict})
        remember_holders(ledger, OWNER, self.new_holders)
        self.new_holders = {}
        saved_sysctls.note(ledger, OWNER, prepared.steps)
        spent: dict[str, float] = {}
        tables = timed(self._node.tables, spent, self._clock, self.progress)
        outcome = execute(prepared, tables, ledger, OWNER, keep_going=True)
        self._believed.record(outcome.done, prepared)
        return PassResult(
            part is None, outcome.done, outcome.failed, prepared.conflicts, [], self._clock() - start, spent
        )

    def _settle(self, report: PassResult) -> PassResult:
        """Clear the pending changes and, after a full pass, the failed items; then track this pass's."""
        self.known, self.pending = True, {}
        self.failing = {} if report.full else self.failing
        return self._noticed(report)

    def _noticed(self, report: PassResult) -> PassResult:
        """Track failed items. Each full pass retries them, and an event about one of them makes a full pass."""
        for step in report.done:
            self.failing.get(step.kind, set()).discard(step.key)
        for failure in report.failed:
            self.failing.setdefault(failure.step.kind, set()).add(failure.step.key)
        return report

    def _prepare(
        self, ledger: Ledger, have: State, want: State, elsewhere: Collection[Any]
    ) -> tuple[Plan, dict[Any, float]]:
        """Return the plan, and the drain start times after it."""
        claims = Claims(self._believed.owned, self._believed.others, self.policy.adopt)
        drain = Drain(self._remembered(ledger), self._clock(), self.policy.max_drain, self._node.connections, elsewhere)
        return make_plan(have, want, claims, drain, hold=self.policy.hold)

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

    def _known_items(self) -> list[tuple[str, Any]]:
        self._noted = {}  # the next pass writes the drain start times
        return self._believed.claims()
