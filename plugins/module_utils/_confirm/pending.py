# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Changes that wait for their confirmation: a file for each, which ``_confirm/protocol.py`` explains."""

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

PENDING = "/run/kubenode-confirm"  # root's: not below /run/kubenode, where the agent's user can exchange everything
_SHOWN = 50  # lines; /run is memory, and a set can have a hundred thousand members


def pending() -> list[dict[str, Any]]:
    """Return what is known of each: the ``path`` of its file, its ``owner``, and the first ``lines`` of its plan."""
    try:
        _check()
        names = os.listdir(PENDING)
    except OSError:
        return []
    found = []
    for name in sorted(name for name in names if not name.endswith((".undone", ".new"))):
        path = os.path.join(PENDING, name)
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            found.append({"path": path, **json.load(file)})
    return found


def prepare() -> None:
    """Make the directory.

    Raises:
        OSError: it cannot be made, or another user than root can write in what is there.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(PENDING, 0o700)
    _check()


def _check() -> None:
    """Refuse a directory in which another user could confirm, forge or exchange a file.

    Nobody but root can put one in its place once it is good: ``/run`` is root's.
    """
    status = os.lstat(PENDING)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory of root's alone; remove it", PENDING)


def write(path: str, content: dict[str, Any]) -> None:
    """Have a file with this content appear at once; nothing that waits under its temporary name is written to."""
    new = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.rename(new, path)


def few(things: Sequence[Any], text: Callable[[Any], str] = str) -> list[str]:
    """Return the texts of the first :data:`_SHOWN` of many things, and how many there are beside them."""
    more = len(things) - _SHOWN
    return [text(thing) for thing in things[:_SHOWN]] + ([f"and {more} more"] if more > 0 else [])
