# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two walks through the code and the list of questions: their files, and the functions named in each row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
ARCHITECTURE, CONTRIBUTING = ROOT / "docs/explanation/architecture.md", ROOT / "CONTRIBUTING.md"
SOURCES = [path for part in ("plugins", "agent/src") for path in sorted((ROOT / part).rglob("*.py"))]


class Row(NamedTuple):
    """Row of a table: its text, the linked sources, and the code spans outside the links."""

    text: str
    files: list[Path]
    names: list[str]


def section(page: Path, heading: str) -> str:
    """Return the text under a heading, up to the next heading of the same or a higher level."""
    level = heading.partition(" ")[0]
    rest = page.read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    return re.split(rf"^#{{1,{len(level)}}} ", rest, flags=re.MULTILINE)[0]


def table(page: Path, heading: str) -> list[Row]:
    """Return the rows of a section that link to sources."""
    rows = []
    for line in section(page, heading).splitlines():
        links = re.findall(r"\[`[^`]+`\]\(([^)]+)\)", line) if line.startswith("|") else []
        if files := [(page.parent / link).resolve() for link in links if link.endswith(".py")]:
            rows.append(Row(line, files, re.findall(r"(?<!\[)`([^`]+)`", line)))
    return rows


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the functions, classes and variables that a source defines, also within classes."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)


def unknown(row: Row) -> list[str]:
    """Return the names of a row that its files do not define, nor mention if no source defines them."""
    text = "".join(path.read_text(encoding="utf-8") for path in row.files)
    own = frozenset().union(*map(defined, row.files))
    everywhere = frozenset().union(*map(defined, SOURCES))
    names = [name for name in row.names if re.fullmatch(r"\w+", name) and not re.match("kube(proxy|node)_", name)]
    return [name for name in names if name not in (own if name in everywhere else re.findall(r"\w+", text))]


WALKS = {
    "agent": (ARCHITECTURE, "### In the agent: from a watch event to the netlink message and the metric", 10),
    "module": (ARCHITECTURE, "### In a module: one task of `ipvs_services`", 8),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_names_files_and_functions_that_exist(walk: str) -> None:
    page, heading, most = WALKS[walk]
    rows = table(page, heading)
    assert 5 < len(rows) <= most
    assert [path for row in rows for path in row.files if not path.is_file()] == []
    assert {row.text[:60]: names for row in rows if (names := unknown(row))} == {}


def test_sources_beside_the_walks_exist() -> None:
    spans = re.findall(r"`([\w/]+\.py)`", section(ARCHITECTURE, "## One change, end to end"))
    paths = {str(path) for path in SOURCES}
    assert [span for span in spans if not any(path.endswith(f"/{span}") for path in paths)] == []


def test_each_question_is_answered_by_two_files_at_most() -> None:
    rows = table(CONTRIBUTING, "## Where is what")
    assert len(rows) == 11  # the twelfth is a link to the walk
    assert [row.text for row in rows if len(row.files) > 2] == []
    assert {row.text[:60]: names for row in rows if (names := unknown(row))} == {}


def test_an_unknown_function_is_detected() -> None:
    path = ROOT / "plugins/module_utils/engine/apply.py"
    names = ["execute", "make_plan", "never_defined", "kubenode_steps_total", "run(Task)"]
    assert unknown(Row("", [path], names)) == ["make_plan", "never_defined"]
