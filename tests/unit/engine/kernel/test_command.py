# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running tools: real processes that the test starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import eventually

from kubenode.engine.errors import KernelError, MissingError
from kubenode.engine.kernel import command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def tool(directory: Path, name: str, script: str, mode: int = 0o755) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(mode)


def test_input_output_status_and_language(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    tool(here, "echo-tool", 'cat; echo "$LC_ALL $1" >&2; exit 3')
    assert command.run(["echo-tool", "a b; $HOME"], "öne\ntwo\n") == (3, "öne\ntwo\n", "C a b; $HOME\n")


def test_killed_tool_is_reported(here: Path) -> None:
    tool(here, "shot", "kill -USR1 $$")
    assert command.run(["shot"]) == (-10, "", "shot was ended by signal 10")


def test_tool_without_input_reads_end_of_file(here: Path) -> None:
    tool(here, "reader", "cat; echo end")
    assert command.run(["reader"]).output == "end\n"


def test_bytes_that_are_no_text_are_kept(here: Path) -> None:
    tool(here, "same", "cat")
    tool(here, "bytes", "printf 'a\\377b'")
    odd = command.run(["bytes"]).output
    assert odd.encode("utf-8", "surrogateescape") == b"a\xffb"
    assert command.run(["same"], odd).output == odd


def test_much_in_both_directions_does_not_block(here: Path) -> None:
    tool(here, "both", "cat; cat /dev/null; head -c 1000000 /dev/zero | tr '\\0' x >&2")
    ended = command.run(["both"], "line of text\n" * 100_000)
    assert len(ended.output) == 1_300_000
    assert len(ended.errors) == 1_000_000


@pytest.mark.parametrize(
    ("name", "package"), [("ip6tables-restore", "iptables"), ("modprobe", "kmod"), ("ipset", "ipset")]
)
def test_a_missing_tool_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(command, "_SYSTEM_DIRECTORIES", str(tmp_path))
    with pytest.raises(MissingError, match=f"^the tool {name} is missing; install the package {package}$"):
        command.run([name])


def test_tools_outside_of_path_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "hidden-tool", "echo found")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(command, "_SYSTEM_DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    assert command.run(["hidden-tool"]).output == "found\n"


def test_tool_without_permission_is_named(here: Path) -> None:
    tool(here, "locked", "echo", mode=0o644)
    with pytest.raises(MissingError, match="locked must not be run by this user"):
        command.run(["locked"])


@pytest.fixture
def one_second() -> Iterator[list[str]]:
    """Limit tools to one second, and record each start."""
    started: list[str] = []
    before = command._CHOSEN["limits"]
    command.limit(command.Limits(1.0, lambda: started.append("tool")))
    yield started
    command.limit(before)


def alive(group: int) -> list[str]:
    """Return the states of a group's processes that have not ended.

    A process that has ended may still wait until its parent collects its status.
    """
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group, *_rest = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process ended meanwhile
        if int(its_group) == group and state not in "ZX":
            states.append(state)
    return states


@pytest.mark.parametrize(
    "script", ["exec sleep 1000", "sleep 1000", "cat; sleep 1000", "trap '' TERM INT; sleep 1000 & wait"]
)
def test_a_tool_that_hangs_is_named_and_ended_with_its_children(here: Path, one_second: list[str], script: str) -> None:
    tool(here, "hung", f"echo $$ > {here}/pid; {script}")
    for run in (command.run, command.run_printing):
        with pytest.raises(KernelError, match=r"^hung --all did not end in 1 seconds and was stopped$"):
            run(["hung", "--all"])
        group = int((here / "pid").read_text())
        eventually(lambda group=group: not alive(group))
    assert one_second == ["tool", "tool"]
