# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a lab: reading inverts writing, and an incomplete record is rejected."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from lab import naming, netns, state
from lab.errors import UsageError
from lab.process import Recorded
from lab.state import Lab, Node


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "RUNS", tmp_path)
    monkeypatch.setattr(netns, "DIRECTORY", tmp_path / "netns")
    return tmp_path


@pytest.fixture
def lab() -> Lab:
    nodes = tuple(Node(name, index, "bookworm", "uml", "/images/x", "test") for index, name in enumerate(("a", "b")))
    return Lab("test", nodes, ("client",), "512M", ready=True)


def make_whole(lab: Lab, runs: Path) -> None:
    """Create everything that a running lab has, with this process in place of its nodes' kernels."""
    lab.save()
    (runs / "netns").mkdir()
    for name in (lab.namespace, *lab.client_namespaces):
        (runs / "netns" / name).touch()
    for node in lab.nodes:
        node.directory.mkdir(parents=True)
        Recorded.of(os.getpid()).save(node.directory / "process")


def test_record_is_read_back_unchanged(lab: Lab) -> None:
    lab.save()
    assert state.load("test") == lab
    assert state.existing("test") == lab


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"nodes": [{"name": "a"}]}', '{"nodes": [], "clients": [], "future": 1}']
)
def test_lab_with_an_unreadable_record_is_listed(runs: Path, text: str) -> None:
    (runs / "test").mkdir()
    (runs / "test/lab.json").write_text(text)
    assert state.load("test") is None
    assert state.all_names() == ["test"]
    with pytest.raises(UsageError, match="lab test: not up"):
        state.existing("test")


def test_complete_lab_is_whole(lab: Lab, runs: Path) -> None:
    make_whole(lab, runs)
    assert lab.whole


def test_not_whole_before_it_was_ready(lab: Lab, runs: Path) -> None:
    make_whole(lab, runs)
    assert not lab._replace(ready=False).whole


@pytest.mark.parametrize("missing", [0, 1])
def test_not_whole_without_each_namespace(lab: Lab, runs: Path, missing: int) -> None:
    make_whole(lab, runs)
    (runs / "netns" / (lab.namespace, *lab.client_namespaces)[missing]).unlink()
    assert not lab.whole


@pytest.mark.parametrize("record", [None, "", "17", "x y", "{pid} 1", "4194304999 1"])
def test_not_whole_if_a_process_is_not_the_recorded_one(lab: Lab, runs: Path, record: str | None) -> None:
    make_whole(lab, runs)
    path = lab.nodes[1].directory / "process"
    path.unlink() if record is None else path.write_text(record.format(pid=os.getpid()))
    assert not lab.whole


def test_ended_process_is_not_running_before_it_is_reaped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        recorded = Recorded.of(process.pid)
        assert recorded.running
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not recorded.running


def test_labs_of_this_clone_are_found_and_no_others(runs: Path) -> None:
    (runs / "directory").mkdir()
    (runs / ".lock").touch()
    (runs / "netns").mkdir()
    for name in (
        naming.lab_namespace(state.ROOT, "one"),
        naming.client_namespace(state.ROOT, "two", "client"),
        naming.lab_namespace(Path("/elsewhere"), "three"),
        "docker",
    ):
        (runs / "netns" / name).touch()
    assert [name for name in state.all_names() if name != "netns"] == ["directory", "one", "two"]
    assert state.namespaces_of("two") == [naming.client_namespace(state.ROOT, "two", "client")]


def test_control_sockets_move_when_the_clone_has_a_long_path(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(20, 200):
        monkeypatch.setattr(state, "RUNS", Path("/" + "x" * length))
        temporary = f"{lab.control_directory}/255.255.255.255.0123456789abcdef"
        assert len(temporary) <= 107  # sun_path has 108 bytes with its terminator


def test_unknown_nodes_and_clients(lab: Lab) -> None:
    with pytest.raises(UsageError, match="lab test: no node 'c', it has a, b"):
        lab.node("c")
    with pytest.raises(UsageError, match="lab test: no client 'a', it has client, lab0"):
        lab.client_namespace("a")
