# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of the controller's package files, compared with the digests that the operator pinned."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.kubenode.ipvs.plugins.action.packages import verify

GOOD = hashlib.sha256(b"good").hexdigest()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "a.rpm"
    path.write_bytes(b"good")
    return path


def test_directory_without_digests_is_taken_as_it_is(package: Path) -> None:
    verify(package.parent, [package])


@pytest.mark.parametrize("line", [f"{GOOD}  a.rpm", f"{GOOD} *a.rpm", f"{GOOD}  ./a.rpm"])
def test_file_with_its_digest_is_accepted(package: Path, line: str) -> None:
    (package.parent / "SHA256SUMS").write_text(f"{line}\n{'0' * 64}  other.rpm\n")
    verify(package.parent, [package])


def test_tampered_file_is_refused_by_name_and_digests(package: Path) -> None:
    (package.parent / "SHA256SUMS").write_text(f"{GOOD}  a.rpm\n")
    package.write_bytes(b"evil")
    digest = hashlib.sha256(b"evil").hexdigest()
    with pytest.raises(
        AnsibleActionFail, match=rf"a\.rpm has SHA-256 {digest}, expected {GOOD} in \S+SHA256SUMS; nothing was"
    ):
        verify(package.parent, [package])


def test_file_without_a_line_is_refused(package: Path) -> None:
    (package.parent / "SHA256SUMS").write_text(f"{GOOD}  other.rpm\n")
    with pytest.raises(AnsibleActionFail, match=r"a\.rpm has SHA-256 \w+, expected a line for it in"):
        verify(package.parent, [package])


def test_broken_digests_are_refused_by_line(package: Path) -> None:
    (package.parent / "SHA256SUMS").write_text(f"{GOOD}  a.rpm\nhello\n")
    with pytest.raises(AnsibleActionFail, match=r"SHA256SUMS line 2 is 'hello', expected 'SHA-256  NAME'"):
        verify(package.parent, [package])
