# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytecode of source files in archives: each source is compiled once, and what runs is the source."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

BYTECODE = Path(__file__).parents[3] / "molecule/lab/bytecode"
ONLY_STORED = "import sitecustomize; sitecustomize.compile_source = None; import sent"


class Archives:
    """Directory of archives with a module `sent`, and the directory of their bytecode."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cache = directory / "cache"

    def run(self, source: str, archive: str, program: str = "import sent") -> subprocess.CompletedProcess[str]:
        """Put the source into an archive, and run a program that may import it."""
        path = self.directory / archive
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("sent.py", source)
        environment = {**os.environ, "PYTHONPATH": f"{BYTECODE}:{path}", "PYTHONPYCACHEPREFIX": str(self.cache)}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )

    def files(self) -> list[Path]:
        return list(self.cache.glob("archives-*/*"))


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    return Archives(tmp_path)


def test_source_is_compiled_once(archives: Archives) -> None:
    assert "'NoneType' object is not callable" in archives.run("print(1)", "a.zip", ONLY_STORED).stderr
    assert archives.run("print(1)", "a.zip").stdout == "1\n"
    assert archives.run("print(1)", "b.zip", ONLY_STORED).stdout == "1\n"
    assert len(archives.files()) == 1


def test_other_source_of_the_same_name_is_compiled(archives: Archives) -> None:
    assert archives.run("print(1)", "a.zip").stdout == "1\n"
    assert archives.run("print(2)", "a.zip").stdout == "2\n"
    assert len(archives.files()) == 2


def test_traceback_names_the_archive_that_is_imported(archives: Archives) -> None:
    for archive in ("a.zip", "b.zip"):
        assert f'{archive}/sent.py", line 1, in <module>' in archives.run("1 / 0", archive).stderr


def test_error_in_a_source_is_that_of_python(archives: Archives) -> None:
    assert "SyntaxError: invalid syntax" in archives.run("1 2", "a.zip").stderr
    assert archives.files() == []


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"cut off"])
def test_damaged_file_is_written_anew(archives: Archives, content: bytes) -> None:
    archives.run("print(1)", "a.zip")
    (file,) = archives.files()
    whole = file.read_bytes()
    file.write_bytes(content)
    assert archives.run("print(1)", "a.zip").stdout == "1\n"
    assert file.read_bytes() == whole


def test_directory_that_cannot_be_written_is_no_error(archives: Archives) -> None:
    archives.cache.write_text("a file")
    done = archives.run("print(1)", "a.zip")
    assert (done.stdout, done.stderr) == ("1\n", "")
