# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members in files: the fast method for tidy files gives the same result as the thorough one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks import ipset_lines as _ipset_lines
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipset_lines import from_file

LINES = st.lists(st.text(st.sampled_from('ab1 \t\r"#\x0c\u00a0é'), max_size=6), max_size=5)


def read(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8", newline="")
    lines = from_file("sets[0]", str(path))
    return [(lines.option_path(index).rpartition(":")[2], member) for index, member in enumerate(lines.texts)]


@given(lines=LINES, end=st.sampled_from(["", "\n"]))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_quick_and_careful_parsing_agree(tmp_path: Path, monkeypatch: Any, lines: list[str], end: str) -> None:
    path, text = tmp_path / "members", "\n".join(lines) + end
    quick = read(path, text)
    with monkeypatch.context() as patched:
        patched.setattr(_ipset_lines, "_UNTIDY", (b"",))  # every text contains it
        assert read(path, text) == quick


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("", []),
        ("\n\n", []),
        ("a\nb", [("1", "a"), ("2", "b")]),
        ("a\r\nb\r\n", [("1", "a"), ("2", "b")]),
        ("# all\n\na # why\n  b  timeout\t5\n", [("3", "a"), ("4", "b timeout 5")]),
        ('a comment "x # y" # z\n', [("1", 'a comment "x # y"')]),
        ("a#b\n", [("1", "a#b")]),
    ],
)
def test_lines_are_members_or_comments(tmp_path: Path, text: str, members: list[tuple[str, str]]) -> None:
    assert read(tmp_path / "members", text) == members
