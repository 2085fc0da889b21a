# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check that no test asserts on a clock (tests/tools/clocks.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def clocks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clocks", ROOT / "tests/tools/clocks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clocks"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "lines",
    [
        "assert time.monotonic() < end",
        "begun = time.monotonic()\n    assert time.monotonic() - begun < 10",
        "begun = time.time()\n    spent = time.time() - begun\n    assert spent < 10",
        "while True:\n        assert not (left := end - time.monotonic()) < 0",
        "begun = time.monotonic()\n    assert 5 > time.monotonic() - begun > 2",
        "assert abs(written - time.time()) < 60",
        "assert 3 >= time.monotonic()",
        "start = time.perf_counter()",
        "start = resource.getrusage(0)",
    ],
)
def test_an_assertion_on_a_clock_is_found(clocks: ModuleType, lines: str) -> None:
    assert len(list(clocks.findings(Path("x.py"), f"def test_x():\n    {lines}\n"))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "eventually(lambda: served())",
        "begun = time.monotonic()\n    assert time.monotonic() - begun >= 1",
        "agent = Agent(time.monotonic())\n    assert agent.works",
        "while time.monotonic() < end:\n        assert served()",
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4096",
    ],
)
def test_waiting_and_a_lower_bound_are_allowed(clocks: ModuleType, lines: str) -> None:
    assert list(clocks.findings(Path("x.py"), f"def test_x():\n    {lines}\n")) == []


def test_no_test_of_this_repository_asserts_on_a_clock(clocks: ModuleType) -> None:
    paths = [path for name in clocks.DIRECTORIES for path in (ROOT / name).rglob("*.py") if path.name != "waiting.py"]
    assert len(paths) > 100
    assert [str(each) for path in paths for each in clocks.findings(path, path.read_text(encoding="utf-8"))] == []
