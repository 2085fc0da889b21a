# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipsets against the kernel: the order of a list's members."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.tables.module_ipsets import sets

pytestmark = pytest.mark.usefixtures("no_sets_left")


class TestOrder:
    """The members of a list."""

    @staticmethod
    def order() -> list[str]:
        lines = subprocess.run(["ipset", "save", "l"], check=True, capture_output=True, text=True).stdout.splitlines()
        return [line.split()[2] for line in lines[1:]]

    @staticmethod
    def lists(*members: str, **options: Any) -> dict[str, Any]:
        hashes = [{"name": name, "type": "hash:ip"} for name in "abcd"]
        return sets(*hashes, {"name": "l", "type": "list:set", "members": list(members), **options})

    def test_members_stand_in_the_order_of_the_task(self) -> None:
        self.lists("c", "a", "b")
        assert self.order() == ["c", "a", "b"]
        result = self.lists("a", "b", "c")
        assert result["lines"] == [
            "~ set l: list:set size 8 in the order c, a, b -> list:set size 8 in the order a, b, c"
        ]
        assert self.order() == ["a", "b", "c"]
        self.lists("d", "c", "a")
        assert self.order() == ["d", "c", "a"]

    def test_appended_or_removed_members_need_no_exchange(self) -> None:
        self.lists("a", "b")
        assert self.lists("a", "b", "c")["lines"] == ["+ member c of set l"]
        assert self.lists("b", "c")["lines"] == ["- member a of set l"]

    @pytest.mark.parametrize(
        ("left", "lines"),
        [
            (["b"], ["- member a of set l", "- member c of set l", "- member d of set l"]),
            (["a", "b"], ["- member c of set l", "- member d of set l"]),
            ([], ["- member a of set l", "- member b of set l", "- member c of set l", "- member d of set l"]),
            (
                None,
                ["- member a of set l", "- member b of set l", "- member c of set l", "- member d of set l", "- set l"],
            ),
        ],
    )
    def test_undone_removal_restores_the_position(self, left: list[str] | None, lines: list[str]) -> None:
        self.lists("a", "b", 'c comment "the third"', "d", comment=True)
        sets({"name": "used", "type": "list:set"})  # the kernel lists list:set sets last
        before = subprocess.run(["ipset", "save", "l"], check=True, capture_output=True, text=True).stdout
        refused = {"name": "used", "state": "absent"}  # fails after all other steps
        subprocess.run(["iptables", "-A", "INPUT", "-m", "set", "--match-set", "used", "src", "-j", "DROP"], check=True)
        wanted = {"name": "l", "state": "absent"}
        if left is not None:
            wanted = {"name": "l", "type": "list:set", "comment": True, "members": left}
        try:
            assert run("ipsets", sets=[wanted], check=True)["lines"] == lines
            with pytest.raises(
                ModuleError, match=rf"set used is in use.*; {len(lines)} earlier step\(s\) were undone$"
            ):
                run("ipsets", sets=[wanted, refused])
        finally:
            subprocess.run(["iptables", "-F", "INPUT"], check=True)
        assert subprocess.run(["ipset", "save", "l"], check=True, capture_output=True, text=True).stdout == before

    def test_before_and_after_place_a_member(self) -> None:
        self.lists("a", "b before a", "c after b")
        assert self.order() == ["b", "c", "a"]

    def test_member_is_placed_between_foreign_members(self) -> None:
        self.lists("a", "b")
        subprocess.run(["ipset", "create", "x", "hash:ip"], check=True)
        subprocess.run(["ipset", "add", "l", "x", "after", "a"], check=True)
        self.lists("c before x", purge_members=False)
        assert self.order() == ["a", "c", "x", "b"]
        self.lists("b", "c", purge_members=False)
        assert self.order() == ["a", "c", "x", "b"]

    def test_list_in_use_by_rules_is_exchanged(self) -> None:
        self.lists("a", "b")
        rule = ["INPUT", "-m", "set", "--match-set", "l", "src", "-j", "ACCEPT"]
        subprocess.run(["iptables", "-A", *rule], check=True)
        try:
            self.lists("b", "a", timeout=0)
        finally:
            subprocess.run(["iptables", "-D", *rule], check=True)
        assert self.order() == ["b", "a"]
