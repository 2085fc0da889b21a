# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find tests that assert on a clock, and so fail on a slow machine (part of `make lint`).

    python tests/tools/clocks.py [file or directory …]

In the directories of DIRECTORIES, a test may not

- use a clock that only serves to measure (MEASURES): measurements belong in `make bench`;
- assert on another clock (CLOCKS), directly or by a name that holds its value in the same file. A lower bound is
  allowed (``assert time.monotonic() - begun > 2``): it also holds on a slower machine.

A test waits with ``support.waiting.eventually``, which has one generous limit.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DIRECTORIES = (
    "tests/unit",
    "tests/host",
    "tests/kernel",
    "tests/lab",
    "tests/integration",
    "tests/support",
    "tests/peers",
)
MEASURES = {
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "timeit",
    "getrusage",
}
CLOCKS = {"monotonic", "monotonic_ns", "time", "time_ns", "clock_gettime", "clock_gettime_ns"}
_HELPER = Path("tests/support/waiting.py")


class Finding(NamedTuple):
    """Line of a test that depends on the machine's speed."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def _clock(node: ast.AST, names: set[str]) -> str | None:
    """Return the clock that an expression calls, if its name is in ``names``."""
    if isinstance(node, ast.Call):
        called = node.func
        if (
            isinstance(called, ast.Attribute)
            and isinstance(called.value, ast.Name)
            and called.value.id in ("time", "resource", "timeit")
        ):
            return called.attr if called.attr in names else None
        if isinstance(called, ast.Name) and called.id in names - {"time"}:
            return called.id
    return None


def _depends(node: ast.AST, tainted: set[str]) -> bool:
    """Return true if an expression calls a clock, or uses a name in ``tainted``."""
    return any(
        _clock(each, CLOCKS) or (isinstance(each, ast.Name) and each.id in tainted and isinstance(each.ctx, ast.Load))
        for each in ast.walk(node)
    )


def _tainted(scope: ast.AST) -> set[str]:
    """Return the names that hold a clock's value within a function or module, also by way of other names."""
    names: set[str] = set()
    while True:
        before = len(names)
        for node in ast.walk(scope):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if _is_time(node.value) and _depends(node.value, names):
                    names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        if len(names) == before:
            return names


def _is_time(value: ast.AST) -> bool:
    """Return true if a value can be a time itself, and not an object that a function makes of a time."""
    if isinstance(value, ast.Call):
        return _clock(value, CLOCKS) is not None
    return isinstance(value, (ast.BinOp, ast.Name, ast.NamedExpr, ast.UnaryOp))


def _lower_bound(test: ast.expr, tainted: set[str]) -> bool:
    """Return true if an assertion only says that at least so much time has passed."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.Gt, ast.GtE))
        and not _depends(test.comparators[0], tainted)
    )


def findings(path: Path, text: str) -> Iterator[Finding]:
    """Yield the violations in a file of tests."""
    if not any(name in text for name in MEASURES | (CLOCKS - {"time"}) | {"time.time"}):
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    seen = set()
    memory = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "ru_maxrss"}
    for node in ast.walk(tree):
        if id(node) not in memory and (name := _clock(node, MEASURES)):
            yield Finding(
                path, getattr(node, "lineno", 0), f"{name} measures time, which belongs in tests/bench (make bench)"
            )
    for scope in (*functions, tree):
        tainted = _tainted(scope)
        for node in ast.walk(scope):
            if isinstance(node, ast.Assert) and node.lineno not in seen and _depends(node.test, tainted):
                seen.add(node.lineno)
                if not _lower_bound(node.test, tainted):
                    advice = "wait with support.waiting.eventually, or measure in tests/bench"
                    yield Finding(path, node.lineno, f"asserts on a clock, so that a slow machine fails it: {advice}")
        if scope is not tree:
            seen |= {node.lineno for node in ast.walk(scope) if isinstance(node, ast.Assert)}


def main() -> int:
    """Check the files of DIRECTORIES, or those named; the exit status is 1 if a test depends on the machine's speed."""
    roots = [Path(name) for name in sys.argv[1:] or DIRECTORIES]
    paths = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
    sentences = [each for path in paths if path != _HELPER for each in findings(path, path.read_text(encoding="utf-8"))]
    for each in sentences:
        print(each)
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
