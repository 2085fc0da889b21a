# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's lock, which serialises agent, modules and command line while they read, plan and apply.

Only root and the directory's owner can open the file, so no other user can hold it. A process waits for a bounded time,
then its error names the holder.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import LedgerError, LockedError

DIRECTORY = "/run/kubenode"
PATIENCE = 120.0  # seconds; applying a large table takes some of them
_POLL = 0.05
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def node_lock(directory: str = DIRECTORY, seconds: float = PATIENCE) -> Iterator[int]:
    """Hold the node's lock; yield its descriptor.

    Raises:
        LedgerError: the lock's file cannot be opened or locked.
        LockedError: another process has held it for ``seconds``.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            prepare(directory)
            handle = _opened(directory)
        except OSError as error:
            reason = error.strerror or error
            raise LedgerError(f"lock {directory}/lock cannot be opened: {reason}; nothing was changed") from error
        try:
            if _is_taken(handle, os.path.join(directory, "lock"), end):
                yield handle
                return
            if time.monotonic() >= end:
                raise LockedError(
                    f"lock {directory}/lock is replaced again and again by another process; nothing was changed"
                )
        finally:
            os.close(handle)


@contextmanager
def unlocked(handle: int, seconds: float = PATIENCE) -> Iterator[None]:
    """Release the node's lock for a while, and wait for it at the end. Claims in the ledger stay.

    Raises:
        LockedError: another process has held it for ``seconds`` at the end.
    """
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)
    try:
        yield
    finally:
        _take(handle, os.readlink(f"/proc/self/fd/{handle}"), time.monotonic() + seconds)


def prepare(directory: str) -> None:
    """Create the directory, for its owner and group alone.

    Earlier releases created the default directory for all users. Its mode is corrected.

    Raises:
        OSError: the directory cannot be created.
    """
    os.makedirs(directory, mode=0o750, exist_ok=True)
    if directory == DIRECTORY:
        status = os.stat(directory)
        if status.st_mode & 0o007 and status.st_uid == os.geteuid():
            os.chmod(directory, 0o750)


def _opened(directory: str) -> int:
    """Return the lock's open file, created for the directory's owner if absent.

    A link, a named pipe or another file in its place is not followed, not waited for, and not used as the lock.
    """
    holder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        owner = os.fstat(holder)
        try:
            handle = os.open("lock", _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=holder)
        except FileExistsError:
            handle = os.open("lock", _FLAGS, dir_fd=holder)
        else:
            # Only if needed: the agent's unit may not chown at all.
            if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, os.getegid()):
                os.fchown(handle, owner.st_uid, owner.st_gid)
    finally:
        os.close(holder)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_uid not in (owner.st_uid, os.geteuid()):
            raise OSError("it is not a file of the directory's owner; remove it")
        if status.st_mode & 0o077 and os.geteuid() in (0, status.st_uid):
            os.fchmod(handle, 0o600)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_taken(handle: int, path: str, end: float) -> bool:
    """Take the lock; tell whether it is the one that other processes see."""
    try:
        _take(handle, path, end)
        return _is_at(handle, path)
    except OSError as error:
        raise LedgerError(f"lock {path} cannot be taken: {error.strerror or error}; nothing was changed") from error


def _take(handle: int, path: str, end: float) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise LockedError(
                    f"lock {path} is held by {holders(os.fstat(handle))}; wait for that process, or end it; nothing was"
                    " changed"
                ) from None
            time.sleep(_POLL)


def _is_at(handle: int, path: str) -> bool:
    """Tell whether the path still leads to the open file: a lock on a removed file is worth nothing."""
    try:
        at_path, opened = os.lstat(path), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (at_path.st_dev, at_path.st_ino) == (opened.st_dev, opened.st_ino)


def holders(status: os.stat_result) -> str:
    """Return the processes that hold a lock on a file, with their commands if readable."""
    mark = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            fields = [line.split() for line in file]
    except OSError:
        fields = []
    pids = {int(words[4]) for words in fields if len(words) > 5 and words[1] != "->" and words[5] == mark}
    pids.discard(os.getpid())
    return " and ".join(_process(pid) for pid in sorted(pids)) or "another process"


def _process(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(300).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        command = ""
    command = "".join(letter if letter.isprintable() else "?" for letter in command)
    return f"pid {pid} ({command:.100})" if command else f"pid {pid}"
