# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wiring of the agent: which part gets which others.

Its life is in :mod:`.lifecycle`, and :mod:`.pass_scheduler` decides when a pass runs. The parts that only a running
agent needs are wired in :mod:`.watchers_and_outputs`, after the first pass.
"""

from __future__ import annotations

from ..engine.proxy.node import Node
from ..log import Log
from . import tools
from .inputs.desired_state import DesiredState, Options
from .lifecycle import Lifecycle, Watchdog
from .loop import Loop
from .outputs.pass_log import PassLog
from .outputs.systemd import Notifier, StatusLine
from .pass_scheduler import PassScheduler
from .sync.reconciler import Reconciler
from .sync.sync_policy import SyncPolicy


class Agent:
    """One agent and its parts."""

    def __init__(self, options: Options, log: Log) -> None:
        self.notifier = Notifier()
        loop = Loop()
        self.watchdog = Watchdog(loop, self.notifier)
        tools.bound(self.notifier.watchdog, self.watchdog.progress)
        node = Node()
        reconciler = Reconciler(node, options.run, policy=SyncPolicy(adopt=options.adopt))
        desired = DesiredState(options, log, reconciler.ledger.owned)
        reconciler.progress = self.watchdog.progress
        reconciler.ledger.notice = lambda text: log.warning("ledger recreated", reason=text)
        self.passes = PassScheduler(loop, log, desired, reconciler, self.watchdog.progress)
        self.lifecycle = Lifecycle(self.passes, self.notifier, self.watchdog, options.run)
        self.passes.subscribe(PassLog(self.passes), StatusLine(self.passes, self.notifier), self.lifecycle)

    def run(self) -> int:
        """Run the agent until SIGTERM; return the exit status.

        Raises:
            EngineError: another agent runs here already.
        """
        return self.lifecycle.run()
