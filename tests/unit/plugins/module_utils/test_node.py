# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is, from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils import _node


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('ID=debian\nVERSION_ID="12"\n', ("debian", "12", "debian")),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04\n", ("ubuntu", "24.04", "debian")),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', ("rocky", "9.4", "redhat")),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n', ("opensuse-leap", "15.6", "suse")),
        ("ID=arch\n", ("arch", "", "arch")),
        ("ID=gentoo\n", ("gentoo", "", "unknown")),
        ("", ("unknown", "", "unknown")),
    ],
)
def test_distributions(tmp_path: Path, text: str, found: tuple[str, str, str]) -> None:
    path = tmp_path / "os-release"
    path.write_text(text)
    assert tuple(_node.distribution(str(path)).values()) == found
    assert _node.distribution(str(tmp_path / "nosuch"))["family"] == "unknown"


def test_a_node_that_lacks_something_is_not_fit() -> None:
    found = _node.survey(["no_such_module|nor_this"], ["sh", "no-such-command"], "/nosuch")
    assert found["commands"]["no-such-command"] is None
    assert found["commands"]["sh"].endswith("/sh")
    assert not found["fit"]
    assert "command no-such-command is not installed" in found["problems"]
    assert set(found["modules"]) == {"no_such_module", "nor_this"}
