# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS settings of the whole network namespace as items: timeouts and synchronisation daemons."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...errors import EngineError
from ...model.step import Step
from .. import Failure, Result
from .control import Timeouts, daemons, get_timeouts, set_timeouts, start_daemon, stop_daemon


def read(kinds: Collection[str]) -> dict[str, dict[Any, Any]]:
    """Return the items of the requested kinds among ``ipvs_timeout`` and ``sync_daemon``.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    items: dict[str, dict[Any, Any]] = {}
    if "ipvs_timeout" in kinds:
        items["ipvs_timeout"] = get_timeouts()._asdict()
    if "sync_daemon" in kinds:
        items["sync_daemon"] = daemons()
    return items


def apply(steps: list[Step], keep_going: bool = False) -> Result:
    """Execute steps in their order.

    The kernel cannot change a daemon. It is stopped, and started with other settings.
    """
    result = Result([], [])
    for step in steps:
        try:
            _make_true(step)
        except EngineError as error:
            result.failed.append(Failure(step, str(error)))
            if not keep_going:
                break
        else:
            result.done.append(step)
    return result


def _make_true(step: Step) -> None:
    if step.kind == "ipvs_timeout":
        set_timeouts(Timeouts()._replace(**{step.key: step.after}))
        return
    if step.before is not None:
        stop_daemon(step.key)
    if step.after is not None:
        try:
            start_daemon(step.key, step.after)
        except EngineError:
            if step.before is not None:
                start_daemon(step.key, step.before)
            raise
