# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's life: load, converge, serve, and from then on follow files, the kernel, the clock and signals.

Nothing that is missing ends it. No configuration that can be used, no manifests yet, no ip_vs: it says what it waits
for and tries again. What only a running agent needs is imported after the first convergence.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from ..engine.errors import EngineError, LockedError
from ..engine.proxy.node import Node
from ..log import Log
from ..paths import SOCKET
from . import tools
from .inputs.desired_state import DesiredState, Options
from .loop import Loop, Timer
from .outputs.control import answers
from .outputs.summary import summary
from .outputs.systemd import Notifier
from .pass_result import PassResult
from .start import Start
from .sync import ipvs_timeouts as timeouts
from .sync.drain_timer import DrainTimer
from .sync.reconciler import Reconciler
from .sync.sync_policy import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Generator

    from .serving import Serving

_SOURCE_RETRY = 1.0
_FIRST_RETRY = 1.0
_STATUS_PAUSE = 1.0  # between two lines for systemd, which does a lot for each
_LOCKED_RETRY = 0.5
# seconds that another process may hold the lock before it is a problem: a module with a large table does
_LOCKED_QUIETLY = 10.0
_UNASKED = ("event", "period", "kernel event", "events lost")  # reasons of passes that may have had nothing to do
_MOST_STARTING = 300  # seconds that systemd is asked for while the first convergence goes on


class Agent:
    """One agent, from :meth:`run` to SIGTERM. What the kernel holds stays when it ends."""

    def __init__(self, options: Options, log: Log) -> None:
        self.options = options
        self.log = log
        self.loop = Loop()
        self.notifier = Notifier()
        self._start = Start(self.loop, self.notifier)
        self.started = time.time()
        self.desired = DesiredState(options, log)
        self.reconciler = Reconciler(Node(), options.run, policy=SyncPolicy(adopt=options.adopt))
        self.reconciler.progress = self._progress
        self.reconciler.ledger.notice = lambda text: self.log.warning("ledger made anew", reason=text)
        tools.bound(self.notifier.watchdog, self._progress)
        self.trouble = ""  # why the last pass did not get through
        self.last: PassResult | None = None  # the last full pass
        self.failures: dict[str, str] = {}  # item -> why the kernel refused it
        self.conflicts: list[str] = []
        self._serving: Serving | None = None
        self._periodic: Timer | None = None
        self._retry: Timer | None = None
        self._draining = DrainTimer(
            self.loop, self.reconciler, lambda report: self._passed(report, "draining"), self._drain_failed
        )
        self._event: Timer | None = None
        self._telling: Timer | None = None
        self._told_at = 0.0
        self._alive_at = time.monotonic()
        self._backoff = _FIRST_RETRY
        self._synced_at = 0.0
        self._locked_at = 0.0  # since when another process holds the node's lock, 0 if none does
        self._status = 0

    # life

    def run(self) -> int:
        """Live; return the exit status.

        Raises:
            EngineError: another agent runs here already.
        """
        socket = os.path.join(self.options.run, SOCKET)
        if answers(socket):
            raise EngineError(f"another agent is running: it answers at {socket}")
        for number, callback in (
            (signal.SIGTERM, self._stop),
            (signal.SIGINT, self._stop),
            (signal.SIGHUP, self.reload),
            (signal.SIGUSR1, self._dump),
        ):
            self.loop.on_signal(number, callback)
        self.loop.after(0, self._begin)
        if self.notifier.watchdog:
            self._beat()
        try:
            self.loop.run()
        finally:
            if self._serving is not None:
                self._serving.close()
            self.desired.close()
            self.reconciler.close()
            self.loop.close()
        return self._status

    def _begin(self) -> None:
        self.notifier.status("starting")
        self.notifier.extend(_MOST_STARTING)
        self.desired.configure()
        self.full("start")
        from .memory import trim_regularly  # what has to wait until the node is served
        from .serving import Serving

        self._serving = Serving(self)
        if self.last is not None:
            self._serving.passed(self.last, "start")
        self._serving.configured()
        self._start.begin()
        trim_regularly(self.loop)
        if self.reconciler.synced and not self.waiting:
            self._start.end()

    def _stop(self) -> None:
        self.notifier.stopping()
        self.log.info("stopping; what the kernel holds stays in place")
        self.loop.stop()

    def fail(self, reason: str) -> None:
        """End with an error. What the kernel holds stays in place."""
        self.log.error("ending", reason=reason)
        self._status = 1
        self.notifier.stopping()
        self.loop.stop()

    def _beat(self) -> None:
        self._alive()
        self.loop.after(self.notifier.watchdog, self._beat)

    def _alive(self) -> None:
        self._alive_at = time.monotonic()
        self.notifier.alive()
        if not self._start.over:
            self.notifier.extend(_MOST_STARTING)

    def _progress(self) -> None:
        """What takes long, and gets on, does not hang."""
        if self.notifier.watchdog and time.monotonic() - self._alive_at >= self.notifier.watchdog:
            self._alive()

    def _dump(self) -> None:
        from .outputs.status import dump

        dump(self)

    def reload(self) -> None:
        """Read configuration and manifests again and compare everything."""
        self.log.info("reloading")
        if self._start.over:
            self.notifier.reloading()
        self.desired.configure()
        self.full("reload")
        if self._serving is not None:
            self._serving.configured()
        if self._start.over:
            self.notifier.ready()

    @property
    def waiting(self) -> str:
        """Say what nothing can be done without, "" if nothing is missing."""
        return self.desired.waiting or self.trouble

    # making it so

    def changed(self) -> None:
        """Something that is wanted has changed: make it so, at once or as soon as ``minSyncPeriod`` allows."""
        if self._serving is not None:
            self._serving.queued()
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
            self._event = self.loop.after(0, self._changed)  # the rest when others had their turn
            return
        self._pass(False, "event")

    def full(self, reason: str) -> None:
        """Compare everything with the kernel and make it right."""
        self._pass(True, reason)

    def look(self) -> None:
        """Compare everything again, in slices, so that changes need not wait for it.

        If something is missing or is to be repaired, make a full pass at once instead.
        """
        if self.waiting or self.reconciler.policy.hold or not self.reconciler.synced:
            self.full("period")
            return
        try:
            timeouts.follow(self.desired.config)
        except EngineError as error:
            self._trouble(error)
        else:
            self._compare(self.reconciler.compare())

    def _compare(self, comparison: Generator[None, None, PassResult | None]) -> None:
        try:
            next(comparison)
        except StopIteration as end:
            if end.value is not None:
                self._passed(end.value, "period")
        except EngineError as error:
            self._trouble(error)
        else:
            self.loop.after(0, lambda: self._compare(comparison))

    def _trouble(self, error: EngineError) -> None:
        """Nothing is known about the node any more: say so, and try again."""
        self.reconciler.known = False
        if isinstance(error, LockedError):
            self._locked_at = self._locked_at or time.monotonic()
            if time.monotonic() - self._locked_at < _LOCKED_QUIETLY:
                self._wait(_LOCKED_RETRY)
                return
        self.trouble = str(error)
        self.log.error("cannot converge", reason=self.trouble)
        if isinstance(error, LockedError):
            self._wait(_LOCKED_RETRY)
            return
        self._wait(self._backoff)
        self._backoff = min(self._backoff * 2, self.desired.config.sync_period)

    def _pass(self, whole: bool, reason: str) -> None:
        if self.desired.waiting:
            self.desired.refresh()
        if self.desired.waiting:
            self._wait(_SOURCE_RETRY)
            return
        policy, hold = self.reconciler.policy, not self.desired.complete
        whole = whole or (policy.hold and not hold)  # what was kept because not everything was known can go now
        most = self.desired.config.graceful_max_duration
        self.reconciler.policy = policy._replace(hold=hold, max_drain=most)
        try:
            if whole:
                timeouts.follow(self.desired.config)
            for _left in self.desired.settling():
                self._progress()
            changes, everything = self.desired.take(self.reconciler.holders)
            self.reconciler.accept(changes, whole=everything)
            self.reconciler.new_holders.update(self.desired.take_holders())
            if self.reconciler.policy.adopt:
                self.desired.report()  # before it goes: what of kube-proxy's is not served any more
            report = self.reconciler.full() if whole else self.reconciler.changed()
        except EngineError as error:
            self._trouble(error)
            return
        self.trouble, self._locked_at = "", 0.0
        self._synced_at = time.monotonic()
        self.desired.report()
        if report is not None:
            self._passed(report, reason)
        elif self._serving is not None:  # nothing for the kernel, but perhaps for health checks and UDP flows
            self._serving.passed(PassResult(False, [], [], [], [], 0.0, {}), reason)

    def _wait(self, seconds: float) -> None:
        self._tell()
        if self.desired.elsewhere:
            self._draining.rest()
        if self._serving is not None:
            self._serving.held_up()
        if self._retry is None or not self._retry.pending:
            self._retry = self.loop.after(seconds, self._again)

    def _again(self) -> None:
        if self.desired.cluster is None:
            self.desired.configure()
        self.full("retry")

    def _passed(self, report: PassResult, reason: str) -> None:
        """Remember and report what a pass did, and arrange for the next."""
        if report.full:
            self.last = report
            self.failures = {}
            self.conflicts = [conflict.describe() for conflict in report.conflicts]
            if self._periodic is not None:
                self._periodic.cancel()
            self._periodic = self.loop.after(self.desired.config.sync_period, self.look)
        whose = self.desired.objects
        for step in report.done if self.failures else ():
            self.failures.pop(step.describe(), None)
        self.failures.update((failure.step.describe(), failure.message) for failure in report.failed)
        failed = self.log.first("step failed", report.failed)
        for failure, its in zip(failed, whose([failure.step for failure in failed])):
            self.log.error("step failed", **its, step=failure.step.describe(), reason=failure.message)
        conflicts = self.log.first("left alone", report.conflicts)
        for conflict, its in zip(conflicts, whose(conflicts)):
            self.log.warning("left alone", **its, reason=conflict.describe())
        for text in self.reconciler.ledger.problems():
            self.log.warning("ledger row ignored", reason=text)
        if self.log.level >= 7:
            for step, its in zip(report.done, whose(report.done)):
                self.log.debug("step", **its, step=step.describe(), reason=reason)
        if report.failed:
            self.log.warning("converged in part", reason=reason, steps=len(report.done), failed=len(report.failed))
        elif len(report.done) > len(report.drift) or reason not in _UNASKED:  # what was healed has lines of its own
            # a large cluster changes many times a second
            say = self.log.debug if reason in ("event", "draining") else self.log.info
            say("converged", reason=reason, steps=len(report.done), seconds=f"{report.seconds:.3f}")
        if report.failed:
            self._wait(self._backoff)
            self._backoff = min(self._backoff * 2, self.desired.config.sync_period)
        elif self.reconciler.synced:
            self._backoff = _FIRST_RETRY
        if reason != "draining":
            self._draining.watch()
        if self._serving is not None:
            self._serving.passed(report, reason)
        self._tell()
        if self._serving is not None and self.reconciler.synced:
            self._start.end()

    def _tell(self) -> None:
        """Have systemd show how we are: at once, or together with what else comes within a second."""
        wait = self._told_at + _STATUS_PAUSE - time.monotonic()
        if wait <= 0 or not self._start.over:
            self._told_at = time.monotonic()
            self.notifier.status(f"waiting: {self.waiting}" if self.waiting else summary(self))
        elif self._telling is None or not self._telling.pending:
            self._telling = self.loop.after(wait, self._tell)

    def _drain_failed(self, error: EngineError) -> None:
        if isinstance(error, LockedError):
            self._trouble(error)
            return
        self.log.error("cannot look after draining real servers", reason=str(error))
        self.reconciler.known = False
        self._wait(self._backoff)
