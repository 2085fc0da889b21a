# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preparation of a node for an agent in a container: directories are handed over, links in them are not followed."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from kubenode.cli import prepare

USER = os.getuid() if os.getuid() else 65525


def test_directory_and_its_files_are_given_to_the_user(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o755)
    (directory / "ledger.db").write_text("")
    prepare._hand_over(str(directory), USER, 0o750)
    status = directory.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (USER, USER, 0o750)
    assert (directory / "ledger.db").stat().st_uid == USER


def test_missing_directory_is_created_for_the_user(tmp_path: Path) -> None:
    prepare._hand_over(str(tmp_path / "state/agent"), USER, 0o700)
    assert stat.S_IMODE((tmp_path / "state/agent").stat().st_mode) == 0o700


def test_links_in_the_directory_are_not_followed(tmp_path: Path) -> None:
    secret, twice = tmp_path / "secret", tmp_path / "twice"
    secret.write_text("")
    twice.write_text("")
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "link").symlink_to(secret)
    (directory / "hard").hardlink_to(twice)
    prepare._hand_over(str(directory), USER, 0o750)
    assert (secret.stat().st_uid, twice.stat().st_uid) == (0, 0)


def test_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Not a directory"):
        prepare._hand_over(str(tmp_path / "run"), USER, 0o750)


def test_socket_of_a_killed_agent_is_removed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.bind(str(tmp_path / "agent.sock"))
    prepare._hand_over(str(tmp_path), USER, 0o750)
    assert not (tmp_path / "agent.sock").exists()


def test_lock_file_becomes_readable_for_the_group(tmp_path: Path) -> None:
    lock = tmp_path / "xtables.lock"
    lock.touch(0o600)
    prepare._share_lock(str(lock), USER)
    assert (lock.stat().st_gid, stat.S_IMODE(lock.stat().st_mode)) == (USER, 0o640)
