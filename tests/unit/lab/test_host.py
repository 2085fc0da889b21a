# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing prerequisites of a machine: one message lists all of them, each with its fix."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from lab import host, lifecycle
from lab.errors import HostError, UsageError
from lab.host import Need
from lab.lock import locked


def test_everything_missing_is_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(host, "_free", lambda _: 10 << 20)
    needs = (Need("no-such-kernel", "some-kernel"), Need("no-such-builder", "builder"), Need("sh", "dash"))
    with pytest.raises(HostError) as raised:
        host.check(needs, disk=100 << 20, further=["binfmt: mount it"])
    text = str(raised.value)
    assert "root: " in text
    assert "no-such-kernel, no-such-builder: apt-get install --no-install-recommends builder some-kernel" in text
    assert "10 MiB free" in text
    assert "needed 100 MiB" in text
    assert "\n  - binfmt: mount it" in text
    assert "dash" not in text


def test_memory_is_placed_where_there_is_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = {tmp_path / "shm": 64 << 20, tmp_path / "cache": 1 << 30}
    for directory in free:
        directory.mkdir()
    monkeypatch.setattr(host, "SHARED_MEMORY", tmp_path / "shm")
    monkeypatch.setattr(host, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(host, "_free", free.__getitem__)
    assert host.memory_directory(32 << 20) == tmp_path / "shm"
    assert host.memory_directory(512 << 20) == tmp_path / "cache"
    with pytest.raises(HostError, match=r"nodes need 2048 MiB of memory; free are 64 MiB in .* and 1024 MiB"):
        host.memory_directory(2 << 30)


def test_memory_of_running_nodes_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host._available() > 0
    monkeypatch.setattr(host, "_available", lambda: 7)
    assert host._free(host.SHARED_MEMORY) == 7
    assert host._free(host.CACHE) > 7


@pytest.mark.parametrize(
    ("limit", "memory", "warned"),
    [(65530, 512 << 20, False), (65530, 3 << 30, True), (1 << 20, 3 << 30, False)],
)
def test_mappings_of_a_large_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int, memory: int, *, warned: bool
) -> None:
    monkeypatch.setattr(host, "MAX_MAP_COUNT", tmp_path / "max_map_count")
    host.MAX_MAP_COUNT.write_text(f"{limit}\n")
    warning = host.mappings_warning(memory)
    assert (warning is not None) == warned
    if warning:
        assert "vm.max_map_count of this machine is 65530" in warning
        assert "has more than 255 MiB; sysctl vm.max_map_count=786432 prevents it" in warning


@pytest.mark.parametrize(("text", "size"), [("512M", 512 << 20), ("1G", 1 << 30), ("128m", 128 << 20)])
def test_memory_sizes(text: str, size: int) -> None:
    assert lifecycle.parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "512", "M", "-1G", "1.5G", "64M", "1T", "lots"])
def test_bad_memory_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number with M or G"):
        lifecycle.parse_memory(text)


def test_one_holder_at_a_time_and_no_file_left(tmp_path: Path) -> None:
    path = tmp_path / "directory/lock"
    inside, most, waited = [0], [0], []

    def work() -> None:
        for _ in range(20):
            with locked(path, lambda: waited.append(1)):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                threading.Event().wait(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert waited
    assert not path.exists()
