# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""System calls that fail on purpose, in real processes on a real kernel.

strace(1) answers them instead of the kernel.
"""

from __future__ import annotations

import io
import os
import random
import re
import select
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..waiting import PATIENCE, eventually


class Fault(NamedTuple):
    """System calls (``calls``, as strace names them) that fail with ``error``.

    The error KILL ends the process that makes such a call; "" only records it.

    ``when`` counts in each process and thread: ``3``, or ``3+`` from then on.
    """

    calls: str
    error: str
    when: str


class Finished(NamedTuple):
    """Exit status of a process, its output, and the number of injected faults."""

    status: int
    output: str
    errors: str
    happened: int


def places(row: tuple[str, str, int], each: int, seed: int, *, lasting: bool = True) -> list[Fault]:
    """Return up to ``each`` faults for a row of a table.

    The row has calls, error, and the number of first calls to choose from. A fault happens once or, if ``lasting``, at
    random from then on.
    """
    calls, error, most = row
    chance = random.Random(f"{seed} {calls} {error}")
    numbers = chance.sample(range(1, most + 1), min(each, most))
    return [Fault(calls, error, f"{number}{'+' if lasting and chance.random() < 0.5 else ''}") for number in numbers]


class Attached:
    """Injects a fault into a running process during a ``with`` block; strace writes to ``record``.

    With ``children``, the fault strikes the process's children, too.
    """

    def __init__(self, fault: Fault, pid: int, record: Path, *, children: bool = True) -> None:
        self._fault = fault
        self._pid = pid
        self._record = record
        self._children = children

    def __enter__(self) -> Attached:
        fault = self._fault
        effect = "signal=KILL" if fault.error == "KILL" else f"error={fault.error}"
        inject = f"inject={fault.calls}:{effect}:when={fault.when}"
        options = [
            *(["-f"] if self._children else []),
            "-qq",
            "-o",
            str(self._record),
            "-e",
            f"trace={fault.calls}",
            *(["-e", inject] if fault.error else []),
        ]
        self._record.write_text("")
        self._strace = subprocess.Popen(["strace", *options, "-p", str(self._pid)])
        eventually(self._traced)
        return self

    def __exit__(self, *_error: object) -> None:
        self._strace.send_signal(signal.SIGINT)  # strace detaches from the process
        self._strace.wait(PATIENCE)

    @property
    def happened(self) -> int:
        """Number of injected faults until now."""
        return self._record.read_text(errors="replace").count("INJECTED")

    def _traced(self) -> bool:
        """strace has every thread of the process"""
        threads = [Path(f"/proc/{self._pid}/task/{name}/status") for name in os.listdir(f"/proc/{self._pid}/task")]
        return all("TracerPid:\t0\n" not in thread.read_text() for thread in threads)


# Errors from the manual pages (section 2, Linux man-pages 6), without those that only a wrong argument causes (EBADF,
# EFAULT, EINVAL, ENOTSOCK, ...) and those of other kinds of files: read(2) and write(2) get regular files and pipes
# that block, which never give EAGAIN. A call without errors in the pages has those of a related call.
#
# Left out are two errors that are answers, which a process must believe: newfstatat's ENOENT (there is no such file),
# and getsockopt's ENOPROTOOPT (the kernel has no such revision of a match, so iptables writes another one).
ERRORS = {
    "sendto": ("EACCES", "EAGAIN", "ECONNRESET", "EINTR", "EMSGSIZE", "ENOBUFS", "ENOMEM", "EPIPE"),
    "recvfrom": ("EAGAIN", "ECONNREFUSED", "EINTR", "ENOMEM"),
    "recvmsg": ("EAGAIN", "ECONNREFUSED", "EINTR", "ENOMEM"),
    "sendmsg": ("EACCES", "EAGAIN", "ECONNRESET", "EINTR", "EMSGSIZE", "ENOBUFS", "ENOMEM", "EPIPE"),
    "socket": ("EACCES", "EAFNOSUPPORT", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EPROTONOSUPPORT"),
    "bind": ("EACCES", "EADDRINUSE", "ENOMEM"),
    "setsockopt": ("ENOPROTOOPT", "ENOMEM", "EPERM", "EAGAIN"),  # ip(7), netfilter: the page has argument errors only
    "getsockopt": ("ENOMEM", "EPERM"),
    "clone,clone3,vfork": ("EAGAIN", "ENOMEM", "EPERM"),
    "execve": (
        "E2BIG",
        "EACCES",
        "EAGAIN",
        "EIO",
        "EMFILE",
        "ENFILE",
        "ENOENT",
        "ENOEXEC",
        "ENOMEM",
        "EPERM",
        "ETXTBSY",
    ),
    "pipe2": ("EMFILE", "ENFILE"),
    "memfd_create": ("EMFILE", "ENFILE", "ENOMEM"),
    "flock": ("EINTR", "ENOLCK"),
    "fcntl": ("EACCES", "EAGAIN", "ENOLCK"),
    "pwrite64": ("EDQUOT", "EFBIG", "EINTR", "EIO", "ENOSPC"),
    "pread64": ("EINTR", "EIO"),
    "ftruncate": ("EFBIG", "EINTR", "EIO", "EPERM"),
    "unlink": ("EACCES", "EBUSY", "EIO", "ENOENT", "ENOMEM", "EPERM", "EROFS"),
    "openat": ("EACCES", "EDQUOT", "EINTR", "EMFILE", "ENFILE", "ENOENT", "ENOMEM", "ENOSPC", "EPERM", "EROFS"),
    "read": ("EINTR", "EIO"),
    "write": ("EDQUOT", "EFBIG", "EINTR", "EIO", "ENOSPC", "EPERM", "EPIPE"),
    "poll": ("EINTR", "ENOMEM"),
    "mmap": ("EACCES", "EAGAIN", "ENFILE", "ENOMEM", "EPERM"),
    "newfstatat": ("EACCES", "ELOOP", "ENOMEM"),
}


def counted(record: Path) -> dict[str, int]:
    """Return the largest number of calls of each entry of ERRORS in one process of a record."""
    calls: Counter[tuple[str, str]] = Counter()
    entries = {call: entry for entry in ERRORS for call in entry.split(",")}
    for process, call in re.findall(r"^(\d+) +(\w+)\(", record.read_text(errors="replace"), re.MULTILINE):
        if call in entries:
            calls[process, entries[call]] += 1
    counts: dict[str, int] = {}
    for (_process, entry), count in calls.items():
        counts[entry] = max(count, counts.get(entry, 0))
    return counts


def in_child(fault: Fault, directory: Path, function: Callable[[], int]) -> Finished:
    """Call a function in a child of this process, with a fault from the child's first system call on.

    The function returns an exit status.
    """

    def at_once(begin: Callable[[], None]) -> int:
        begin()
        return function()

    return later_in_child(fault, directory, at_once)


def later_in_child(
    fault: Fault, directory: Path, function: Callable[[Callable[[], None]], int], *, children: bool = True
) -> Finished:
    """Do the same, with a fault that begins when the function calls its argument.

    Without ``children``, the fault spares the processes that the child starts.
    """
    ready, say = os.pipe()
    wait, go = os.pipe()
    output, errors = directory / "output", directory / "errors"
    child = os.fork()
    if not child:
        status = 70
        try:
            for number, path in ((1, output), (2, errors)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            # pytest's own streams do not write to these files
            sys.stdout, sys.stderr = (io.TextIOWrapper(_Unfailing(number), write_through=True) for number in (1, 2))
            os.close(go)
            status = function(lambda: _begin(say, wait))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(wait)
    os.close(say)
    with os.fdopen(ready, "rb") as pipe:
        assert pipe.read(1), f"it never came to where {fault} counts: {errors.read_text()}"
    with Attached(fault, child, directory / "record", children=children) as attached:
        os.close(go)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Finished(status, output.read_text(), errors.read_text(), attached.happened)


class _Unfailing(io.RawIOBase):
    """Output file of a child, written by a call that has no faults: what the child says is not what is tested."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        return os.writev(self._descriptor, [data])


def _begin(say: int, wait: int) -> None:
    # With epoll, which has no faults: the child may still be before this call when strace attaches.
    waiting = select.epoll()
    waiting.register(wait, 0)
    os.write(say, b"1")
    os.close(say)
    waiting.poll()
    waiting.close()
    os.close(wait)
