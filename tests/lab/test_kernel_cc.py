# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiler of the user-mode kernel: which headers it precompiles. `make test` builds a kernel with it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

COMPILER = Path(__file__).parents[2] / "molecule/lab/kernel-cc"
HEADER = """
#ifndef HEADER
#define HEADER
#ifndef OWN
extern int counter;
#endif
#define NAME KBUILD_MODNAME
#endif
"""


class Tree:
    """A directory with a kernel's source as far as the compiler looks at it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "linux").mkdir()
        (root / "linux/compiler_types.h").touch()
        (root / "headers.h").write_text('#include "header.h"\n')
        self.header = root / "header.h"
        self.header.write_text(HEADER)

    def compile(
        self, text: str, name: str = "source", *options: str, headers: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Compile a source as Kbuild does: all in the directory, and its names on the command line."""
        (self.root / f"{name}.c").write_text(text)
        words = [f"-Wp,-MMD,.{name}.o.d", "-I.", "-include", f"{self.root}/linux/compiler_types.h", "-O2"]
        words += [f'-DKBUILD_MODNAME="{name}"', *options, "-c", "-o", f"{name}.o", f"{name}.c"]
        environment = {**os.environ, **({"LAB_HEADERS": headers} if headers else {})}
        return subprocess.run(
            [COMPILER, *words], cwd=self.root, env=environment, text=True, capture_output=True, check=False
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a tree whose header is precompiled, and cannot be read again."""
    tree = Tree(tmp_path)
    assert tree.compile('#include "header.h"\n', "sample", headers="headers.h").returncode == 0
    tree.header.write_text("#ifndef HEADER\n#error is read again\n#endif\n")
    return tree


def test_headers_are_precompiled_and_files_have_their_names(tree: Tree) -> None:
    for name in ("first", "second"):
        done = tree.compile('#include "header.h"\nconst char text[] = "named " NAME;\n', name)
        assert done.returncode == 0, done.stderr
        assert f"named {name}".encode() in (tree.root / f"{name}.o").read_bytes()
        assert (tree.root / f".{name}.o.d").is_file()


def test_module_has_headers_of_its_own(tree: Tree) -> None:
    source = '#include "header.h"\n'
    assert "is read again" in tree.compile(source, "module", "-DMODULE").stderr
    tree.header.write_text(HEADER)
    assert tree.compile(source, "sample", "-DMODULE", headers="headers.h").returncode == 0
    tree.header.write_text("#ifndef HEADER\n#error is read again\n#endif\n")
    assert tree.compile(source, "module", "-DMODULE").returncode == 0


def test_file_with_its_own_names_is_compiled_without(tree: Tree) -> None:
    tree.header.write_text(HEADER)
    done = tree.compile('#define OWN\n#include "header.h"\nchar *counter = NAME;\n')
    assert (done.returncode, done.stderr) == (0, "")


def test_error_is_that_of_gcc(tree: Tree) -> None:
    done = tree.compile("no C;\n")
    assert done.returncode == 1
    assert "source.c:1:1: error: unknown type name" in done.stderr
