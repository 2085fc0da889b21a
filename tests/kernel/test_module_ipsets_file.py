# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipsets against the kernel: members in a file on the node."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.tables.module_ipsets import saved, sets
from support.tables.set_members import cases, member

from kubenode.engine.syntax.ipset_header import header

pytestmark = pytest.mark.usefixtures("no_sets_left")


class TestFile:
    """Members in a file on the node."""

    def test_comments_and_empty_lines_are_ignored(self, tmp_path: Path) -> None:
        path = tmp_path / "members"
        path.write_text(
            '# who is on call\n\n  192.0.2.1\t timeout 300  # not for long\r\n192.0.2.2 comment "room # 7"\n192.0.2.3\n'
        )
        sets({"name": "s", "type": "hash:ip", "timeout": 0, "comment": True, "src": str(path), "remote_src": True})
        assert [line.split(" timeout")[0] for line in saved("s")[1:]] == [
            f"add s 192.0.2.{number}" for number in (1, 2, 3)
        ]
        assert 'comment "room # 7"' in saved("s")[2]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("192.0.2.1\n192.0.2.300\n", "{path}:2: member '192.0.2.300' of set s (hash:ip): Syntax error"),
            ("# hosts\n\n192.0.2.1\n2001:db8::1 # what?\n",
             "{path}:4: member '2001:db8::1' of set s (hash:ip): Syntax error"),
            ("192.0.2.1\n192.0.2.1",
             "{path}:2 (192.0.2.1) and {path}:1 (192.0.2.1) are the same; name each item once"),
            ("192.0.2.1\n\n192.0.2.1/32\n",
             "{path}:3 (192.0.2.1/32) and {path}:1 (192.0.2.1) are the same; name each item once"),
        ],
    )  # fmt: skip
    def test_bad_line_is_named_by_file_and_number(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "members"
        wanted = {"name": "s", "type": "hash:ip", "src": str(path), "remote_src": True}
        for present in (False, True):
            if present:
                path.write_text("192.0.2.1\n")
                sets(wanted)
            before = subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout
            path.write_text(text)
            with pytest.raises(ModuleError) as error:
                run("ipsets", sets=[wanted])
            assert str(error.value).startswith(message.format(path=path))
            assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == before

    def test_one_task_converges_more_members_than_the_default(self, tmp_path: Path) -> None:
        """A set has room for 65,536 members if the task does not set maxelem."""
        path = tmp_path / "members"
        addresses = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(1, 70_001)]
        path.write_text("\n".join(addresses))
        wanted = {"name": "s", "type": "hash:ip", "maxelem": 70_000, "src": str(path), "remote_src": True}
        result = run("ipsets", sets=[wanted], diff=False)
        assert len(result["plan"]) == 70_001
        assert len(saved("s")) == 70_001
        path.write_text("\n".join(reversed([*addresses[:-2], "192.0.2.1"])))
        result = sets(wanted)
        assert sorted(result["lines"]) == [
            "+ member 192.0.2.1 of set s",
            f"- member {addresses[-2]} of set s",
            f"- member {addresses[-1]} of set s",
        ]

    @pytest.mark.parametrize(("kind", "chosen"), cases())
    def test_output_of_ipset_as_file_changes_nothing(self, tmp_path: Path, kind: str, chosen: dict[str, Any]) -> None:
        draw = random.Random(f"{kind} {chosen}")
        lines = ["create one hash:ip", "create two hash:net", f"create s {header(kind, chosen).text()}"]
        lines += [f"add s {member(draw, kind, chosen)}" for _index in range(30)]
        subprocess.run(["ipset", "-exist", "restore"], input="\n".join(lines) + "\n", text=True, check=True)
        members = [line.removeprefix("add s ") for line in saved("s")[1:]]
        path = tmp_path / "members"
        wanted = {"name": "s", "type": kind, **chosen, "src": str(path), "remote_src": True}
        for text in ("\n".join(members), "\r\n\r\n# why\r\n".join(members)):
            path.write_text(text, newline="")
            assert run("ipsets", sets=[wanted], adopt=True)["lines"] == []
        path.write_text("\n".join([*members, members[0]]))
        with pytest.raises(ModuleError) as error:
            run("ipsets", sets=[wanted])
        first, second = f"{path}:1 ({members[0]})", f"{path}:{len(members) + 1} ({members[0]})"
        assert str(error.value) == f"{second} and {first} are the same; name each item once"
