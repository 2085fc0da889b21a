# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run attacks of another user on the agent's directory, in a process with that user's rights."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

AGENT = 64999  # a uid and gid that no user of a machine has
NOBODY = 65534


@contextmanager
def acting(uid: int, act: Callable[[], object]) -> Iterator[int]:
    """Run a function as a user, in a child that lives until the block's end; the block begins after its return."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            try:
                act()
                answer = b"done"
            except OSError as error:
                answer = error.strerror.encode()
            except sqlite3.Error as error:
                answer = str(error).encode()
            os.write(writer, answer)
            os.close(writer)
            signal.pause()
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            answers[child] = pipe.read().decode()
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


answers: dict[int, str] = {}


def act(uid: int, function: Callable[[], object]) -> str:
    """Run a function as a user; return "done", or the text of its error."""
    with acting(uid, function) as child:
        return answers[child]


def agents_directory(path: Path) -> Path:
    """Make a directory that belongs to the agent's user."""
    path.mkdir(mode=0o750)
    os.chown(path, AGENT, AGENT)
    return path


def write_rows(directory: Path, statements: list[tuple[str, tuple[object, ...]]]) -> None:
    """Write rows into the ledger as the agent's user would."""

    def write() -> None:
        database = sqlite3.connect(directory / "ledger.db")
        for text, row in statements:
            database.execute(text, row)
        database.commit()

    assert act(AGENT, write) == "done"
