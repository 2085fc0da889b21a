# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and directories that a local user plants where root removes the agent, or keeps changes to confirm."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment
from kernel.modules import ModuleError, run
from support.processes.guarded import PENDING
from support.processes.hostile import AGENT, NOBODY, act, agents_directory

from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm import pending

TASKS = Path(__file__).parents[2] / "roles/agent/tasks/remove.yml"
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


@pytest.fixture
def base() -> Iterator[Path]:
    """Make a directory that every user can read."""
    path = Path(tempfile.mkdtemp(prefix="kubenode-test-", dir="/run"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def victims(base: Path) -> Path:
    """Make a directory whose files belong to a user other than root and the agent."""
    directory = base / "victims"
    directory.mkdir()
    for name in ("one", "two"):
        (directory / name).write_text("secret\n")
        os.chown(directory / name, NOBODY, NOBODY)
    return directory


def hand_over(directory: Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Run the role's command that gives root the files of a directory, which root already owns."""
    (task,) = [task for task in yaml.safe_load(TASKS.read_text()) if task.get("register") == "agent_given"]
    known = {"agent_user": str(AGENT), "agent_node": {"check_mode": False}, **task["vars"]}
    command = NativeEnvironment().from_string(task["ansible.builtin.command"]["argv"]).render(known)
    os.chown(directory, 0, 0)
    words = [word.replace("/run/kubenode", str(directory)) for word in command]
    return subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, check=False)


def owners(directory: Path) -> set[int]:
    return {path.lstat().st_uid for path in directory.rglob("*")}


def test_removal_gives_root_links_but_not_their_targets(base: Path, victims: Path) -> None:
    directory = agents_directory(base / "run")

    def plant() -> None:
        (directory / "ledger.db").symlink_to(victims / "one")
        (directory / "lock").symlink_to(victims)
        (directory / "sub").mkdir()
        (directory / "sub/two").symlink_to(victims / "two")

    assert act(AGENT, plant) == "done"
    done = hand_over(directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert "changed ownership" in done.stdout
    assert owners(directory) == {0}
    assert owners(victims) == {NOBODY}


@pytest.mark.parametrize("moment", ["first", "last"])
def test_removal_does_not_follow_a_swapped_directory(base: Path, victims: Path, moment: str) -> None:
    """The attacker has the best timing: the swap happens between the search and the change of the owner."""
    directory = agents_directory(base / "run")

    def plant() -> None:
        (directory / "sub/deep").mkdir(parents=True)
        for name in ("one", "two"):
            (directory / "sub/deep" / name).touch()

    assert act(AGENT, plant) == "done"
    chown = base / "bin/chown"
    chown.parent.mkdir()
    # The attacker has the agent's rights, and swaps before each chown or before the one that names the files.
    guard = "" if moment == "first" else 'case "$*" in *two*) ;; *) exec {real} "$@";; esac\n'
    real = shutil.which("chown")
    swap = f"cd {directory}/sub && test -L deep || {{ mv deep old && ln -s {victims} deep; }}"
    chown.write_text(f'#!/bin/sh\n{guard.format(real=real)}({swap})\nexec {real} "$@"\n')
    chown.chmod(0o755)
    hand_over(directory, f"{chown.parent}:{os.environ['PATH']}")
    assert (directory / "sub/deep").is_symlink()
    assert owners(victims) == {NOBODY}


@pytest.fixture
def no_changes() -> Iterator[None]:
    """Remove the directory of changes to confirm, before and after."""
    shutil.rmtree(PENDING, ignore_errors=True)
    FORWARD.write_text("0")
    yield
    PENDING.unlink() if PENDING.is_symlink() else shutil.rmtree(PENDING, ignore_errors=True)


def theirs(path: Path) -> None:
    agents_directory(path).chmod(0o700)


def shared(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("plant", ["link", "their directory", "directory for everybody"])
def test_confirm_refuses_a_directory_others_can_write(base: Path, plant: str) -> None:
    """The owner of such a directory could confirm changes, keep root waiting, or make root write elsewhere."""
    target = base / "target"
    if plant == "link":
        theirs(target)
        PENDING.symlink_to(target)
    else:
        (theirs if plant == "their directory" else shared)(PENDING)
        target = PENDING
    (target / "forged-1").write_text('{"owner": "ansible", "lines": []}')
    os.mkfifo(target / "forged-2")
    with pytest.raises(
        ModuleError, match=rf"^{PENDING}/.*: it is not a directory that only root can write to; remove it; nothing was"
    ):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1}, confirm_timeout=600)
    assert FORWARD.read_text() == "0\n"
    assert sorted(path.name for path in target.iterdir()) == ["forged-1", "forged-2"]
    assert run("node_check")["unconfirmed"] == []
    assert run("sysctls", sysctls={"net.ipv4.ip_forward": 1})["changed"]  # root does not wait for a forged file


@pytest.mark.parametrize("plant", ["link", "dangling link", "named pipe", "file"])
def test_pending_file_replaces_a_file_of_its_name(base: Path, victims: Path, plant: str) -> None:
    path, made = base / "change", base / "made"
    for name in (path, Path(f"{path}.new")):
        if plant == "named pipe":
            os.mkfifo(name)
        elif plant == "file":
            os.link(victims / "one", name)
        else:
            name.symlink_to(victims / "one" if plant == "link" else made)
    pending.write(str(path), {"owner": "ansible"})
    assert path.read_text() == '{"owner": "ansible"}'
    assert (path.lstat().st_uid, path.lstat().st_mode) == (0, 0o100600)
    assert (victims / "one").read_text() == "secret\n"
    assert not made.exists()
