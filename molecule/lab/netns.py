# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces, and the processes in them.

A process in a lab's namespace belongs to the lab. So the lab never ends another process whose id equals a recorded one,
and it finds its processes that were never recorded.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .command import run
from .errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def names() -> list[str]:
    """Return the names of all network namespaces on this machine."""
    return sorted(entry.name for entry in DIRECTORY.iterdir()) if DIRECTORY.is_dir() else []


def add(name: str) -> None:
    """Make a namespace, with its loopback up."""
    run(["ip", "netns", "add", name])
    run(["ip", "-n", name, "link", "set", "lo", "up"])


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Move this thread into a namespace during a ``with`` block. Sockets that it opens there stay there.

    Raises:
        LabError: the namespace does not exist.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise LabError(f"network namespace {name}: not there; is the lab up?") from error
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def processes(name: str) -> list[int]:
    """Return the ids of the processes in a namespace; none if the namespace does not exist."""
    try:
        wanted = (DIRECTORY / name).stat()
    except FileNotFoundError:
        return []
    numbers = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            namespace = os.stat(f"/proc/{entry.name}/ns/net")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if os.path.samestat(namespace, wanted):
            numbers.append(int(entry.name))
    return sorted(numbers)


def kill_all(name: str, timeout: float = 10) -> int:
    """Kill every process in a namespace; return their number.

    Raises:
        LabError: a process still runs after ``timeout`` seconds.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + timeout
    while remaining := processes(name):
        if time.monotonic() > deadline:
            raise LabError(f"network namespace {name}: processes {remaining} do not end")
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(remaining)
        time.sleep(0.02)
    return len(ended)


def remove(name: str) -> int:
    """Remove a namespace with its processes and interfaces; return the number of ended processes."""
    ended = kill_all(name)
    path = DIRECTORY / name
    if not path.exists():
        return ended
    if not os.path.ismount(path):  # an interrupted `ip netns add` left only the file
        path.unlink()
    else:
        run(["ip", "netns", "delete", name])
    return ended
