# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of tests that a molecule scenario carries to its nodes: with each, what it imports."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CARRIED = {
    path.parent: set(re.findall(r"\bsupport/[\w/]+\.py\b", path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "molecule").glob("*/converge.yml"))
}


def imported(path: Path, package: str) -> Iterator[str]:
    """Yield the files of tests/support that a file imports, also inside of functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            name = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if name.partition(".")[0] == "support":
                yield name.replace(".", "/") + ".py"


@pytest.mark.parametrize("scenario", [path for path, names in CARRIED.items() if names], ids=lambda path: path.name)
def test_carried_files_are_complete(scenario: Path) -> None:
    carried = CARRIED[scenario]
    used = {name for path in sorted((scenario / "files").glob("*.py")) for name in imported(path, "")}
    for name in carried:
        used |= set(imported(ROOT / "tests" / name, str(Path(name).parent).replace("/", ".")))
    assert used == carried
