# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of kernels: a run replaces its own rows, keeps the others, and touches nothing else of the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))

import kernels  # noqa: E402

ROW = {"kernel": "6.1.0", "python": "3.11.2", "iptables": "1.8.9 (nf_tables)", "result": "passed", "date": "2026-01-02"}


def test_rows_are_replaced_in_the_order_of_machines() -> None:
    page = f"before\n{kernels.SCENARIO.begin}{kernels.END}after\n"
    page = kernels.written(page, kernels.SCENARIO, {"trixie": ROW, "etch": ROW})
    page = kernels.written(page, kernels.SCENARIO, {"bookworm": ROW, "trixie": {**ROW, "result": "failed"}})
    page = kernels.written(page, kernels.SCENARIO, {"bookworm": {**ROW, "kernel": "", "result": "failed"}})
    assert list(kernels.rows_of(page, kernels.SCENARIO)) == ["bookworm", "trixie", "etch"]
    assert "| trixie | 6.1.0 | 3.11.2 | 1.8.9 (nf_tables) | failed | 2026-01-02 |\n" in page
    assert "| bookworm | 6.1.0 |" in page
    assert page.startswith(f"before\n{kernels.SCENARIO.begin}{kernels.SCENARIO.head}| bookworm |")
    assert page.endswith(f"{kernels.END}after\n")


def test_a_page_without_the_lines_around_the_table_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"make kernels.* are not there"):
        kernels.written("no table", kernels.SCENARIO, {"trixie": ROW})


def test_the_page_has_the_table() -> None:
    page = (ROOT / kernels.PAGE).read_text()
    for table in (kernels.SCENARIO, kernels.SUITE.table, kernels.TRAFFIC.table):
        assert kernels.written(page, table, {}) == page


def test_suites_run_on_machines_that_differ_for_them() -> None:
    whole = {name for name, machine in kernels.MACHINES.items() if kernels.runs_on(kernels.SUITE, machine)}
    traffic = {name for name, machine in kernels.MACHINES.items() if kernels.runs_on(kernels.TRAFFIC, machine)}
    assert whole == {"bookworm", "bullseye", "trixie", "sid", "bookworm-legacy"}
    assert traffic == {"bookworm", "bullseye", "trixie", "sid"}


def test_machine_without_any_of_the_tests_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--suite", "trixie-arm64"])
    with pytest.raises(SystemExit):
        kernels.main()
    assert "machine trixie-arm64: tests/kernel does not run there" in capsys.readouterr().err


def test_version_of_a_kernel() -> None:
    program = bytearray(0x3000)
    program[0x20E:0x210] = (0x1000).to_bytes(2, "little")
    program[0x1200:0x1220] = b"6.1.0-1-cloud-amd64 (me@there) #"
    assert kernels.version_of(bytes(program)) == "6.1.0-1-cloud-amd64"
