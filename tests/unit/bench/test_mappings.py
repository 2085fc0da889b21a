# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit on mappings: raised for a benchmark and set back, and never lowered."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from bench.mappings import ENOUGH, many_mappings
from lab import host

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="limit")
def _limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "max_map_count"
    for module in ("lab.host", "bench.mappings"):
        monkeypatch.setattr(f"{module}.MAX_MAP_COUNT", path)
    path.write_text("65530\n")
    return path


def test_limit_is_set_back_after_an_error(limit: Path) -> None:
    with suppress(RuntimeError), many_mappings(lambda _: None):
        raise RuntimeError
    assert limit.read_text() == "65530\n"


def test_limit_is_raised_and_set_back(limit: Path) -> None:
    printed: list[str] = []
    with many_mappings(printed.append):
        assert host.max_map_count() == ENOUGH
    assert limit.read_text() == "65530\n"
    assert printed == [f"vm.max_map_count of this machine is {ENOUGH} instead of 65530 until the end"]


def test_higher_limit_stays(limit: Path) -> None:
    limit.write_text("2147483642\n")
    with many_mappings(pytest.fail):
        assert limit.read_text() == "2147483642\n"


def test_limit_that_cannot_be_written(limit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []

    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(type(limit), "write_text", refuse)
    with many_mappings(printed.append):
        pass
    (text,) = printed
    assert text.startswith("vm.max_map_count of this machine stays 65530")
    assert text.endswith("Operation not permitted")
