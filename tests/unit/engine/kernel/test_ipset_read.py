# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``ipset save`` into items.

The tool is a fake on PATH that prints recorded output.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenode.engine.errors import KernelError, MissingError
from kubenode.engine.kernel import ipset
from kubenode.engine.kernel.ipset import dump
from kubenode.engine.kernel.ipset.replace import without
from kubenode.engine.kernel.ipset.tool import complaint
from kubenode.engine.model.ipset import IPSet, MemberKey

SAVED = """\
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0xdefdb856
add KUBE-CLUSTER-IP 10.96.0.10,udp:53
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
create empty bitmap:port range 0-65535
create x y hash:net family inet hashsize 1024 maxelem 2 timeout 600 counters comment skbinfo
add x y 1.1.1.0/24 timeout 597 packets 1 bytes 60 comment "say create a thing" skbprio 1:10
add x y 1.1.2.0/24 timeout 0 nomatch packets 0 bytes 0
create outer list:set size 8
add outer empty
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a fake ipset that prints ``out`` and ``err`` and ends with ``status``.

    The test writes these files. The fake has no set names of its own.
    """
    fake = tmp_path / "ipset"
    unknown = "ipset v7.17: The set with the given name does not exist"
    fake.write_text(
        f'#!/bin/sh\n[ "$1 $2" != "list -n" ] || {{ echo "{unknown}" >&2; exit 1; }}\ncat {tmp_path}/out; cat'
        f' {tmp_path}/err >&2; echo "$LC_ALL $@" >{tmp_path}/called\nexit $(cat {tmp_path}/status)\n'
    )
    fake.chmod(0o755)
    for name, text in (("out", SAVED), ("err", ""), ("status", "0")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_sets_and_members_are_read(tool: Path) -> None:
    items = ipset.read()
    assert items["set"] == {
        "KUBE-CLUSTER-IP": IPSet(
            "hash:ip,port",
            (
                ("family", "inet"),
                ("hashsize", "1024"),
                ("maxelem", "65536"),
                ("bucketsize", "12"),
                ("initval", "0xdefdb856"),
            ),
        ),
        "empty": IPSet("bitmap:port", (("range", "0-65535"),)),
        "x y": IPSet(
            "hash:net",
            (
                ("family", "inet"),
                ("hashsize", "1024"),
                ("maxelem", "2"),
                ("timeout", "600"),
                ("counters", ""),
                ("comment", ""),
                ("skbinfo", ""),
            ),
        ),
        "outer": IPSet("list:set", (("size", "8"),)),
    }
    assert list(items["member"].items()) == [
        (MemberKey("KUBE-CLUSTER-IP", "10.96.0.10,udp:53"), ""),
        (MemberKey("KUBE-CLUSTER-IP", "10.96.0.1,tcp:443"), ""),
        (MemberKey("x y", "1.1.1.0/24"), 'timeout 597 packets 1 bytes 60 comment "say create a thing" skbprio 1:10'),
        (MemberKey("x y", "1.1.2.0/24"), "timeout 0 nomatch packets 0 bytes 0"),
        (MemberKey("outer", "empty"), ""),
    ]
    assert all(type(key) is MemberKey for key in items["member"])
    assert (tool / "called").read_text() == "C save\n"


def test_names_select(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_tool_can_tell(_names: object, _use: object) -> None:
        raise dump.UnfamiliarError

    monkeypatch.setattr(dump, "read", only_the_tool_can_tell)
    items = ipset.read(["empty", "outer", "nosuch"])
    assert list(items["set"]) == ["empty", "outer"]
    assert list(items["member"]) == [MemberKey("outer", "empty")]


def test_empty_kernel_has_no_sets(tool: Path) -> None:
    (tool / "out").write_text("")
    assert ipset.read() == {"set": {}, "member": {}}


def test_missing_answer_is_no_empty_list(tool: Path) -> None:
    """ipset ends so, with status 0, when the kernel refuses its first request."""
    (tool / "ipset").write_text("#!/bin/sh\n")
    for names in (None, ["a"]):
        with pytest.raises(KernelError, match="the kernel did not answer"):
            ipset.read(names, members=False)


def test_headers_only(tool: Path) -> None:
    (tool / "out").write_text(
        "Name: a\nType: hash:ip\nRevision: 5\nHeader: family inet hashsize 1024 maxelem 65536 comment\nSize in memory:"
        " 200\nReferences: 0\nNumber of entries: 3\n\nName: b\nType: list:set\nRevision: 3\nHeader: size"
        " 8\nReferences: 1\n"
    )
    assert ipset.read(members=False) == {
        "set": {
            "a": IPSet("hash:ip", (("family", "inet"), ("hashsize", "1024"), ("maxelem", "65536"), ("comment", ""))),
            "b": IPSet("list:set", (("size", "8"),)),
        }
    }
    assert (tool / "called").read_text() == "C list -t\n"


def test_an_absent_set_is_no_error(tool: Path) -> None:
    (tool / "out").write_text("")
    (tool / "err").write_text("ipset v7.17: The set with the given name does not exist\n")
    (tool / "status").write_text("1")
    assert ipset.read(["nosuch"]) == {"set": {}, "member": {}}


@pytest.mark.parametrize(
    ("errors", "kind", "text"),
    [
        ("ipset v7.17: Cannot open session to kernel.", MissingError, "kernel module ip_set"),
        ("ipset v7.17: Kernel error received: Operation not permitted", MissingError, "root"),
        (
            "ipset v7.17: Kernel error received: Invalid argument",
            KernelError,
            "^ipset save: Kernel error received: Invalid argument$",
        ),
    ],
)
def test_refusals_are_explained(tool: Path, errors: str, kind: type[Exception], text: str) -> None:
    (tool / "err").write_text(errors)
    (tool / "status").write_text("1")
    with pytest.raises(kind, match=text):
        ipset.read()


def test_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubenode.engine.kernel.command._SYSTEM_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="the tool ipset is missing; install the package ipset"):
        ipset.read()


@pytest.mark.parametrize(
    "printed", ["ipset v7.17, protocol version: 7\n", "ipset v6.38, protocol version: 6\nWarning: ...\n", ""]
)
def test_version_of_the_tool_is_read(tool: Path, printed: str) -> None:
    (tool / "out").write_text(printed)
    assert ipset.version() == printed.partition("\n")[0]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "ipset v7.17: Error in line 3: Hash is full, cannot add more elements",
            2,
            "Hash is full, cannot add more elements",
        ),
        ("Warning: new kernel\nipset v6.38: Error in line 12: The set with the given name does not exist\n", 11, None),
        ("ipset v7.17: Cannot open session to kernel.\n", -1, "Cannot open session to kernel."),
        ("", -1, "ipset failed without a word"),
    ],
)
def test_complaints_of_the_tool_are_errors(text: str, line: int, words: str | None) -> None:
    error = complaint(text)
    assert error.line == line
    assert words is None or error.text == words
    assert error.absent == (words is None)


def test_options_that_a_set_cannot_have_are_left_out() -> None:
    options = 'timeout 597 nomatch packets 1 bytes 60 comment "timeout 7 here" skbmark 0x1/0x2'
    assert without(options, frozenset(("timeout", "skbmark"))) == 'nomatch packets 1 bytes 60 comment "timeout 7 here"'
    assert without(options, frozenset(("comment", "packets", "bytes"))) == "timeout 597 nomatch skbmark 0x1/0x2"
    assert (
        without('nomatch wildcard packets 0 bytes 0 comment "x"', frozenset(("packets", "bytes")))
        == 'nomatch wildcard comment "x"'
    )
