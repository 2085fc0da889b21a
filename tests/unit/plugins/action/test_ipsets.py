# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of ``ipsets``: a directory stands for the node, and records what would run there."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.playbook.task import Task

from ansible_collections.kubenode.ipvs.plugins.action.ipsets import ActionModule


class OnNode(ActionModule):
    """The action plugin with a directory as its node; ``answer`` is the module's result."""

    def __init__(self, arguments: dict[str, Any], files: Path, node: Path) -> None:
        task = Task()
        task.args = arguments
        shell = SimpleNamespace(tmpdir=None, join_path=lambda *parts: "/".join(parts))
        super().__init__(
            task,
            SimpleNamespace(_shell=shell),
            SimpleNamespace(),
            SimpleNamespace(get_real_file=str),
            SimpleNamespace(),
            None,
        )
        self.files, self.node = files, node
        self.answer: dict[str, Any] = {"changed": False}
        self.arguments: dict[str, Any] = {}
        self.texts: list[str] = []

    def _find_needle(self, dirname: str, needle: str) -> str:
        path = self.files / needle
        if not path.exists():
            raise AnsibleError(f"could not find {dirname}/{needle}")
        return str(path)

    def _make_tmp_path(self, *_: Any) -> str:
        self._connection._shell.tmpdir = str(self.node)
        return str(self.node)

    def _transfer_file(self, local_path: str, remote_path: str) -> str:
        return str(shutil.copy(local_path, remote_path))

    def _fixup_perms2(self, *_: Any, **__: Any) -> None:
        pass

    def _remove_tmp_path(self, tmp_path: str, *_: Any) -> None:
        shutil.rmtree(tmp_path)

    def _execute_module(self, *_: Any, **options: Any) -> dict[str, Any]:
        self.arguments = options["module_args"]
        self.texts = [Path(one["src"]).read_text() for one in self.arguments["sets"] if one.get("remote_src")]
        return dict(self.answer)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    files, node = tmp_path / "files", tmp_path / "node"
    files.mkdir()
    node.mkdir()
    (files / "a.txt").write_text("192.0.2.1\n")
    (files / "b.txt").write_text("192.0.2.2\n")
    return files, node


def test_controller_files_are_on_the_node_during_the_module(places: tuple[Path, Path]) -> None:
    sets = [
        {"name": "a", "type": "hash:ip", "src": "a.txt"},
        {"name": "b", "type": "hash:ip", "src": "b.txt", "remote_src": "no"},
        {"name": "c", "members": []},
    ]
    action = OnNode({"owner": "edge", "sets": sets}, *places)
    assert action.run(task_vars={})["changed"] is False
    assert action.texts == ["192.0.2.1\n", "192.0.2.2\n"]
    assert action.arguments["owner"] == "edge"
    assert action.arguments["sets"][0]["type"] == "hash:ip"
    assert action.arguments["sets"][2] == sets[2]
    assert sets[0] == {"name": "a", "type": "hash:ip", "src": "a.txt"}, "the task's own arguments changed"
    assert not places[1].exists(), "the node keeps the files"


def test_error_in_a_file_names_the_controller_path(places: tuple[Path, Path]) -> None:
    action = OnNode({"sets": [{"name": "a", "src": "a.txt"}]}, *places)
    action.answer = {"failed": True, "msg": f"{places[1]}/members-0:7: member 'x' of set a (hash:ip): no address"}
    assert action.run(task_vars={})["msg"] == "a.txt:7: member 'x' of set a (hash:ip): no address"


def test_remote_files_and_tasks_without_files_are_unchanged(places: tuple[Path, Path]) -> None:
    (places[1] / "there").write_text("192.0.2.3\n")
    there = {"name": "a", "src": str(places[1] / "there"), "remote_src": True}
    action = OnNode({"sets": [there]}, *places)
    assert "msg" not in action.run(task_vars={})
    assert action.arguments == {"sets": [there]}
    assert places[1].exists()


def test_missing_member_file_is_named(places: tuple[Path, Path]) -> None:
    action = OnNode({"sets": [{"name": "a", "src": "nosuch.txt"}]}, *places)
    with pytest.raises(AnsibleActionFail, match=r"the file nosuch\.txt with members of set a does not exist"):
        action.run(task_vars={})


def test_waiting_change_is_confirmed_by_new_connection(places: tuple[Path, Path]) -> None:
    action = OnNode({"sets": [{"name": "a", "src": "a.txt"}], "confirm_timeout": 5}, *places)
    action.answer = {"changed": True, "confirm": {"path": "/run/kubenode-confirm/x", "seconds": 5}}
    messages: list[str] = []
    action._connection.reset = lambda: messages.append("reset")
    action._low_level_execute_command = lambda command: messages.append(command) or {"rc": 0}
    assert action.run(task_vars={}) == {"changed": True, "confirmed": True}
    assert messages == ["reset", "rm /run/kubenode-confirm/x"]
