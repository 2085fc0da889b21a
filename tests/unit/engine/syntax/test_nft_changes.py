# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input for nft that changes a table in part.

tests/host/test_module_nft_tables.py feeds such input to nft.
"""

from __future__ import annotations

import pytest

from kubenode.engine.model.nft_text import TextTableKey
from kubenode.engine.syntax.nft_changes import changes, creation, removal, replacement

KEY = TextTableKey("ip", "t")


def test_table_is_created_removed_and_replaced_as_a_whole() -> None:
    assert creation(KEY, "x\n") == "create table ip t\ndelete table ip t\ntable ip t {\nx\n\n}\n"
    assert removal(KEY) == "delete table ip t\n"
    assert replacement(KEY, "x\n") == "delete table ip t\ntable ip t {\nx\n\n}\n"


def set_of(*elements: str, head: str = "set s", options: str = "  type ipv4_addr\n") -> str:
    lines = "".join(f"    {element},\n" for element in elements)
    return f"{head} {{\n{options}  elements = {{\n{lines}  }}\n}}\n"


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("chain a {\n  accept\n}\n", "chain a {\n  drop\n}\n", ["flush chain ip t a", "chain a {", "  drop", "}"]),
        ("", "chain a {\n  drop\n}\n", ["chain a {", "  drop", "}"]),
        ("chain a {\n}\nchain b {\n}\n", "chain b {\n}\n", ["flush chain ip t a", "delete chain ip t a"]),
        (
            set_of("192.0.2.1", "192.0.2.2 timeout 5m"),
            set_of("192.0.2.1", "192.0.2.2 timeout 6m", "192.0.2.3"),
            [
                "delete element ip t s { 192.0.2.2 }",
                *set_of("192.0.2.2 timeout 6m", "192.0.2.3").splitlines(),
            ],
        ),
        (
            "ct helper h {\n  x\n}\n" + set_of("1 : jump a", head="map m", options="") + "chain a {\n}\n",
            "",
            ["flush chain ip t a", "delete map ip t m", "delete chain ip t a", "delete ct helper ip t h"],
        ),
        (
            set_of("192.0.2.1", "192.0.2.9", options="  type ipv4_addr\n  flags dynamic\n"),
            set_of("192.0.2.1", options="  type ipv4_addr\n  flags dynamic\n") + "chain n {\n}\n",
            ["chain n {", "}"],
        ),
    ],
)
def test_change_in_part_touches_only_what_differs(before: str, after: str, lines: list[str]) -> None:
    text = changes(KEY, before, after)
    assert text is not None
    given = [line for line in text.splitlines() if line]
    assert given[-1] == "}"
    given.remove("table ip t {")
    assert given[:-1] == lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flags dormant\n", ""),
        ("set s {\n  type ipv4_addr\n}\n", "set s {\n  type ipv6_addr\n}\n"),
        ("chain a {\n  type filter hook input priority filter; policy accept;\n}\n", "chain a {\n}\n"),
        ("limit l {\n  rate 5/second\n}\n", "limit l {\n  rate 6/second\n}\n"),
    ],
)
def test_other_headers_cannot_change_in_part(before: str, after: str) -> None:
    assert changes(KEY, before, after) is None
