# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time limits of the tools that the agent runs.

A hung tool ends in an error that names it, before the watchdog ends the agent.
"""

from __future__ import annotations

from collections.abc import Callable

from ..engine.kernel.command import Limits, limit
from ..engine.kernel.iptables.tool import wait_for_lock

_SECONDS = 20.0
_LOCK_SECONDS = 2  # the agent tries again, and handles other work meanwhile
_SHARE = 2 / 3  # of the time between two signs of life, which is half of the watchdog's


def bound(watchdog: float, progress: Callable[[], None]) -> None:
    """Limit tools to less than the watchdog, which expects a sign of life every ``watchdog`` seconds (0: never).

    ``progress`` is called before each tool, so that several slow tools in a row do not look like one that hangs.
    """
    limit(Limits(min(_SECONDS, watchdog * _SHARE) if watchdog else _SECONDS, progress))
    wait_for_lock(_LOCK_SECONDS)
