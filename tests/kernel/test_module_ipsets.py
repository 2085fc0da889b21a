# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipsets against the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    yield
    run("ipsets", purge="owned")
    subprocess.run(["ipset", "destroy"], check=True)


def saved(name: str) -> list[str]:
    lines = subprocess.run(["ipset", "save", name], check=True, capture_output=True, text=True).stdout.splitlines()
    return lines[:1] + sorted(lines[1:])


def sets(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("ipsets", sets=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    result = sets({"name": "trusted", "type": "hash:net", "members": ["192.0.2.0/24", "198.51.100.7/24 ", "203.0.113.1/32"]})
    assert result["changed"]
    assert saved("trusted")[1:] == ["add trusted 192.0.2.0/24", "add trusted 198.51.100.0/24", "add trusted 203.0.113.1"]
    result = sets({"name": "trusted", "type": "hash:net", "members": ["192.0.2.0/24", "198.51.100.128/25"]})
    assert result["lines"][0] == "+ member 198.51.100.128/25 of set trusted"
    assert sorted(result["lines"][1:]) == ["- member 198.51.100.0/24 of set trusted", "- member 203.0.113.1 of set trusted"]
    sets({"name": "trusted", "state": "absent"})
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""


def test_whatever_spelling_the_second_run_changes_nothing() -> None:
    sets(
        {"name": "a", "type": "hash:ip,port", "members": ["192.0.2.1,80", "192.0.2.2-192.0.2.5,tcp:http", "192.0.2.9,udp:53"]},
        {"name": "b", "type": "hash:ip", "family": "inet6", "timeout": 0, "comment": True, "counters": True,
         "members": ["2001:DB8:0::1 timeout 300", '2001:db8::2 comment "two  words"', "2001:db8::3"]},
        {"name": "c", "type": "bitmap:port", "range": "30000-32767", "members": ["30080", "31000-31003"]},
        {"name": "d", "type": "list:set", "members": ["a", "b", "e"]},
        {"name": "e", "type": "hash:net,port,net", "members": ["10.0.0.1/8,tcp:80,192.0.2.0/24"], "maxelem": 1000, "hashsize": 2048},
        {"name": "f", "type": "hash:net", "members": ["10.0.0.0/8", "10.1.0.0/16 nomatch"]},
    )  # fmt: skip
    assert saved("a")[1:] == [
        "add a 192.0.2.1,tcp:80",
        *(f"add a 192.0.2.{n},tcp:80" for n in (2, 3, 4, 5)),
        "add a 192.0.2.9,udp:53",
    ]
    assert saved("c")[1:] == ["add c 30080", "add c 31000", "add c 31001", "add c 31002", "add c 31003"]


def test_a_change_of_type_keeps_members_that_are_wanted() -> None:
    sets({"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2"]})
    result = sets({"name": "s", "type": "hash:net", "timeout": 600, "members": ["192.0.2.1", "198.51.100.0/24 timeout 60"]})
    assert result["lines"][0].startswith("~ set s: hash:ip")
    assert saved("s")[0].startswith("create s hash:net family inet")
    assert [line.split(" timeout")[0] for line in saved("s")[1:]] == ["add s 192.0.2.1", "add s 198.51.100.0/24"]


def test_single_members_come_and_go() -> None:
    sets({"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2"]})
    assert not sets({"name": "s", "type": "hash:ip"})["changed"]
    result = sets(
        {"name": "s", "type": "hash:ip", "purge_members": False, "members": ["192.0.2.3/32"], "absent_members": ["192.0.2.1"]}
    )
    assert result["lines"] == ["+ member 192.0.2.3 of set s", "- member 192.0.2.1 of set s"]


def test_foreign_sets_are_left_alone() -> None:
    subprocess.run(["ipset", "restore"], input="create foreign hash:ip\nadd foreign 192.0.2.1\n", text=True, check=True)
    before = saved("foreign")
    with pytest.raises(ModuleError, match=r"set foreign .*was not made by us"):
        run("ipsets", sets=[{"name": "foreign", "state": "absent"}])
    with pytest.raises(ModuleError, match=r"foreign"):
        run("ipsets", sets=[{"name": "foreign", "type": "hash:ip", "members": []}])
    sets({"name": "mine", "type": "hash:ip"})
    sets(purge="owned")
    assert saved("foreign") == before
    sets({"name": "foreign", "type": "hash:ip", "members": ["192.0.2.2"]}, adopt=True)
    assert saved("foreign")[1:] == ["add foreign 192.0.2.2"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([{"name": "a b"}], "sets[0]: name is 'a b', expected 1 to 31 characters without spaces"),
        ([{"name": "s"}], "sets[0] (s): type is None, expected a type, for example hash:ip"),
        ([{"name": "s", "state": "absent"}] * 2, "sets[1] and sets[0] are both set s; name each thing once"),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2", "192.0.2.1"]}],
            "sets[0].members[2] and sets[0].members[0] are both 192.0.2.1 in set s; name each thing once",
        ),
        (
            [{"name": "s", "type": "hash:net", "members": ["192.0.2.1", "10.0.0.0/8", "10.1.0.0/8"]}],
            "sets[0].members[2] (10.1.0.0/8) and sets[0].members[1] (10.0.0.0/8) are the same; name each thing once",
        ),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "2001:db8::1"]}],
            "sets[0].members[1]: member '2001:db8::1' of set s (hash:ip): Syntax error: cannot parse 2001:db8::1: resolving to IPv4 address failed",
        ),
        (
            [{"name": "s", "type": "hash:magic"}],
            "set s: hash:magic family inet maxelem 65536: Syntax error: typename 'hash:magic' is unknown",
        ),
    ],
)
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("ipsets", sets=wrong)
    assert str(error.value) == message
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""
