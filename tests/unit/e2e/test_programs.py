# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a run: each missing or unusable one gets one sentence."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from e2e import images, programs
from e2e.errors import E2eError


def elf(interpreter: str) -> bytes:
    """Return the start of an ELF program for 64 bits with one program header, of its loader if it has one."""
    header = b"\x7fELF\x02\x01\x01".ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 1)
    text = interpreter.encode() + b"\0"
    kind = 3 if interpreter else 1
    return header.ljust(64, b"\0") + struct.pack("<IIQQQQQQ", kind, 4, 120, 0, 0, len(text), len(text), 1) + text


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for program in programs.PROGRAMS:
        path = tmp_path / program.name
        path.write_bytes(elf(""))
        path.chmod(0o755)
    return tmp_path


def test_complete_directory_has_no_problems(directory: Path) -> None:
    assert programs.problems(directory) == []


def test_each_missing_program_has_its_sentence(directory: Path) -> None:
    (directory / "etcd").unlink()
    (directory / "agnhost").unlink()
    assert programs.problems(directory) == [
        f"{directory}/etcd is missing; build it from a release of etcd.",
        f"{directory}/agnhost is missing; build it from test/images/agnhost, or add an OCI archive agnhost.tar.",
    ]


def test_archive_replaces_its_program(directory: Path) -> None:
    (directory / "pause").unlink()
    (directory / "pause.tar").write_bytes(b"")
    assert programs.problems(directory) == []


def test_program_that_cannot_be_executed_is_named(directory: Path) -> None:
    (directory / "kubelet").chmod(0o644)
    assert programs.problems(directory) == [f"{directory}/kubelet is not executable; run chmod +x on it."]


def test_pause_with_a_loader_is_refused(directory: Path) -> None:
    (directory / "pause").write_bytes(elf("/lib64/ld.so"))
    (text,) = programs.problems(directory)
    assert "pause needs /lib64/ld.so" in text


def test_missing_directory_is_named(tmp_path: Path) -> None:
    (text,) = programs.problems(tmp_path / "none")
    assert "is not a directory" in text


def test_archives_get_the_names_of_all_images_they_serve() -> None:
    registry = "registry.k8s.io"
    agnhost = [f"{registry}/e2e/agnhost:2.63.0", f"{registry}/e2e/agnhost:2.9"]
    others = ["gcr.io/x/agnhost:2.6", f"{registry}/build/distroless-iptables:v0.9", f"{registry}/e2e/busybox:1"]
    named = images.named(
        [
            *others,
            *reversed(agnhost),
            f"{registry}/pause:3",
            f"{registry}/e2e/nginx:4",
            f"{registry}/regression-issue-74839:1.5",
        ]
    )
    assert named["agnhost"][:2] == agnhost
    assert sorted(named["agnhost"][2:]) == sorted(others)
    assert named["pause"] == [f"{registry}/pause:3"]
    assert named["regression-issue-74839"] == [f"{registry}/regression-issue-74839:1.5"]


def test_tests_without_the_image_agnhost_are_refused() -> None:
    with pytest.raises(E2eError, match="no image agnhost"):
        images.named(["r/pause:3"])
