# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of sysctl settings: reading, writing, and precedence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import sysctls as _sysctls
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.sysctls import settled

PART = st.text("abz_09", min_size=1, max_size=4)
# a link's name may contain dots: the dotted form has slashes in their place
LINK = st.text("ab/", min_size=1, max_size=3).map(lambda text: f"e{text}f")
NAME = st.builds(lambda parts, link: ".".join([*parts, link]), st.lists(PART, min_size=1, max_size=3), LINK)
VALUE = st.lists(st.text("0123456789-x", min_size=1, max_size=5), min_size=1, max_size=3).map(" ".join)


@given(st.dictionaries(NAME, VALUE))
def test_written_file_is_read_back(values: dict[str, str]) -> None:
    text = _sysctls.render("ansible", values)
    assert (text is None) == (not values)
    assert _sysctls.parse(text or "") == values


def test_every_spelling_is_read() -> None:
    text = (
        "# a comment = 1\n; another = 2\n\n-net.ipv4.a=1\n net/ipv4/b =\t4096   87380\nnet/ipv4/conf/eth0.1/c = 2\nnot"
        " a setting\n"
    )
    assert _sysctls.parse(text) == {"net.ipv4.a": "1", "net.ipv4.b": "4096 87380", "net.ipv4.conf.eth0/1.c": "2"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a root with /etc/sysctl.d, /run/sysctl.d, /usr/lib/sysctl.d and /etc/sysctl.conf."""
    directories = [tmp_path / name for name in ("etc", "run", "usr")]
    for directory in directories:
        directory.mkdir()
    monkeypatch.setattr(_sysctls, "DIRECTORIES", tuple(map(str, directories)))
    monkeypatch.setattr(_sysctls, "LAST", str(tmp_path / "sysctl.conf"))
    return tmp_path


def write(files: Path, texts: dict[str, str]) -> str:
    """Write files; return the path of the module's file."""
    for name, text in texts.items():
        (files / name).write_text(text)
    return str(files / "etc/90-kubenode-ansible.conf")


@pytest.mark.parametrize(
    ("texts", "last"),
    [
        ({"etc/10-early.conf": "a.b = 0"}, None),
        ({"usr/99-late.conf": "a.b = 2"}, ("2", "usr/99-late.conf")),
        (
            {"usr/99-late.conf": "a.b = 2", "run/99-late.conf": "a.b = 3"},
            ("3", "run/99-late.conf"),
        ),  # a file in /run hides one of the same name in /usr
        ({"usr/99-late.conf": "a.b = 2", "etc/99-late.conf": ""}, None),  # a link to /dev/null has the same effect
        ({"etc/95-x.conf": "a.b = 2", "usr/96-y.conf": "a.b = 1"}, None),  # the last file sets the wanted value
        ({"usr/96-y.conf": "a.b = 3", "etc/95-x.conf": "a.b = 2"}, ("3", "usr/96-y.conf")),  # by name, not by directory
        ({"etc/95-x.conf": "a.b = 2\na.b = 1"}, None),  # the later line of a file wins
        ({"etc/95-x.conf": "a.* = 2\n-a.b"}, None),  # a pattern does not match a name that has its own line
        ({"etc/95-x.conf": "-a/b=2"}, ("2", "etc/95-x.conf")),
        ({"etc/99-x.txt": "a.b = 4"}, None),
        ({"etc/99-x.conf": "a.b = 2", "sysctl.conf": "a.b = 5"}, ("5", "sysctl.conf")),
    ],
)
def test_overriding_file_is_determined(files: Path, texts: dict[str, str], last: tuple[str, str] | None) -> None:
    own = write(files, texts)
    overriding = _sysctls.overridden(own, {"a.b": "1"})
    assert overriding == ([] if last is None else [("a.b", last[0], str(files / last[1]))])


@pytest.mark.parametrize(
    ("live", "wanted", "after"),
    [
        ("16", "0x10", "16"),
        ("16", "020", "16"),
        ("16", "-0x1", "-1"),
        ("4 4 1 7", "3", "3 4 1 7"),
        ("4 4 1 7", "4 4", "4 4 1 7"),
        ("4 4", "4 4 1", "4 4 1"),
        ("cubic", "reno", "reno"),
        ("reno cubic", "reno", "reno"),
        ("0000000f", "f", "f"),
        ("", "1", "1"),
        ("1", "", ""),
    ],
)
def test_settled_value_is_the_live_value_after_a_write(live: str, wanted: str, after: str) -> None:
    assert settled(live, wanted) == after


def test_the_same_number_in_another_spelling_overrides_nothing(files: Path) -> None:
    (files / "etc/99.conf").write_text("a.b = 256\n")
    assert _sysctls.overridden(str(files / "etc/90.conf"), {"a.b": "0x100"}) == []
    assert _sysctls.overridden(str(files / "etc/90.conf"), {"a.b": "0x101"}) != []


@pytest.mark.parametrize(
    ("text", "overridden"), [("a.b = 9", True), ("a.b = 10", False), ("a.b = 11", False), ("a.b = 21", True)]
)
def test_a_later_file_within_the_bounds_overrides_nothing(files: Path, text: str, overridden: bool) -> None:
    own = write(files, {"etc/99-x.conf": text})
    overriding = _sysctls.overridden(own, {"a.b": _sysctls.Bounds((10,), (20,))})
    assert [name for name, _value, _file in overriding] == (["a.b"] if overridden else [])


MIN, MAX = _sysctls.Bounds((10,), None), _sysctls.Bounds(None, (10,))


@pytest.mark.parametrize(
    ("bounds", "early", "live", "kept", "line"),
    [
        (MIN, None, "5", None, "10"),
        (MIN, None, "15", None, "15"),  # the kernel's own value: a line with 10 would lower it at the next boot
        (MIN, None, "99", "15", "15"),  # the live value does not change a line that is within the bounds
        (MIN, None, "99", "5", "99"),
        (MIN, "20", "10", None, None),  # the other file decides, now and after an edit
        (MIN, "20", "10", "10", None),
        (MIN, "5", "10", None, "10"),
        (MAX, "20", "5", None, "10"),
        (MAX, "5", "5", "10", None),
        (MAX, None, "5", None, "5"),
        (_sysctls.Bounds((4, 8), None), None, "6\t6", None, "6 8"),
    ],
)
def test_boot_file_never_lowers_a_minimum(
    files: Path, bounds: _sysctls.Bounds, early: str | None, live: str, kept: str | None, line: str | None
) -> None:
    own = write(files, {} if early is None else {"usr/50-x.conf": f"a.b = {early}"})
    values = _sysctls.bounded_at_boot({"a.b": bounds}, own, {"a.b": live}, {} if kept is None else {"a.b": kept})
    assert values == {"a.b": line}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a.b": {}}, "sysctls[a.b]: value is {}, expected a value, or a dictionary of min, max or both"),
        (
            {"a.b": {"min": 1, "value": 2}},
            "sysctls[a.b]: value is {'min': 1, 'value': 2}, expected a value, or a dictionary of",
        ),
        ({"a.b": {"min": "many"}}, "sysctls[a.b]: min is 'many', expected a number, or as many as the parameter has"),
        ({"a.b": {"min": 3, "max": 2}}, "sysctls[a.b]: min is 3, expected not above max, 2"),
        ({"a.b": {"min": "1 2", "max": 2}}, "sysctls[a.b]: min is '1 2', expected not above max, 2"),
        ({"a.b": {"min": True}}, "sysctls[a.b]: min is True, expected a number or a text"),
        ({"net/../../../etc/motd": 1}, "expected a sysctl's name"),
        ({"a b": 1}, "expected a sysctl's name"),
        ({"a.b\nc.d": 1}, "expected a sysctl's name"),
        ({"a..b": 1}, "expected a sysctl's name"),
        ({"-a.b": 1}, "expected a sysctl's name"),
        ({"": 1}, "expected a sysctl's name"),
    ],
)
def test_wrong_input_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(EngineError) as error:
        _sysctls.check(given, [])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("on", "is 'on', expected a number for min and max"), ("1 2", "2 numbers, but min or max has 1")],
)
def test_bounds_are_for_numbers(text: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        MIN.within("a.b", text)
