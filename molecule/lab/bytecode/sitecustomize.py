# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the bytecode of source files in archives, so that Python compiles each source once.

Ansible sends a module as an archive of source files. To compile them takes half of the module's processor time, and
Python keeps the bytecode of files only. Nodes of the lab have this as ``lab_bytecode`` (recipe.py), playbooks of tests
as ``sitecustomize``.

A bytecode file is named by the hash of its source, and begins with the hash of the rest: after a power cut, it may have
any content.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport
from types import CodeType

DIRECTORY = f"{sys.pycache_prefix or '/var/cache'}/archives-{sys.implementation.cache_tag}"
HASH_SIZE = 8  # bytes
KEY = 0  # of the hash
# All sources of archives go through this function, and no public one is for that. Python's type stubs list no private
# names. A later Python may pass it more arguments.
compile_source = zipimport._compile_source  # type: ignore[attr-defined]


def stored(path: str) -> CodeType | None:
    """Return the code of a bytecode file; None if there is no complete file."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    data = content[HASH_SIZE:]
    return marshal.loads(data) if content[:HASH_SIZE] == _imp.source_hash(KEY, data) else None


def store(path: str, code: CodeType) -> None:
    """Write a bytecode file, if this user may."""
    data = marshal.dumps(code)
    part = f"{path}.{os.getpid()}"
    try:
        os.makedirs(DIRECTORY, exist_ok=True)
        with open(part, "xb") as file:
            file.write(_imp.source_hash(KEY, data) + data)
        os.replace(part, path)
    except OSError:
        pass


def compile_once(path: str, source: bytes, *more: object) -> CodeType:
    """Return the code of a source file in an archive, as ``zipimport._compile_source`` does."""
    file = f"{DIRECTORY}/{_imp.source_hash(KEY, source).hex()}"
    code = stored(file)
    if code is None:
        code = compile_source(path, source, *more)
        store(file, code)
    else:
        _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
    return code


zipimport._compile_source = compile_once  # type: ignore[attr-defined]
