# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Bundles of the agent: verify the archive and each file in it, unpack.

A bundle carries its manifest ``SHA256SUMS``, in the format of the command ``sha256sum``. An unpacked release is
compared with it, too.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterable, Iterator

MANIFEST = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f]{1,255})")
# Python compiles these files on the node when a release is unpacked, so the manifest cannot list them.
_COMPILED = "__pycache__"


class BundleError(Exception):
    """Error for a bundle or release that does not match its digests; it names file, expected and actual digest."""


def unpack(path: str, sha256: str, directory: str) -> None:
    """Unpack a bundle into an empty directory, and verify its digest and the digests of all its files.

    The archive is read once, so that it cannot change between verification and unpacking.

    Raises:
        BundleError: the archive or a file in it is not as expected.
        OSError: the bundle cannot be read, or the directory cannot be written.
    """
    import tarfile
    import zlib

    with open(path, "rb") as file:
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise BundleError(
            f"{path} has SHA-256 {digest}, expected {sha256}: it was changed or cut on its way from the controller"
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = archive.getmembers()
            _refuse_unsafe(members)
            for member in members:
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode = 0o755 if member.isdir() or member.name.startswith("bin/") else 0o644
            if hasattr(tarfile, "data_filter"):
                archive.extractall(directory, filter="tar")
            else:
                archive.extractall(directory)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BundleError(f"cannot be unpacked: {error}") from error
    verify(directory)


def _refuse_unsafe(members: Iterable[tarfile.TarInfo]) -> None:
    """Raise BundleError unless each member is a plain file or a directory, inside of the release, and listed once."""
    names = set()
    for member in members:
        name = member.name
        if name.startswith("/") or name != os.path.normpath(name) or name.split("/")[0] == "..":
            raise BundleError(f"{name[:200]!r} is not a relative path inside of the release")
        if not (member.isfile() or member.isdir()):
            raise BundleError(f"{name[:200]} is not a plain file or directory")
        if _COMPILED in name.split("/"):
            raise BundleError(
                f"{name[: name.index(_COMPILED) + len(_COMPILED)]} is in a bundle, expected no compiled files"
            )
        if name in names:
            raise BundleError(f"{name[:200]} is in it twice")
        names.add(name)


def verify(directory: str) -> None:
    """Compare each file of an unpacked bundle with the manifest.

    Raises:
        BundleError: a file is missing, added, changed, or not a plain file; or the manifest is invalid.
        OSError: a file cannot be read.
    """
    expected = _manifest(directory)
    present = set(_files(directory))
    for name in sorted(set(expected) - present):
        raise BundleError(f"{name} is missing, expected SHA-256 {expected[name]} ({MANIFEST})")
    for name in sorted(present - set(expected)):
        raise BundleError(f"{name[:200]} has no line in {MANIFEST}, expected only files that have one")
    for name, digest in sorted(expected.items()):
        actual = _digest(os.path.join(directory, name))
        if actual != digest:
            raise BundleError(f"{name} has SHA-256 {actual}, expected {digest} ({MANIFEST})")


def _manifest(directory: str) -> dict[str, str]:
    """Return the expected digests by file name."""
    try:
        with open(os.path.join(directory, MANIFEST), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        raise BundleError(f"{MANIFEST} is missing, expected one line 'SHA-256  NAME' for each file") from None
    except UnicodeDecodeError:
        raise BundleError(f"{MANIFEST} is not text, expected one line 'SHA-256  NAME' for each file") from None
    expected = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in expected:
            raise BundleError(
                f"{MANIFEST} line {number} is {line[:100]!r}, expected 'SHA-256  NAME' with a name that stands there"
                " once"
            )
        expected[match[2]] = match[1]
    return expected


def _files(directory: str) -> Iterator[str]:
    """Yield the names of all files in a directory tree, except for compiled files and the manifest."""
    for parent, directories, names in os.walk(directory, onerror=_raise):
        directories[:] = [
            name for name in directories if name != _COMPILED or os.path.islink(os.path.join(parent, name))
        ]
        for name in names + [name for name in directories if os.path.islink(os.path.join(parent, name))]:
            path = os.path.relpath(os.path.join(parent, name), directory)
            if os.path.islink(os.path.join(parent, name)) or not os.path.isfile(os.path.join(parent, name)):
                raise BundleError(f"{path} is not a plain file")
            if path != MANIFEST:
                yield path


def _raise(error: OSError) -> NoReturn:
    raise error


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
