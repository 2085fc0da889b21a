# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits for every function of the repository: its parameters and its lines."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import lint

ROOT = Path(__file__).parents[3]
MOST_PARAMETERS, MOST_LINES = 6, 60
TABLES = {  # functions that may be longer, because each is one table
    "agent/src/kubenode/daemon/outputs/metrics.py: __init__": "every metric with its type, name, help and labels",
    "plugins/module_utils/engine/desired/rules.py: _rules": "every chain with its rules",
}


class Function(NamedTuple):
    """The parameter names of a function without self or cls, and its lines without the docstring."""

    name: str
    parameters: list[str]
    lines: int


def functions(source: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            rest = [item for item in (given.vararg, given.kwarg) if item]
            names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)]
            first = 1 if names[:1] in (["self"], ["cls"]) else 0
            length = _lines(node) - (_lines(node.body[0]) if ast.get_docstring(node) is not None else 0)
            yield Function(node.name, names[first:], length)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.fixture(scope="module")
def tracked() -> list[tuple[str, Function]]:
    """Return every function of the tracked Python files, with the file's name."""
    with chdir(ROOT):
        listed = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout
        paths = [path for path in [*listed.splitlines(), *lint.scripts("python3")] if Path(path).is_file()]
    return [(path, function) for path in paths for function in functions((ROOT / path).read_text(encoding="utf-8"))]


def test_functions_are_measured() -> None:
    source = """
class A:
    def method(self, a, /, b, *c, d=1, **e):
        '''One.

        Two.
        '''
        return (
            a
        )

    @staticmethod
    async def bare():
        def inner(x): pass
"""
    assert sorted(functions(source)) == [
        Function("bare", [], 2),
        Function("inner", ["x"], 1),
        Function("method", ["a", "b", "d", "c", "e"], 4),
    ]


def test_a_function_has_at_most_six_parameters(tracked: list[tuple[str, Function]]) -> None:
    assert len(tracked) > 3000
    assert [
        f"{path}: {function.name} has {len(function.parameters)} parameters"
        for path, function in tracked
        if len(function.parameters) > MOST_PARAMETERS
    ] == []


def test_a_function_has_at_most_60_lines(tracked: list[tuple[str, Function]]) -> None:
    """Tables may have more; a table that no longer does must leave the list."""
    assert {f"{path}: {function.name}" for path, function in tracked if function.lines > MOST_LINES} == set(TABLES)
