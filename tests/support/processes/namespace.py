# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces of tests, and commands in them."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000


def fresh() -> None:
    """Move this thread into a new network namespace; processes that it starts follow.

    The kernel removes it with its content when the next test moves on, or the process ends.
    """
    _call("unshare", _CLONE_NEWNET)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move this thread, and the processes that it starts, into a namespace; sockets made there stay there."""
    with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{namespace}", "rb") as there:
        _call("setns", there.fileno(), _CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", home.fileno(), _CLONE_NEWNET)


def _call(function: str, *arguments: int) -> None:
    """Call a function of libc that must succeed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def sh(*arguments: str, text: str | None = None) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def each(*commands: str) -> list[str]:
    """Run shell commands that must all succeed; return the output of each.

    One small process starts all of them: in a user-mode kernel, the start of a process takes longer the more memory its
    parent has.
    """
    return sh("sh", "-ec", "\nprintf '\\0'\n".join(commands)).split("\0")
