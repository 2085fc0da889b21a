# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Changes that wait for confirmation, one file each; see ``_confirm/protocol.py``."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable

PENDING = "/run/kubenode-confirm"  # root's: not below /run/kubenode, where the agent's user can replace any file
_SHOWN = 50  # lines; /run is memory, and a set can have a hundred thousand members


def pending() -> list[dict[str, Any]]:
    """Return each waiting change: the ``path`` of its file, its ``owner``, and the first ``lines`` of its plan."""
    try:
        _check()
        names = os.listdir(PENDING)
    except OSError:
        return []
    changes = []
    for name in sorted(name for name in names if not name.endswith((".undone", ".new"))):
        path = os.path.join(PENDING, name)
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            changes.append({"path": path, **json.load(file)})
    return changes


def prepare() -> None:
    """Create the directory.

    Raises:
        OSError: the directory cannot be created, or a user other than root can write to it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(PENDING, 0o700)
    _check()


def _check() -> None:
    """Refuse a directory in which another user could confirm, forge or replace a file.

    After this check only root can replace the directory itself: ``/run`` is root's.
    """
    status = os.lstat(PENDING)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory that only root can write to; remove it", PENDING)


def write(path: str, content: dict[str, Any]) -> None:
    """Create a file with its content at once, by a rename; never write to an existing file of its temporary name."""
    new = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.rename(new, path)


def few(elements: Sequence[Any], text: Callable[[Any], str] = str) -> list[str]:
    """Return the texts of the first :data:`_SHOWN` elements, and the number of the others."""
    more = len(elements) - _SHOWN
    return [text(element) for element in elements[:_SHOWN]] + ([f"and {more} more"] if more > 0 else [])
