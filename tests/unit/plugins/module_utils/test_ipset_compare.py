# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison of a file with a set: the fast and the thorough method agree.

The fast method handles members in ipset's own spelling. The thorough method parses each member.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.tables.set_members import cases, member

from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks import ipset_compare as _ipset_compare
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipset_compare import Given, UnclearError, compare
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipset_lines import Lines, from_file
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.ipset import Saved
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.ipset import IPSet
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.syntax.ipset_header import header
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.syntax.ipset_member import Speller

EXAMPLES = 40


def saved_set(name: str, value: IPSet, lines: list[str]) -> Saved:
    """Return a set as parsed from ``ipset save``."""
    before = f"create {name}-0 hash:ip family inet hashsize 1024 maxelem 65536\nadd {name}-0 192.0.2.1\n"
    head = f"create {name} {value.text()}"
    output = "\n".join([before + head, *(f"add {name} {line}" for line in lines), "create z list:set size 8", ""])
    start = len(before + head)
    return Saved(name, value, output.encode(), start, start + sum(len(f"add {name} {line}\n") for line in lines))


def outcome(given: Given, saved: Saved) -> object:
    try:
        change = compare(given, saved)
    except (EngineError, UnclearError) as error:
        return str(error)
    return change.want, change.have


def scene(draw: random.Random, kind: str, chosen: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return a set's lines, a file's lines in several spellings, and the members to remove."""
    value = header(kind, chosen)
    asked = {}
    for _index in range(8):
        text = member(draw, kind, chosen)
        spelled = Speller(value)(text)
        assert spelled is not None, text
        asked[spelled.member] = f"{spelled.member} {spelled.options}".rstrip(), text
    held = [line for line, _text in asked.values()]
    lines = [draw.choice([*pair, pair[0], pair[0]]) for pair in asked.values()]
    lines = lines[: draw.choice([4, 8, 8])] + [member(draw, kind, chosen) for _new in range(draw.choice([0, 0, 1, 3]))]
    if draw.random() < 0.3:
        lines.append(draw.choice([*lines, *held]))
    if draw.random() < 0.3:
        lines = [
            draw.choice([line, f"{line}  # why", f"  {line}", f"{line}\r", f"\n{line}", f"#\n{line}"]) for line in lines
        ]
    draw.shuffle(lines)
    gone = [draw.choice([draw.choice(held), member(draw, kind, chosen)])] if draw.random() < 0.2 else []
    return held, lines, gone


@pytest.mark.parametrize(("kind", "chosen"), cases())
def test_quick_and_careful_comparison_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, chosen: dict[str, Any]
) -> None:
    draw = random.Random(f"{kind} {chosen}")
    value, path, seen = header(kind, chosen), tmp_path / "members", set()
    for _example in range(EXAMPLES):
        held, lines, gone = scene(draw, kind, chosen)
        path.write_text("\n".join(lines) + draw.choice(["", "\n"]), newline="")
        absent = Lines.of(gone, lambda index: f"sets[0].absent_members[{index}]")
        given = Given("sets[0]", "s", value, from_file("sets[0]", str(path)), absent, draw.random() < 0.7)
        saved = saved_set("s", value, held)
        quick = outcome(given, saved)
        with monkeypatch.context() as patched:
            patched.setattr(_ipset_compare, "_strike_out", lambda _held, lines: set(lines))
            assert outcome(given, saved) == quick, (held, lines, gone)
        seen.add("error" if isinstance(quick, str) else "nothing" if quick == ({}, {}) else "change")
    assert seen == {"error", "nothing", "change"} or kind == "list:set"  # its members have two names here


@pytest.mark.parametrize(
    ("held", "lines", "expected"),
    [
        (["192.0.2.1", "192.0.2.2"], "192.0.2.2\n192.0.2.1\n", ({}, {})),
        (["192.0.2.1", "192.0.2.2"], "192.0.2.1\n192.0.2.3", ({"192.0.2.3": ""}, {"192.0.2.2": ""})),
        (["192.0.2.1", "192.0.2.2"], "192.0.2.1\n192.0.2.1\n",
         "{path}:2 (192.0.2.1) and {path}:1 (192.0.2.1) are the same"),
        (["192.0.2.1"], "192.0.2.1\n192.0.2.1\n192.0.2.1\n",
         "{path}:2 (192.0.2.1) and {path}:1 (192.0.2.1) are the same"),
        (["192.0.2.1"], "192.0.2.1/32\n192.0.2.1\n", "{path}:2 (192.0.2.1) and {path}:1 (192.0.2.1/32) are the same"),
        (["192.0.2.1"], "192.0.2.1\n2001:db8::1\n",
         "{path}:2: member is '2001:db8::1', expected an address of the set's family"),
        ([], "", ({}, {})),
    ],
)  # fmt: skip
def test_comparison_finds_all_differences(tmp_path: Path, held: list[str], lines: str, expected: object) -> None:
    value = header("hash:ip", {})
    path = tmp_path / "members"
    path.write_text(lines)
    given = Given("sets[0]", "s", value, from_file("sets[0]", str(path)), Lines.of([], str), True)
    change = outcome(given, saved_set("s", value, held))
    if isinstance(expected, str):
        assert str(change).startswith(expected.format(path=path))
    else:
        assert change == expected
