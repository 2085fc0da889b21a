# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipsets against the kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.processes.started import Started
from support.tables.module_ipsets import saved, sets

pytestmark = pytest.mark.usefixtures("no_sets_left")


def test_creates_changes_and_removes() -> None:
    result = sets(
        {"name": "trusted", "type": "hash:net", "members": ["192.0.2.0/24", "198.51.100.7/24 ", "203.0.113.1/32"]}
    )
    assert result["changed"]
    assert saved("trusted")[1:] == [
        "add trusted 192.0.2.0/24",
        "add trusted 198.51.100.0/24",
        "add trusted 203.0.113.1",
    ]
    result = sets({"name": "trusted", "type": "hash:net", "members": ["192.0.2.0/24", "198.51.100.128/25"]})
    assert result["lines"][0] == "+ member 198.51.100.128/25 of set trusted"
    assert sorted(result["lines"][1:]) == [
        "- member 198.51.100.0/24 of set trusted",
        "- member 203.0.113.1 of set trusted",
    ]
    sets({"name": "trusted", "state": "absent"})
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""


def test_second_run_of_any_spelling_changes_nothing() -> None:
    sets(
        {"name": "a", "type": "hash:ip,port",
         "members": ["192.0.2.1,80", "192.0.2.2-192.0.2.5,tcp:http", "192.0.2.9,udp:53"]},
        {"name": "b", "type": "hash:ip", "family": "inet6", "timeout": 0, "comment": True, "counters": True,
         "members": ["2001:DB8:0::1 timeout 300", '2001:db8::2 comment "two  words"', "2001:db8::3"]},
        {"name": "c", "type": "bitmap:port", "range": "30000-32767", "members": ["30080", "31000-31003"]},
        {"name": "d", "type": "list:set", "members": ["a", "b", "e"]},
        {"name": "e", "type": "hash:net,port,net", "members": ["10.0.0.1/8,tcp:80,192.0.2.0/24"],
         "maxelem": 1000, "hashsize": 2048},
        {"name": "f", "type": "hash:net", "members": ["10.0.0.0/8", "10.1.0.0/16 nomatch"]},
    )  # fmt: skip
    assert saved("a")[1:] == [
        "add a 192.0.2.1,tcp:80",
        *(f"add a 192.0.2.{n},tcp:80" for n in (2, 3, 4, 5)),
        "add a 192.0.2.9,udp:53",
    ]
    assert saved("c")[1:] == ["add c 30080", "add c 31000", "add c 31001", "add c 31002", "add c 31003"]


def test_type_change_keeps_wanted_members() -> None:
    sets({"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2"]})
    result = sets(
        {"name": "s", "type": "hash:net", "timeout": 600, "members": ["192.0.2.1", "198.51.100.0/24 timeout 60"]}
    )
    assert result["lines"][0].startswith("~ set s: hash:ip")
    assert saved("s")[0].startswith("create s hash:net family inet")
    assert [line.split(" timeout")[0] for line in saved("s")[1:]] == ["add s 192.0.2.1", "add s 198.51.100.0/24"]


def test_single_members_are_added_and_removed() -> None:
    sets({"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2"]})
    assert not sets({"name": "s", "type": "hash:ip"})["changed"]
    result = sets(
        {
            "name": "s",
            "type": "hash:ip",
            "purge_members": False,
            "members": ["192.0.2.3/32"],
            "absent_members": ["192.0.2.1"],
        }
    )
    assert result["lines"] == ["+ member 192.0.2.3 of set s", "- member 192.0.2.1 of set s"]


def test_foreign_sets_are_left_alone() -> None:
    subprocess.run(["ipset", "restore"], input="create foreign hash:ip\nadd foreign 192.0.2.1\n", text=True, check=True)
    before = saved("foreign")
    with pytest.raises(ModuleError, match=r"set foreign .*has no owner"):
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
        ([{"name": "s"}], "sets[0] (s): type is None, expected one of bitmap:ip, "),
        ([{"name": "s", "state": "absent"}] * 2, "sets[1] and sets[0] are both set s; name each item once"),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "192.0.2.2", "192.0.2.1"]}],
            "sets[0].members[2] (192.0.2.1) and sets[0].members[0] (192.0.2.1) are the same; name each item once",
        ),
        (
            [{"name": "s", "type": "hash:net", "members": ["192.0.2.1", "10.0.0.0/8", "10.1.0.0/8"]}],
            "sets[0].members[2] (10.1.0.0/8) and sets[0].members[1] (10.0.0.0/8) are the same; name each item once",
        ),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1", "2001:db8::1"]}],
            "sets[0].members[1]: member '2001:db8::1' of set s (hash:ip): Syntax error: "
            "cannot parse 2001:db8::1: resolving to IPv4 address failed",
        ),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1-192.0.2.9", "192.0.2.7"]}],
            "sets[0].members[1] (192.0.2.7) and sets[0].members[0] (192.0.2.1-192.0.2.9) are the same; "
            "name each item once",
        ),
        (
            [{"name": "s", "type": "hash:ip", "members": ["192.0.2.1"], "absent_members": ["192.0.2.1/32"]}],
            "sets[0].absent_members[0] (192.0.2.1/32) and sets[0].members[0] (192.0.2.1) are the same; "
            "name each item once",
        ),
        ([{"name": "s", "type": "hash:magic"}], "sets[0] (s): type is 'hash:magic', expected one of bitmap:ip, "),
        ([{"name": "s", "type": "hash:ip", "range": "1-9"}],
         "sets[0] (s): option is 'range', expected one of those of hash:ip: "),
        ([{"name": "s", "type": "bitmap:port"}],
         "sets[0] (s): range is None, expected the range of what the set can hold"),
        ([{"name": "s", "type": "bitmap:port", "range": "1-9", "family": "inet6"}],
         "sets[0] (s): family is 'inet6', expected none"),
        ([{"name": "s", "type": "hash:ip", "netmask": 33}],
         "sets[0] (s): netmask is 33, expected a number between 1 and 32"),
        ([{"name": "s", "type": "hash:ip", "timeout": 2147484}],
         "sets[0] (s): timeout is 2147484, expected a number between 0 and"),
        ([{"name": "s", "type": "hash:ip", "timeout": -1}],
         "sets[0] (s): timeout is -1, expected a number between 0 and"),
        ([{"name": "s", "type": "hash:ip", "members": [" "]}],
         "sets[0].members[0]: text is ' ', expected a member in the syntax of ipset add"),
        ([{"name": "s", "type": "hash:ip", "members": ["192.0.2.1"], "src": "x"}],
         "parameters are mutually exclusive: members|src found in sets"),
        ([{"name": "s", "state": "absent", "members": ["192.0.2.1"]}],
         "sets[0] (s): members is 'given', expected nothing for a set with state absent"),
        ([{"name": "s", "type": "hash:ip", "maxelem": 1, "members": ["192.0.2.1", "192.0.2.2"]}],
         "sets[0] (s): maxelem is '1', expected room for its 2 members"),
        ([{"name": "s", "type": "list:set", "members": ["nosuch"]}],
         "sets[0].members[0]: member is 'nosuch', expected a set that exists or that the task creates"),
        ([{"name": "t", "type": "list:set"}, {"name": "s", "type": "list:set", "members": ["t"]}],
         "sets[1].members[0]: member is 't', expected a set of another type: a list cannot hold a list"),
        ([{"name": "t", "type": "hash:ip"}, {"name": "s", "type": "list:set", "members": ["t after u"]}],
         "sets[1].members[0]: after is 'u', expected another set in this list"),
        ([{"name": "t", "type": "hash:ip"}, {"name": "s", "type": "list:set", "members": ['t comment "x"']}],
         "sets[1].members[0]: option is 'comment', expected a set that is made with comment"),
        ([{"name": "s", "type": "hash:ip", "src": "/nosuch", "remote_src": True}],
         "sets[0] (s): src is '/nosuch', expected a file that can be read (No such file or directory)"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_message(wrong: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("ipsets", sets=wrong)
    assert str(error.value).startswith(message)
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""


TYPES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "bitmap:ip": ({"range": "192.0.2.0/24"}, ["192.0.2.7"]),
    "bitmap:ip,mac": ({"range": "192.0.2.0-192.0.2.255"}, ["192.0.2.7,2:0:0:0:0:7", "192.0.2.8"]),
    "bitmap:port": ({"range": "1024-2048"}, ["1024", "2048"]),
    "hash:ip": ({}, ["192.0.2.7"]),
    "hash:ip,mac": ({}, ["192.0.2.7,02:00:00:00:00:07"]),
    "hash:ip,mark": ({"markmask": "0xffff"}, ["192.0.2.7,0x63"]),
    "hash:ip,port": ({}, ["192.0.2.7,80"]),
    "hash:ip,port,ip": ({}, ["192.0.2.7,udp:53,192.0.2.8"]),
    "hash:ip,port,net": ({}, ["192.0.2.7,sctp:7,192.0.2.0/24"]),
    "hash:mac": ({}, ["02:00:00:00:00:07"]),
    "hash:net": ({}, ["192.0.2.0/24"]),
    "hash:net,iface": ({}, ["192.0.2.0/24,eth0"]),
    "hash:net,net": ({}, ["192.0.2.0/24,198.51.100.0/24"]),
    "hash:net,port": ({}, ["192.0.2.0/24,tcp:80"]),
    "hash:net,port,net": ({}, ["192.0.2.0/24,tcp:80,198.51.100.0/24"]),
    "list:set": ({}, ["other"]),
}


def test_every_type_of_the_kernel_is_known() -> None:
    help_text = subprocess.run(["ipset", "help"], check=True, capture_output=True, text=True).stdout
    listed = {
        line.split()[0] for line in help_text.splitlines() if line.startswith(("    bitmap:", "    hash:", "    list:"))
    }
    assert listed == set(TYPES)


@pytest.mark.parametrize("kind", TYPES)
def test_every_member_option_of_every_type_is_applied(kind: str) -> None:
    options, members = TYPES[kind]
    everything = {"timeout": 600, "counters": True, "comment": True, "skbinfo": True}
    suffix = ' timeout 500 packets 3 bytes 4 comment "why # not" skbmark 0x1/0xff skbprio 1:10 skbqueue 7'
    other = [{"name": "other", "type": "hash:ip"}] if kind == "list:set" else []
    sets(*other, {"name": "s", "type": kind, **options, "members": members})
    assert len(saved("s")) == 1 + len(members)
    # a swap changes the header of a set, and its members keep their order
    result = sets(
        *other, {"name": "s", "type": kind, **options, **everything, "members": [text + suffix for text in members]}
    )
    assert result["lines"][0].startswith(f"~ set s: {kind}")
    for line in saved("s")[1:]:
        assert 'packets 3 bytes 4 comment "why # not" skbmark 0x1/0xff skbprio 1:10 skbqueue 7' in line
    # and back; from here on the rest of a timeout differs at every read
    fewer = [
        *other,
        {
            "name": "s",
            "type": kind,
            **options,
            "timeout": 0,
            "members": [f"{text} timeout 300" for text in members[:1]],
        },
    ]
    run("ipsets", sets=fewer)
    assert not run("ipsets", sets=fewer)["changed"]
    assert " timeout " in saved("s")[1]
    if kind.startswith("hash:") and kind != "hash:mac":
        run("ipsets", sets=[{"name": "s", "type": kind, "family": "inet6", "members": []}])
        assert "family inet6" in saved("s")[0]
        assert len(saved("s")) == 1


def test_all_creation_options_are_applied() -> None:
    sets(
        {"name": "h", "type": "hash:ip", "maxelem": 9, "hashsize": 128, "netmask": 24, "timeout": 700, "counters": True,
         "comment": True, "skbinfo": True, "forceadd": True, "bucketsize": 6, "initval": "42",
         "members": ["192.0.2.7"]},
        {"name": "m", "type": "hash:ip,mark", "markmask": "255", "members": ["192.0.2.7,0x1234"]},
        {"name": "l", "type": "list:set", "size": 2},
    )  # fmt: skip
    assert saved("h")[0].startswith(
        "create h hash:ip family inet hashsize 128 maxelem 9 netmask 24 timeout 700 counters comment skbinfo"
    )
    assert saved("h")[0].endswith(" bucketsize 6 initval 0x0000002a")
    assert saved("h")[1].startswith("add h 192.0.2.0 timeout ")
    assert saved("m")[1] == "add m 192.0.2.7,0x00000034"
    assert saved("l")[0] == "create l list:set size 4"


def test_forceadd_is_set_and_removed() -> None:
    full = {"name": "s", "type": "hash:ip", "maxelem": 32, "hashsize": 64}

    def room() -> bool:
        """Return whether one of many more members is accepted: it replaces another with the same hash."""
        adding = (f"ipset -q add s 198.51.100.{number}" for number in range(30))
        return subprocess.run(["sh", "-c", " || ".join(adding)], check=False).returncode == 0

    sets({**full, "members": [f"192.0.2.{number}" for number in range(32)]})
    assert not room()
    assert sets({**full, "forceadd": True})["changed"]
    assert room()
    assert sets(full)["changed"]
    assert not room()


def test_nomatch_members_are_added_and_removed() -> None:
    sets({"name": "s", "type": "hash:net", "members": ["10.0.0.0/8", "10.1.0.0/16 nomatch"]})
    assert subprocess.run(["ipset", "-q", "test", "s", "10.1.2.3"], check=False).returncode
    result = sets({"name": "s", "type": "hash:net", "members": ["10.0.0.0/8", "10.1.0.0/16"]})
    assert [step["before"] for step in result["plan"]] == ["nomatch"]
    assert not subprocess.run(["ipset", "-q", "test", "s", "10.1.2.3"], check=False).returncode


def test_member_with_running_timeout_needs_no_change() -> None:
    wanted = {"name": "s", "type": "hash:ip", "timeout": 0, "members": ["192.0.2.1 timeout 300", "192.0.2.2"]}
    sets(wanted)
    subprocess.run(["ipset", "-exist", "add", "s", "192.0.2.1", "timeout", "100"], check=True)
    assert not sets(wanted)["changed"]
    subprocess.run(["ipset", "-exist", "add", "s", "192.0.2.1", "timeout", "0"], check=True)
    assert sets(wanted)["changed"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 5}, "timeout 5"),
        ({"maxelem": 9}, "maxelem 9"),
        ({"family": "inet6"}, "family inet6"),
        ({"counters": True}, "counters"),
        ({"comment": True}, "comment"),
        ({"skbinfo": True}, "skbinfo"),
        ({"netmask": 24}, "netmask 24"),
        ({"type": "hash:net"}, "hash:net"),
        ({"type": "bitmap:ip", "range": "192.0.2.0/24"}, "bitmap:ip"),
    ],
)
def test_set_with_other_options_is_exchanged_both_ways(options: dict[str, Any], text: str) -> None:
    plain = {"name": "s", "type": "hash:ip"}
    sets(plain)
    result = sets({**plain, **options})
    assert [step["verb"] for step in result["plan"]] == ["change"]
    assert text in saved("s")[0]
    assert len(sets(plain)["plan"]) == 1
    assert text not in saved("s")[0]


def test_refused_set_is_one_message() -> None:
    """ipset sends any range; the kernel's bitmaps have 65,536 members at most."""
    large = {"name": "s", "type": "bitmap:ip", "range": "10.0.0.0/14"}
    with pytest.raises(
        ModuleError, match=r"^\+ set s: bitmap:ip .*10\.0\.0\.0.* failed: .*; 1 earlier step\(s\) were undone$"
    ):
        run("ipsets", sets=[{"name": "t", "type": "hash:ip"}, large])
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""


def test_many_members_take_few_processes(started: Started) -> None:
    wanted = {
        "name": "s",
        "type": "hash:net",
        "members": [f"10.{number >> 8}.{number & 255}.0/24" for number in range(2000)],
    }
    with started:
        run("ipsets", sets=[wanted])
    # the module checks twice whether there is any set at all
    assert started.words() == ["ipset -exist", "ipset list", "ipset save", "ipset save"]
    with started:
        assert not run("ipsets", sets=[wanted])["changed"]
    assert started.words() == ["ipset save"]


def test_shell_syntax_in_options_is_literal(tmp_path: Path) -> None:
    text = f"$(touch {tmp_path}/made) `touch {tmp_path}/made`; touch {tmp_path}/made"
    sets({"name": "s", "type": "hash:ip", "comment": True, "members": [f'192.0.2.1 comment "{text}"']})
    assert not (tmp_path / "made").exists()
    assert text in saved("s")[1]
