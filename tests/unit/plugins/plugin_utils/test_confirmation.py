# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of ``confirm_timeout``: its result when a node answers, answers late, or does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.kubenode.ipvs.plugins.plugin_utils import confirmation

PATH = "/run/kubenode-confirm/x y"
DOWN = AnsibleConnectionFailure("no route")


def answer(rc: int, stdout: str = "", stderr: str = "") -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


class Node(confirmation.ConfirmingAction):
    """A node with scripted answers to requests, each after a new connection."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.commands = list(answers), []
        self._connection = self

    def reset(self) -> None:
        self.commands.append("reset")

    def _low_level_execute_command(self, cmd: str, *_arguments: Any, **_options: Any) -> Any:
        self.commands.append(cmd)
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "_PAUSE", 0)


def test_a_new_connection_confirms() -> None:
    node = Node(answer(0))
    assert node._confirm(PATH, 5) == {"confirmed": True}
    assert node.commands == ["reset", f"rm '{PATH}'"]


def test_confirmation_is_retried_with_new_connections() -> None:
    node = Node(DOWN, DOWN, answer(0))
    assert node._confirm(PATH, 5) == {"confirmed": True}
    assert node.commands == ["reset", f"rm '{PATH}'"] * 3


def test_undone_change_is_reported_and_its_record_removed() -> None:
    begun = json.dumps({"owner": "ansible", "lines": ["+ x"]})
    report = json.dumps({"owner": "ansible", "undone": ["- x"], "problems": []})
    node = Node(DOWN, answer(1, stderr="no such file"), answer(0, begun), answer(0, report), answer(0))
    assert node._confirm(PATH, 5) == {
        "failed": True,
        "changed": False,
        "confirmed": False,
        "msg": "no new connection reached the node within 5 seconds; the node has undone the change",
        "undone": ["- x"],
    }
    assert node.commands[-3:] == [f"cat '{PATH}.undone'", f"cat '{PATH}.undone'", f"rm '{PATH}.undone'"]


def test_items_that_could_not_be_undone_are_named() -> None:
    report = json.dumps(
        {"owner": "ansible", "undone": [], "problems": ["sysctl a.b: another process has changed it since"]}
    )
    result = Node(answer(1), answer(0, report), answer(0))._confirm(PATH, 5)
    assert result["changed"]
    assert result["msg"].endswith(
        "the node has undone the change, except: sysctl a.b: another process has changed it since"
    )


def test_a_confirmation_that_is_refused_is_an_error() -> None:
    result = Node(answer(1, stderr="rm: Permission denied"), answer(1))._confirm(PATH, 5)
    assert result == {
        "failed": True,
        "confirmed": False,
        "msg": "the change could not be confirmed: rm: Permission denied",
    }


def test_unreachable_node_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "_GRACE", -5)  # its time is over at once
    result = Node(DOWN)._confirm(PATH, 5)
    assert (result["failed"], result["confirmed"]) == (True, False)
    assert (
        result["msg"]
        == "the controller cannot reach the node after the change: no route; the node undoes the change by itself"
    )
