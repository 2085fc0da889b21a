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


def test_it_is_tried_again_with_a_new_connection_each_time() -> None:
    node = Node(DOWN, DOWN, answer(0))
    assert node._confirm(PATH, 5) == {"confirmed": True}
    assert node.commands == ["reset", f"rm '{PATH}'"] * 3


def test_a_change_that_was_undone_is_told_and_its_record_goes() -> None:
    begun = json.dumps({"owner": "ansible", "lines": ["+ x"]})
    report = json.dumps({"owner": "ansible", "undone": ["- x"], "problems": []})
    node = Node(DOWN, answer(1, stderr="no such file"), answer(0, begun), answer(0, report), answer(0))
    assert node._confirm(PATH, 5) == {
        "failed": True,
        "changed": False,
        "confirmed": False,
        "msg": "the node was not reached anew within 5 seconds after the change and has undone it",
        "undone": ["- x"],
    }
    assert node.commands[-3:] == [f"cat '{PATH}.undone'", f"cat '{PATH}.undone'", f"rm '{PATH}.undone'"]


def test_what_could_not_be_undone_is_named() -> None:
    report = json.dumps({"owner": "ansible", "undone": [], "problems": ["sysctl a.b: not as the change left it"]})
    found = Node(answer(1), answer(0, report), answer(0))._confirm(PATH, 5)
    assert found["changed"]
    assert found["msg"].endswith("and has undone it, but for: sysctl a.b: not as the change left it")


def test_a_confirmation_that_is_refused_is_an_error() -> None:
    found = Node(answer(1, stderr="rm: Permission denied"), answer(1))._confirm(PATH, 5)
    assert found == {
        "failed": True,
        "confirmed": False,
        "msg": "the change could not be confirmed: rm: Permission denied",
    }


def test_a_node_that_does_not_come_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "_GRACE", -5)  # its time is over at once
    found = Node(DOWN)._confirm(PATH, 5)
    assert (found["failed"], found["confirmed"]) == (True, False)
    assert (
        found["msg"]
        == "after the change the node could not be reached any more: no route; it undoes the change by itself"
    )
