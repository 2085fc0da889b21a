# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger's SQLite file: rows of text, in a file that only its owner can open.

Each method is one transaction of bounded time. Arguments and results are JSON values, so that root can call the methods
in a process with the owner's rights (``privsep.py``).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

VERSION = 1
# A new version only adds tables, or columns with a default. So a release reads and writes the files of the releases
# before and after it.
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS claim (
    kind TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (
    owner TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (owner, kind, key)
) WITHOUT ROWID;
PRAGMA user_version={VERSION};
"""
_STEPS = 10_000  # of SQLite's virtual machine, between two checks of the time limit


class LedgerFile:
    """The open file. Every method raises OSError or sqlite3.Error if the file cannot be used.

    Args:
        path: the file; created for its owner alone if absent.
        durable: whether a change is on the disk before a method returns.
        seconds: how long another process may hold the file, and how long one method may take.
    """

    def __init__(self, path: str, durable: bool, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        status = _private(path)
        self._identity = (status.st_dev, status.st_ino)
        self._db = sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False)
        self._db.text_factory = _text
        self._db.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS)
        try:
            self._open(durable)
        except BaseException:
            self._db.close()
            raise

    def _open(self, durable: bool) -> None:
        # A forged file must not execute anything: https://www.sqlite.org/security.html
        self._db.execute("PRAGMA trusted_schema=OFF")
        self._db.execute("PRAGMA cell_size_check=ON")
        if not durable:
            self._db.execute("PRAGMA synchronous=OFF")
        ((version,),) = self._db.execute("PRAGMA user_version")
        if version > VERSION + 1:
            raise sqlite3.DatabaseError(
                f"version {version} of a later release, expected at most {VERSION + 1}; install that release again"
            )
        tables = self._tables()
        self.fresh = not tables
        if not {"claim", "note"} <= tables:
            self._db.executescript(_SCHEMA)
            self._tables()

    def _tables(self) -> set[str]:
        """Return the names of the tables; refuse triggers, views and virtual tables, which run code on access."""
        tables = set()
        for type_, name, page in self._db.execute("SELECT type, name, rootpage FROM sqlite_master"):
            if type_ not in ("table", "index") or not page:
                raise sqlite3.DatabaseError(f"it has the {type_} {name!r:.80}, which no release makes")
            if type_ == "table":
                tables.add(name)
        return tables

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def is_fresh(self) -> bool:
        """Tell whether this process has created the tables."""
        return self.fresh

    def is_current(self) -> bool:
        """Tell whether the path still leads to this file."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def query(self, text: str, arguments: Sequence[str]) -> list[list[Any]]:
        """Return the rows of a query; values that are neither text nor integer are returned as their ``repr``."""
        self._begin()
        rows = self._db.execute(text, arguments).fetchall()
        return [[value if isinstance(value, (str, int)) else repr(value) for value in row] for row in rows]

    def claim(self, owner: str, rows: Sequence[Sequence[str]]) -> list[Any]:
        """Claim (kind, key) rows.

        Return the positions of the new rows, and the position and owner of the first row that another owner claims.

        If there is such a row, nothing is written.
        """
        self._begin()
        self._db.execute("BEGIN IMMEDIATE")
        new: list[int] = []
        try:
            for position, (kind, key) in enumerate(rows):
                known = self._db.execute("SELECT owner FROM claim WHERE kind = ? AND key = ?", (kind, key)).fetchone()
                if known is None:
                    self._db.execute("INSERT INTO claim (kind, key, owner) VALUES (?, ?, ?)", (kind, key, owner))
                    new.append(position)
                elif known[0] != owner:
                    self._db.rollback()
                    return [[], [position, str(known[0])]]
            self._db.execute("COMMIT" if new else "ROLLBACK")
        except BaseException:
            self._db.rollback()  # after some errors, SQLite has rolled back by itself
            self._take_back(owner, [rows[position] for position in new])
            raise
        return [new, None]

    def _take_back(self, owner: str, rows: Sequence[Sequence[str]]) -> None:
        """Remove claims of a failed transaction.

        A commit that fails at its last step, the unlocking, has changed the file all the same.
        """
        with suppress(sqlite3.Error):
            self._db.executemany(
                "DELETE FROM claim WHERE owner = ? AND kind = ? AND key = ?", [(owner, kind, key) for kind, key in rows]
            )

    def change(self, statements: Sequence[tuple[str, Sequence[Sequence[str]]]], rehearse: bool = False) -> None:
        """Execute statements, each with its rows, in one transaction; roll a rehearsal back."""
        self._begin()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for text, rows in statements:
                self._db.executemany(text, rows)
            self._db.execute("ROLLBACK" if rehearse else "COMMIT")
        except BaseException:
            self._db.rollback()
            raise

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self._seconds


def _private(path: str) -> os.stat_result:
    """Create an absent file for its owner alone; correct the mode of one that others can read, and so lock.

    Raises:
        OSError: the path is a link, a named pipe or the like, or cannot be opened.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        handle = os.open(path, flags)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file; remove it")
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(handle, 0o600)
        return status
    finally:
        os.close(handle)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
