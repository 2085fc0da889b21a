# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End of the agent's start, for systemd: the node has converged, or a short time has passed.

Units that are ordered after the agent's (the kubelet's is) start on a node that is served. But on a control plane's
node the kubelet starts the API server that the agent may wait for. Boot must not hang on it, so the start ends after a
short time in any case.
"""

from __future__ import annotations

import gc

from .loop import Loop, Timer
from .outputs.systemd import Notifier

PATIENCE = 10.0  # seconds after the first attempt
# Hardly anything here is garbage in cycles, and whatever is made anew in a large cluster is looked through for it: a
# change would wait.
_GARBAGE = (10_000, 50, 20)


class Start:
    """Begun by :meth:`begin`, over after :meth:`end` or by itself."""

    def __init__(self, loop: Loop, notifier: Notifier) -> None:
        self._loop = loop
        self._notifier = notifier
        self._patience: Timer | None = None
        self.over = False

    def begin(self) -> None:
        """Be over soon, whatever happens."""
        self._patience = self._loop.after(PATIENCE, self.end)

    def end(self) -> None:
        """Tell systemd, once; what is there now is there to stay."""
        if self.over:
            return
        self.over = True
        if self._patience is not None:
            self._patience.cancel()
        self._notifier.ready()
        gc.freeze()  # without collecting first: with 10,000 services that would take nine seconds of a lab node
        gc.enable()
        gc.set_threshold(*_GARBAGE)
