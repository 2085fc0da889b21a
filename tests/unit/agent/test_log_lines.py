# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines of the agent: a warning or error has a reason, and a line about an object names it.

A line about a step for an object names that object, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "agent/src/kubenode"


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Return level, message and fields of each call of a log; ``**`` stands for computed fields."""
    for path in sorted(SOURCE.glob("*/**/*.py")):
        if "engine" in path.parts:
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                not isinstance(call, ast.Call)
                or not isinstance(call.func, ast.Attribute)
                or call.func.attr not in LEVELS
            ):
                continue
            if ast.unparse(call.func.value).endswith("log"):
                fields = {keyword.arg or "**" for keyword in call.keywords}
                yield call.func.attr, f"{path.name}: {ast.unparse(call.args[0])}", fields


LEVELS = ("debug", "info", "warning", "error")
CALLS = list(calls())


def test_log_lines_are_collected_from_the_source() -> None:
    assert len(CALLS) > 25
    assert {level for level, _message, _fields in CALLS} == set(LEVELS)


@pytest.mark.parametrize("message", [message for level, message, _fields in CALLS if level in ("warning", "error")])
def test_warning_has_a_reason(message: str) -> None:
    assert all("reason" in fields for _level, text, fields in CALLS if text == message)


ABOUT_OBJECTS = ("object", "step", "drift", "left alone", "flows", "resolved", "'state ")


@pytest.mark.parametrize(
    "message", [message for _level, message, _fields in CALLS if any(word in message for word in ABOUT_OBJECTS)]
)
def test_line_about_an_object_names_it(message: str) -> None:
    assert all(fields & {"object", "**"} for _level, text, fields in CALLS if text == message)
