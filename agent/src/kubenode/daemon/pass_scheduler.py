# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedule passes: after changes, periodically, on request, and again after failures with back-off.

A pass that is not possible ends nothing. The agent waits for a usable configuration, for manifests or for ip_vs, and
tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from ..engine.errors import LockedError
from ..log import Log
from .inputs.desired_state import DesiredState
from .loop import Loop, Timer
from .pass_result import KERNEL_EVENT, NOTHING_TO_DO, STOPPED, PassRecord, PassResult, PassSubscriber
from .sync import ipvs_timeouts
from .sync.drain_timer import DrainTimer
from .sync.reconciler import Reconciler

_SOURCE_RETRY = 1.0
_FIRST_RETRY = 1.0
_LOCKED_RETRY = 0.5
# seconds that another process may hold the lock before it is a problem: a module with a large table does
_LOCKED_QUIETLY = 10.0


class PassScheduler:
    """Runs passes of the reconciler towards the desired state, and tells its subscribers.

    ``progress`` is called again and again while the desired state is worked out.
    """

    def __init__(
        self, loop: Loop, log: Log, desired: DesiredState, reconciler: Reconciler, progress: Callable[[], None]
    ) -> None:
        self.loop = loop
        self.log = log
        self.desired = desired
        self.reconciler = reconciler
        self.record = PassRecord()
        self.started = time.time()
        self._progress = progress
        self._subscribers: list[PassSubscriber] = []
        self._draining = DrainTimer(
            loop, reconciler, lambda result: self._passed(result, "draining"), self._drain_failed
        )
        self._periodic: Timer | None = None
        self._retry: Timer | None = None
        self._event: Timer | None = None
        self._backoff = _FIRST_RETRY
        self._synced_at = 0.0  # when the last pass got through
        self._locked_at = 0.0  # since when another process holds the node's lock, 0 if none does

    def subscribe(self, *subscribers: PassSubscriber) -> None:
        """Tell these of passes, before those that subscribed earlier: they sum up."""
        self._subscribers[:0] = subscribers

    def unsubscribe(self, subscriber: PassSubscriber) -> None:
        """Tell this one no more."""
        self._subscribers.remove(subscriber)

    @property
    def waiting(self) -> str:
        """Return what the agent waits for, "" for nothing."""
        return self.desired.waiting or self.record.trouble

    # requests

    def changed(self) -> None:
        """Apply changes of the desired state, at once or as soon as ``minSyncPeriod`` allows."""
        for subscriber in self._subscribers:
            subscriber.queued()
        if self._event is not None and self._event.pending:
            return
        wait = self._synced_at + self.desired.config.min_sync_period - time.monotonic()
        if wait > 0:
            self._event = self.loop.after(wait, self._changed)
        else:
            self._changed()

    def _changed(self) -> None:
        if next(self.desired.settling(), None) is not None:
            self._progress()
            self._event = self.loop.after(0, self._changed)  # the rest after other callbacks
            return
        self._pass(False, "event")

    def full(self, reason: str) -> None:
        """Compare the kernel with the desired state and repair it now."""
        self._pass(True, reason)

    def look(self) -> None:
        """Compare the kernel with the desired state in slices, so that changes need not wait for it.

        If something is missing or is to be repaired, make a full pass at once instead.
        """
        if self.waiting or self.reconciler.policy.hold or not self.reconciler.synced:
            self.full("period")
            return
        try:
            ipvs_timeouts.follow(self.desired.config)
        except STOPPED as error:
            self._trouble(error)
        else:
            self._compare(self.reconciler.compare())

    def look_at_rules(self) -> None:
        """Do as :meth:`look` after another process changed rules: compare tables of nftables alone, if it has any.

        Without its rules, new connections are not masqueraded. So the repair does not wait for the comparison of all
        virtual servers.
        """
        policy, known = self.reconciler.policy, not self.waiting and self.reconciler.synced
        if not known or policy.hold or policy.adopt or not self.reconciler.want.get("nft_table"):
            self.look()
            return
        try:
            result = self.reconciler.repair_rules()
        except STOPPED as error:
            self._trouble(error)
        else:
            self._passed(result, KERNEL_EVENT)

    def _compare(self, comparison: Generator[None, None, PassResult | None]) -> None:
        try:
            next(comparison)
        except StopIteration as end:
            if end.value is not None:
                self._passed(end.value, "period")
        except STOPPED as error:
            self._trouble(error)
        else:
            self.loop.after(0, lambda: self._compare(comparison))

    # a pass

    def _pass(self, whole: bool, reason: str) -> None:
        if self.desired.waiting:
            self.desired.refresh()
        if self.desired.waiting:
            self._wait(_SOURCE_RETRY)
            return
        whole = self._use_policy() or whole
        try:
            if whole:
                ipvs_timeouts.follow(self.desired.config)
            for _left in self.desired.settling():
                self._progress()
            changes, everything = self.desired.take(self.reconciler.holders)
            for subscriber in self._subscribers:
                subscriber.changing(changes, everything)
            self.reconciler.accept(changes, whole=everything)
            self.reconciler.new_holders.update(self.desired.take_holders())
            if self.reconciler.policy.adopt:
                self.desired.report()  # names what kube-proxy serves and the agent does not, before it goes
            result = self.reconciler.full() if whole else self.reconciler.changed()
        except STOPPED as error:
            self._trouble(error)
            return
        self.record.trouble, self._locked_at = "", 0.0
        self._synced_at = time.monotonic()
        self.desired.report()
        if result is not None:
            self._passed(result, reason)
        else:  # nothing for the kernel, but perhaps for health checks and UDP flows
            self._publish(NOTHING_TO_DO, reason)

    def _use_policy(self) -> bool:
        """Bring the reconciler's policy up to date; tell whether removals were held and may go now."""
        before, hold = self.reconciler.policy, not self.desired.complete
        self.reconciler.policy = before._replace(hold=hold, max_drain=self.desired.config.graceful_max_duration)
        return before.hold and not hold

    def _passed(self, result: PassResult, reason: str) -> None:
        """Record and publish a pass, and arrange for the next."""
        self.record.add(result)
        if result.full:
            if self._periodic is not None:
                self._periodic.cancel()
            self._periodic = self.loop.after(self.desired.config.sync_period, self.look)
        if result.failed:
            self._back_off()
        elif self.reconciler.synced:
            self._backoff = _FIRST_RETRY
            if self._retry is not None:
                self._retry.cancel()  # what it waited for has come
        if reason != "draining":
            self._draining.watch()
        self._publish(result, reason)

    def _publish(self, result: PassResult, reason: str) -> None:
        for subscriber in self._subscribers:
            subscriber.passed(result, reason)

    # failures

    def _trouble(self, error: Exception) -> None:
        """Retry a pass that was stopped by an error; the node's state is unknown until then."""
        self.reconciler.known = False
        if isinstance(error, LockedError):
            self._locked_at = self._locked_at or time.monotonic()
            if time.monotonic() - self._locked_at < _LOCKED_QUIETLY:
                self._wait(_LOCKED_RETRY)
                return
        self.record.trouble = str(error)
        self.log.error("cannot converge", reason=self.record.trouble)
        if isinstance(error, LockedError):
            self._wait(_LOCKED_RETRY)
        else:
            self._back_off()

    def _drain_failed(self, error: Exception) -> None:
        if isinstance(error, LockedError):
            self._trouble(error)
            return
        self.log.error("drain check failed", reason=str(error))
        self.reconciler.known = False
        self._wait(self._backoff)

    def _back_off(self) -> None:
        self._wait(self._backoff)
        self._backoff = min(self._backoff * 2, self.desired.config.sync_period)

    def _wait(self, seconds: float) -> None:
        """Retry in so many seconds, or when a retry is due already."""
        if self.desired.elsewhere:
            self._draining.rest()
        for subscriber in self._subscribers:
            subscriber.delayed()
        if self._retry is None or not self._retry.pending:
            self._retry = self.loop.after(seconds, self._again)

    def _again(self) -> None:
        if self.desired.cluster is None:
            self.desired.configure()
        self.full("retry")
