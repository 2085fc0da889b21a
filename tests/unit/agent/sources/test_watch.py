# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch files for changes (the real inotify)."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode.sources.watch import Watch, WatchError


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    started = Watch(str(tmp_path))
    yield started
    started.close()


def heard(watch: Watch) -> set[str] | None:
    ready, _, _ = select.select([watch], [], [], 0.2)
    return watch.read() if ready else set()


def test_a_file_counts_when_its_writer_closes_it(watch: Watch, tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("w") as file:
        file.write("{")
        file.flush()
        assert heard(watch) == set()
    assert heard(watch) == {"a.json"}


def test_a_new_mode_is_no_change_of_the_file(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert (heard(watch), watch.touched) == ({"x"}, set())
    (tmp_path / "x").chmod(0o600)
    assert (heard(watch), watch.touched) == (set(), {"x"})
    tmp_path.chmod(0o755)
    assert heard(watch) is None


def test_renames_links_and_removals(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert heard(watch) == {"x"}
    (tmp_path / "x").rename(tmp_path / "y")
    assert heard(watch) == {"x", "y"}
    os.symlink("y", tmp_path / "z")
    os.link(tmp_path / "y", tmp_path / "w")
    assert heard(watch) == {"z", "w"}
    (tmp_path / "y").unlink()
    assert heard(watch) == {"y"}


def test_a_swapped_config_map_changes_everything(watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "..new").mkdir()
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert heard(watch) is None
    assert not watch.ended


def test_removed_directory_is_reported(watch: Watch, tmp_path: Path) -> None:
    tmp_path.rename(tmp_path.with_name("away"))
    assert heard(watch) is None
    assert watch.ended
    tmp_path.with_name("away").rename(tmp_path)


def test_missing_directory_is_watched_for() -> None:
    with pytest.raises(WatchError, match="/nowhere cannot be watched: No such file or directory"):
        Watch("/nowhere")
