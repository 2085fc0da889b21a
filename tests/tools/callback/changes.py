# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback for tests: records the changes of each task on each host.

It can kill the whole run at the begin of a task, like a power cut.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: changes
type: notification
short_description: Write down what changed
version_added: 0.1.0
description:
  - Appends a line of JSON for each changed or failed task of a host to the file that the environment variable CHANGES
    names.
  - Kills the run when the task begins whose name is in the environment variable CHANGES_STOP_AT.
author:
  - The kubenode.ipvs maintainers
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "changes"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if task.get_name() == os.environ.get("CHANGES_STOP_AT"):
            os.kill(os.getpid(), signal.SIGKILL)

    def v2_runner_on_ok(self, result: Any) -> None:
        if result._result.get("changed"):
            self._note(result, "changed")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._note(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._note(result, "unreachable")

    def _note(self, result: Any, what: str) -> None:
        """Record a task's result; a loop is one task, with the differences of all items."""
        answer = result._result
        parts = answer.get("results", [answer])
        differences: list[Any] = []
        for part in parts:
            differences_of = part.get("diff") or []
            differences += differences_of if isinstance(differences_of, list) else [differences_of]
        note = {
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "what": what,
            "lines": [line for part in parts for line in part.get("lines") or ()],
            "diff": [each for each in differences if each.get("before") != each.get("after") or each.get("prepared")],
        }
        if what != "changed":
            note["msg"] = str(answer.get("msg", ""))
        with open(os.environ["CHANGES"], "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")
