# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of ``confirm_timeout``: after the change, confirm it over a new connection."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

_PAUSE = 1  # seconds between two attempts
_GRACE = 60  # seconds after the node's deadline to reach the node and read the outcome


class ConfirmingAction(ActionBase):
    """Action that runs the module of the task's name and confirms its change by a new connection.

    It confirms only if the module reports that its change waits for confirmation.
    """

    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, and confirm its change."""
        result = super().run(tmp, task_vars)
        if self._task.async_val and self._task.args.get("confirm_timeout") is not None:
            raise AnsibleActionFail("confirm_timeout and async exclude each other")
        result = merge_hash(result, self._change(task_vars))
        waiting = result.pop("confirm", None)
        if waiting:
            result.update(self._confirm(waiting["path"], waiting["seconds"]))
        return result

    def _change(self, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module and return its result."""
        wrap_async = self._task.async_val and not self._connection.has_native_async
        result = self._execute_module(task_vars=task_vars, wrap_async=wrap_async)
        if not wrap_async:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _confirm(self, path: str, seconds: int) -> dict[str, Any]:
        """Confirm the change by removing the node's file, and return the result fields with the outcome."""
        end = time.monotonic() + seconds + _GRACE
        while True:
            try:
                self._connection.reset()
                answer = self._low_level_execute_command(f"rm {shlex.quote(path)}")
                return {"confirmed": True} if answer["rc"] == 0 else self._undone(path, seconds, answer, end)
            except AnsibleConnectionFailure as error:
                if time.monotonic() > end:
                    message = (
                        f"the controller cannot reach the node after the change: {error}; the node undoes the change"
                        " by itself"
                    )
                    return {"failed": True, "confirmed": False, "msg": message}
                time.sleep(_PAUSE)

    def _undone(self, path: str, seconds: int, refused: dict[str, Any], end: float) -> dict[str, Any]:
        record = shlex.quote(f"{path}.undone")
        while time.monotonic() < end:
            answer = self._low_level_execute_command(f"cat {record}")
            if answer["rc"] != 0:
                return {
                    "failed": True,
                    "confirmed": False,
                    "msg": f"the change could not be confirmed: {refused['stderr']}",
                }
            report = json.loads(answer["stdout"])
            if "undone" in report:
                self._low_level_execute_command(f"rm {record}")
                message = f"no new connection reached the node within {seconds} seconds; the node has undone the change"
                if report["problems"]:
                    message += f", except: {'; '.join(report['problems'])}"
                changed = bool(report["problems"])
                return {
                    "failed": True,
                    "changed": changed,
                    "confirmed": False,
                    "msg": message,
                    "undone": report["undone"],
                }
            time.sleep(_PAUSE)
        return {"failed": True, "confirmed": False, "msg": "the node has not finished undoing the change in time"}
