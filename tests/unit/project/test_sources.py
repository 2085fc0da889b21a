# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for every source file."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENGINE = sorted((ROOT / "plugins/module_utils/engine").rglob("*.py"))
AGENT = sorted(
    path for path in (ROOT / "agent/src/kubenode").rglob("*.py") if "engine" not in path.relative_to(ROOT).parts
)
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def foreign_imports(source: str) -> list[str]:
    """Return the modules that a file imports from outside the standard library and its own package."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return [module for module in names if module.split(".")[0] not in sys.stdlib_module_names]


@pytest.mark.parametrize("path", ENGINE, ids=name)
def test_the_engine_imports_the_standard_library_and_itself_only(path: Path) -> None:
    assert foreign_imports(path.read_text()) == []


def test_foreign_imports_are_detected_anywhere() -> None:
    source = "import os\nfrom . import net\ndef f():\n    import yaml\n    from ansible.module_utils import basic\n"
    assert foreign_imports(source) == ["yaml", "ansible.module_utils"]


@pytest.mark.parametrize("path", PLUGINS + AGENT, ids=name)
def test_code_for_nodes_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))


@pytest.mark.parametrize("path", PLUGINS + AGENT, ids=name)
def test_a_file_has_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


@pytest.mark.parametrize("path", [path for path in PLUGINS + AGENT if path.stat().st_size], ids=name)
def test_a_file_states_its_licence(path: Path) -> None:
    head = path.read_text()[:400]
    assert "SPDX-License-Identifier: GPL-3.0-or-later" in head


def test_the_agent_uses_the_engine_of_the_collection() -> None:
    link = ROOT / "agent/src/kubenode/engine"
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / "plugins/module_utils/engine"
