# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles of agents without function: valid bundles, and bundles with any member that a tar archive can have."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Member(NamedTuple):
    """A member of a tar archive: a file, or with ``link`` a symbolic or hard link."""

    name: str
    data: bytes = b""
    link: str = ""
    hard: bool = False


def bundle(program: str) -> bytes:
    """Return a valid bundle whose command is ``program``."""
    files = {"bin/kubenode": program.encode(), "lib/kubenode/__init__.py": b""}
    return packed(Member(name, data) for name, data in {**files, "SHA256SUMS": manifest(files)}.items())


def manifest(files: Mapping[str, bytes]) -> bytes:
    """Return the manifest of files."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()


def packed(members: Iterable[Member]) -> bytes:
    """Return a compressed archive of exactly these members, in this order."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = len(member.data)
            if member.link:
                info.type = tarfile.LNKTYPE if member.hard else tarfile.SYMTYPE
                info.linkname = member.link
            archive.addfile(info, io.BytesIO(member.data))
    return data.getvalue()
