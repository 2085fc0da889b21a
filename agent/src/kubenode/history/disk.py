# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on a disk: regular files only, whole replacements."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

CREATE = os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_HEAD = 1000  # bytes that hold the first line


def opened(path: str, flags: int) -> int:
    """Open a regular file; return its descriptor.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a link, a named pipe or the like.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError("it is no regular file")
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def start(path: str) -> bytes:
    """Return the beginning of a regular file, with its first line; errors are those of :func:`opened`."""
    descriptor = opened(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _HEAD)
    finally:
        os.close(descriptor)


def whole(descriptor: int) -> bytes:
    """Return the rest of a file."""
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def replace(directory: str, name: str, data: bytes) -> None:
    """Write a file durably, whole or not at all.

    Raises:
        OSError: it could not be written; a former file of that name stays.
    """
    path = os.path.join(directory, name)
    descriptor = os.open(f"{path}.new", CREATE | os.O_WRONLY, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
    except OSError:
        with suppress(OSError):
            os.unlink(f"{path}.new")
        raise
    entry = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
