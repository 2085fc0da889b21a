# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record of a process that the lab started, identified by process id and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from . import netns
from .errors import LabError


def _start_time(pid: int) -> int | None:
    """Return the start time of a process (clock ticks since boot), None if it does not exist or has ended."""
    try:
        # The name in parentheses may have spaces: fields count from behind it. The 20th is starttime, proc(5).
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(fields[18])


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


class Recorded(NamedTuple):
    """Process id and start time, as recorded in a file."""

    pid: int
    started: int  # clock ticks since boot

    @classmethod
    def of(cls, pid: int) -> Recorded:
        """Return the record of a running process."""
        return cls(pid, _start_time(pid) or 0)

    @classmethod
    def load(cls, path: Path) -> Recorded | None:
        """Read a record; None if it is missing, or incomplete because its writer was killed."""
        try:
            pid, started = path.read_text().split()
            return cls(int(pid), int(started))
        except (FileNotFoundError, ValueError):
            return None

    def save(self, path: Path) -> None:
        """Write the record."""
        path.write_text(f"{self.pid} {self.started}\n")

    @property
    def running(self) -> bool:
        """Return true if the process runs. A later process with the same id has another start time."""
        return _start_time(self.pid) == self.started

    def kill(self, namespace: str, timeout: float = 10) -> None:
        """Kill the process and its session, which it leads, as far as they are in the lab's namespace.

        Raises:
            LabError: a process still runs after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while members := [pid for pid in netns.processes(namespace) if _session(pid) == self.pid]:
            if time.monotonic() > deadline:
                raise LabError(f"processes {members} do not end")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
