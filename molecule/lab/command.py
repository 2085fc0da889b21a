# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program to its end; a failure becomes one readable error."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from .errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Mount and process namespaces of its own, whose first process dies with this one: no process and no mount in them
# outlives this process, even if it is killed.
_CONTAINED = [
    *["setpriv", "--pdeathsig", "KILL", "--"],
    *["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"],
]


def run(argv: Sequence[str], *, text: str = "", what: str = "", timeout: float = 60) -> str:
    """Run ``argv`` with ``text`` as its input and return its output.

    Args:
        argv: program and arguments; no shell.
        text: standard input.
        what: purpose, with which the error begins; the command itself if empty.
        timeout: seconds.

    Raises:
        LabError: the program cannot be run, takes too long or fails; with its last lines.
    """
    shown = what or shlex.join(argv)
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{shown}: not done after {timeout:.0f} s") from error
    except OSError as error:
        raise LabError(f"{shown}: {error}") from error
    if done.returncode:
        raise LabError(f"{shown}: status {done.returncode}: {last_lines(done.stderr or done.stdout)}")
    return done.stdout


def run_contained(argv: Sequence[str], log: str | os.PathLike[str], *, what: str, env: Mapping[str, str]) -> None:
    """Run a long command that cannot outlive this process.

    Args:
        argv: program and arguments; no shell.
        log: file to which its output is appended.
        what: purpose, with which the error begins.
        env: its whole environment.

    Raises:
        LabError: the command failed; with the last lines of the log.
    """
    with open(log, "ab") as output:
        done = subprocess.run(
            [*_CONTAINED, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            check=False,
        )
    if done.returncode:
        with open(log, errors="replace") as output:
            end = last_lines(output.read(), 25)
        raise LabError(f"{what}: status {done.returncode}; the end of {os.fspath(log)}:\n{end}")


def last_lines(text: str, count: int = 12) -> str:
    """Return the last ``count`` lines of a text that are not blank."""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-count:])
