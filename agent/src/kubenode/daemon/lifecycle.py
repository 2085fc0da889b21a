# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Life of the agent: signals, start, reload, watchdog, end.

The start converges the node first, and imports and starts everything else afterwards.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from ..container import is_in_container
from ..engine.errors import EngineError
from ..engine.proxy.node import set_oom_score
from ..paths import SOCKET
from .loop import Loop, Timer
from .outputs.control import answers
from .outputs.systemd import Notifier
from .pass_result import PassResult, PassSubscriber
from .pass_scheduler import PassScheduler

if TYPE_CHECKING:
    from .watchers_and_outputs import WatchersAndOutputs

# Units that are ordered after the agent's (the kubelet's is) start on a node that is served. But on a control plane's
# node the kubelet starts the API server that the agent may wait for: boot must not hang on it.
_LONGEST_START = 10.0  # seconds after the first attempt until systemd is told that the agent has started
_LONGEST_FIRST_PASS = 300  # seconds that systemd is asked for while the first pass goes on
_RETRY = 1.0


class Watchdog:
    """Signs of life for systemd, from the loop and from long work that goes on."""

    def __init__(self, loop: Loop, notifier: Notifier) -> None:
        self._loop = loop
        self._notifier = notifier
        self._alive_at = time.monotonic()

    def beat(self) -> None:
        """Send a sign of life now and regularly, if systemd expects any."""
        if self._notifier.watchdog:
            self._alive()
            self._loop.after(self._notifier.watchdog, self.beat)

    def progress(self) -> None:
        """Send a sign of life if one is due: long work that goes on does not hang."""
        if self._notifier.watchdog and time.monotonic() - self._alive_at >= self._notifier.watchdog:
            self._alive()

    def _alive(self) -> None:
        self._alive_at = time.monotonic()
        self._notifier.alive()
        if not self._notifier.started:
            self._notifier.extend(_LONGEST_FIRST_PASS)


class Lifecycle(PassSubscriber):
    """One life of the agent, from :meth:`run` to SIGTERM. The kernel keeps its items when it ends."""

    def __init__(self, passes: PassScheduler, notifier: Notifier, watchdog: Watchdog, run_directory: str) -> None:
        self.parts: WatchersAndOutputs | None = None  # started after the first pass
        self._passes = passes
        self._loop = passes.loop
        self._log = passes.log
        self._notifier = notifier
        self._watchdog = watchdog
        self._socket = os.path.join(run_directory, SOCKET)
        self._patience: Timer | None = None
        self._status = 0

    def run(self) -> int:
        """Live; return the exit status.

        Raises:
            EngineError: another agent runs here already.
        """
        if answers(self._socket):
            raise EngineError(f"another agent is running: it answers at {self._socket}")
        for number, callback in (
            (signal.SIGTERM, self._stop),
            (signal.SIGINT, self._stop),
            (signal.SIGHUP, self.reload),
            (signal.SIGUSR1, self._dump),
        ):
            self._loop.on_signal(number, callback)
        self._loop.after(0, self._begin)
        self._watchdog.beat()
        try:
            self._loop.run()
        finally:
            if self.parts is not None:
                self.parts.close()
            self._passes.desired.close()
            self._passes.reconciler.close()
            self._loop.close()
        return self._status

    # start

    def _begin(self) -> None:
        """Converge, then start what only a running agent needs."""
        passes = self._passes
        self._notifier.status("starting")
        self._notifier.extend(_LONGEST_FIRST_PASS)
        passes.desired.configure()
        passes.full("start")
        from .memory import trim_regularly  # imports that the first pass does not wait for
        from .watchers_and_outputs import WatchersAndOutputs

        self.parts = WatchersAndOutputs(passes, self._socket, self.fail)
        self.parts.begin()
        self._use_configuration()
        self._patience = self._loop.after(_LONGEST_START, self._end_start)
        trim_regularly(self._loop)
        if passes.reconciler.synced and not passes.waiting:
            self._end_start()

    def passed(self, _result: PassResult, _reason: str) -> None:
        """End the start when the node has converged."""
        if self.parts is not None and self._passes.reconciler.synced:
            self._end_start()

    def _end_start(self) -> None:
        """Tell systemd once that the agent has started; the objects that exist now are there to stay."""
        if self._notifier.started:
            return
        if self._patience is not None:
            self._patience.cancel()
        self._notifier.ready()
        from .memory import keep_objects  # as in _begin

        keep_objects()

    # reload

    def reload(self) -> None:
        """Read configuration and manifests again and compare everything."""
        self._log.info("reloading")
        if self._notifier.started:
            self._notifier.reloading()
        self._passes.desired.configure()
        self._passes.full("reload")
        self._use_configuration()
        if self._notifier.started:
            self._notifier.ready()

    def _use_configuration(self) -> None:
        """Apply the settings of the process and of its parts, once these are started."""
        if self.parts is None:
            return
        score = self._passes.desired.config.oom_score_adj
        try:
            if not is_in_container():  # kubelet sets a pod's, by its priority class
                set_oom_score(score)
        except OSError as error:
            self._log.warning("oomScoreAdj not applied", wanted=score, reason=str(error.strerror))
        try:
            self.parts.configured()
        except OSError as error:  # code that is imported late, while no descriptor is free
            self._log.error("configuration not applied to all parts; tried again soon", reason=str(error))
            self._loop.after(_RETRY, self._use_configuration)

    # end

    def _stop(self) -> None:
        self._notifier.stopping()
        self._log.info("stopping; the state of the kernel stays in place")
        self._loop.stop()

    def fail(self, reason: str) -> None:
        """Stop with an error. The kernel keeps its items."""
        self._log.error("stopped after an error", reason=reason)
        self._status = 1
        self._notifier.stopping()
        self._loop.stop()

    def _dump(self) -> None:
        from .outputs.status import dump

        dump(self._passes)
