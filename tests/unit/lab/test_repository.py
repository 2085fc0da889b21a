# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository: indexes of real packages that the tests build."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from lab import repository
from lab.errors import LabError

CONTROL = "Package: demo\nVersion: 1.0\nArchitecture: amd64\nDescription: a package\n with two lines\n"


def package(control: str = CONTROL, compression: str = "xz", name: str = "./control") -> bytes:
    """Return a binary package as deb(5) describes it, with a member of odd length before the control archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=f"w:{compression}") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(control)
        tar.addfile(entry, io.BytesIO(control.encode()))
    suffix = f".{compression}" if compression else ""
    content = b"!<arch>\n"
    for member, data in (("debian-binary", b"2.0\n"), ("_odd", b"abc"), (f"control.tar{suffix}", archive.getvalue())):
        content += (
            f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return content


@pytest.mark.parametrize("compression", ["xz", "gz", ""])
def test_control_paragraph(compression: str) -> None:
    assert repository.control_paragraph(package(compression=compression), "demo.deb") == CONTROL.rstrip("\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"PK", "demo.deb: not a Debian package"),
        (b"!<arch>\n", "demo.deb: no control file"),
        (package(name="./other"), "demo.deb: control.tar.xz: .*control"),
        (package()[:-40], "demo.deb: control.tar.xz is cut off"),
    ],
)
def test_file_that_is_no_package_is_named(content: bytes, text: str) -> None:
    with pytest.raises(LabError, match=text):
        repository.control_paragraph(content, "demo.deb")


def test_index_lists_all_packages(tmp_path: Path) -> None:
    content = package()
    (tmp_path / "demo_1.0_amd64.deb").write_bytes(content)
    (tmp_path / "other_1.0_amd64.deb").write_bytes(package(CONTROL.replace("demo", "other")))
    assert repository.write_index(tmp_path, "arm64") == 2
    index = (tmp_path / "Packages").read_text()
    assert index.split("\n\n")[0].splitlines() == [
        *CONTROL.splitlines(),
        "Filename: ./demo_1.0_amd64.deb",
        f"Size: {len(content)}",
        f"SHA256: {hashlib.sha256(content).hexdigest()}",
    ]
    assert gzip.decompress((tmp_path / "Packages.gz").read_bytes()).decode() == index
    release = (tmp_path / "Release").read_text()
    assert "Architectures: arm64\n" in release
    assert f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages\n" in release
