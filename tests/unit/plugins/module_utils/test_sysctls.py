# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of sysctl settings: reading, writing, and who has the last word."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.kubenode.ipvs.plugins.module_utils import _sysctls

PART = st.text("abz_09", min_size=1, max_size=4)
LINK = st.text("ab/", min_size=1, max_size=3).map(
    lambda text: f"e{text}f"
)  # a link's name may have dots: slashes in the dotted form
NAME = st.builds(lambda parts, link: ".".join([*parts, link]), st.lists(PART, min_size=1, max_size=3), LINK)
VALUE = st.lists(st.text("0123456789-x", min_size=1, max_size=5), min_size=1, max_size=3).map(" ".join)


@given(st.dictionaries(NAME, VALUE))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    text = _sysctls.render("ansible", values)
    assert (text is None) == (not values)
    assert _sysctls.parse(text or "") == values


def test_every_spelling_is_read() -> None:
    text = "# a comment = 1\n; another = 2\n\n-net.ipv4.a=1\n net/ipv4/b =\t4096   87380\nnet/ipv4/conf/eth0.1/c = 2\nnot a setting\n"
    assert _sysctls.parse(text) == {"net.ipv4.a": "1", "net.ipv4.b": "4096 87380", "net.ipv4.conf.eth0/1.c": "2"}


def test_later_files_have_the_last_word(tmp_path: Path) -> None:
    etc, run, usr = (tmp_path / name for name in ("etc", "run", "usr"))
    for directory in (etc, run, usr):
        directory.mkdir()
    own = etc / "90-kubenode-ansible.conf"
    own.write_text("a.b = 1\n")
    (etc / "10-early.conf").write_text("a.b = 0\n")
    (usr / "99-late.conf").write_text("a.b = 2\nc.d = 1\n")
    (run / "99-late.conf").write_text("a.b = 3\n")  # hides the file of /usr
    (usr / "95-same.conf").write_text("a.b = 1\n")
    (usr / "99-not.txt").write_text("a.b = 4\n")
    last = tmp_path / "sysctl.conf"
    last.write_text("a.* = 5\n")
    directories = tuple(str(directory) for directory in (etc, run, usr))
    found = _sysctls.overridden(str(own), {"a.b": "1", "c.d": "1"}, directories, str(last))
    assert found == [("a.b", "3", str(run / "99-late.conf")), ("a.b", "5", str(last))]
