# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Table of kernels: a run replaces its own rows, keeps the others, and touches nothing else of the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))

import kernels  # noqa: E402

ROW = {"kernel": "6.1.0", "python": "3.11.2", "iptables": "1.8.9 (nf_tables)", "result": "passed", "date": "2026-01-02"}


def test_rows_are_replaced_in_the_order_of_releases() -> None:
    page = f"before\n{kernels.BEGIN}{kernels.END}after\n"
    page = kernels.written(page, {"trixie": ROW, "etch": ROW})
    page = kernels.written(page, {"bookworm": ROW, "trixie": {**ROW, "result": "failed"}})
    page = kernels.written(page, {"bookworm": {**ROW, "kernel": "", "result": "failed"}})
    assert list(kernels.rows_of(page)) == ["bookworm", "trixie", "etch"]
    assert "| trixie | 6.1.0 | 3.11.2 | 1.8.9 (nf_tables) | failed | 2026-01-02 |\n" in page
    assert "| bookworm | 6.1.0 |" in page
    assert page.startswith(f"before\n{kernels.BEGIN}{kernels.HEAD}| bookworm |")
    assert page.endswith(f"{kernels.END}after\n")


def test_a_page_without_the_lines_around_the_table_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"make kernels.* are not there"):
        kernels.written("no table", {"trixie": ROW})


def test_the_page_has_the_table() -> None:
    page = (ROOT / kernels.PAGE).read_text()
    assert kernels.written(page, {}) == page
