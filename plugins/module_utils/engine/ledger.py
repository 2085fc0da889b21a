# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger: who made what on this node.

A SQLite file under ``/run``, which dies at reboot exactly like the kernel state that it describes. It maps (kind, key) to
one owner; the agent is one, each playbook ``owner:`` another. Children (real servers, members) belong to the owner of
their parent and are not listed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import ConflictError, LedgerError
from .model.kinds import KINDS, name

DIRECTORY = "/run/kubenode"
LASTING = "/var/lib/kubenode"  # the same, for what outlives a reboot: our files, what they made, sysctls' former values
_SCHEMA = """
CREATE TABLE IF NOT EXISTS claim (
    kind TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (
    owner TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (owner, kind, key)
) WITHOUT ROWID;
"""
Item = tuple[str, Any]


class Ledger:
    """The open ledger. Every method is one transaction; methods raise LedgerError if the file cannot be used."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.path = os.path.join(directory, "ledger.db")
        try:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            _hand_over(directory, self.path)
            self._version = -1  # SQLite's number for what others have written
            self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            if directory != LASTING:
                self._db.execute("PRAGMA synchronous=OFF")  # /run is memory; a crash of the kernel takes both away
            try:
                self._db.executescript(_SCHEMA)
            except sqlite3.Error:
                self._db.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"ledger {self.path} cannot be opened: {error}; nothing was changed") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def remove_if_empty(self) -> None:
        """Remove the file, and its directory, if nothing is written there. The caller holds the node's lock."""
        try:
            if self._all("SELECT kind FROM claim UNION ALL SELECT kind FROM note LIMIT 1", ()):
                return
            os.unlink(self.path)
            os.rmdir(os.path.dirname(self.path))
        except (OSError, LedgerError):
            pass  # something else is in the directory; what cannot be read is the next task's error

    def owned(self, owner: str) -> dict[str, set[Any]]:
        """Return the keys of one owner, per kind."""
        found: dict[str, set[Any]] = {}
        for kind, key in self._all("SELECT kind, key FROM claim WHERE owner = ?", (owner,)):
            found.setdefault(kind, set()).add(_decode(kind, key))
        return found

    def others(self, owner: str) -> dict[str, dict[Any, str]]:
        """Return the keys that all other owners claim, per kind, with the owner's name."""
        found: dict[str, dict[Any, str]] = {}
        for kind, key, name_ in self._all("SELECT kind, key, owner FROM claim WHERE owner != ?", (owner,)):
            found.setdefault(kind, {})[_decode(kind, key)] = name_
        return found

    def written_by_others(self) -> bool:
        """Tell whether other processes have written since this was asked for the last time; True the first time."""
        ((version,),) = self._all("PRAGMA data_version", ())
        known, self._version = self._version, version
        return bool(version != known)

    def owners(self) -> dict[str, int]:
        """Return all owners, with how many keys each claims."""
        return dict(self._all("SELECT owner, count(*) FROM claim GROUP BY owner ORDER BY owner", ()))

    def claim(self, owner: str, items: Iterable[Item]) -> set[Item]:
        """Write down that items are this owner's; return those that were not before.

        Raises:
            ConflictError: an item is another owner's; nothing was written.
        """
        new: dict[tuple[str, str], Item] = {}
        rows = [(kind, _encode(key), (kind, key)) for kind, key in items]
        if not rows:
            return set()
        with self._transaction():
            for kind, key, item in rows:
                found = self._db.execute("SELECT owner FROM claim WHERE kind = ? AND key = ?", (kind, key)).fetchone()
                if found is None:
                    new[kind, key] = item
                elif found[0] != owner:
                    raise ConflictError(
                        f"{name(*item)} is wanted by owner {owner!r} but belongs to owner {found[0]!r}; nothing was changed"
                    )
            self._db.executemany(
                "INSERT INTO claim (kind, key, owner) VALUES (?, ?, ?)", [(kind, key, owner) for kind, key in new]
            )
        return set(new.values())

    def forget(self, owner: str, items: Iterable[Item]) -> None:
        """Strike items of this owner out; notes stay until they are set to ""."""
        rows = [(owner, kind, _encode(key)) for kind, key in items]
        if rows:
            with self._transaction():
                self._db.executemany("DELETE FROM claim WHERE owner = ? AND kind = ? AND key = ?", rows)

    def rehearse(self, owner: str, items: Iterable[Item]) -> None:
        """Find out whether items could be struck out, before what they stand for is taken away for good."""
        rows = [(owner, kind, _encode(key)) for kind, key in items]
        if rows:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._db.executemany("DELETE FROM claim WHERE owner = ? AND kind = ? AND key = ?", rows)
                finally:
                    self._db.rollback()
            except sqlite3.Error as error:
                raise self._unwritable(error) from error

    def notes(self, owner: str, kind: str) -> dict[Any, str]:
        """Return what a restart must remember, per key (for example since when a real server is being drained)."""
        rows = self._all("SELECT key, text FROM note WHERE owner = ? AND kind = ?", (owner, kind))
        return {_decode(kind, key): text for key, text in rows}

    def note(self, owner: str, kind: str, texts: Iterable[tuple[Any, str]]) -> None:
        """Remember a text for each key; "" forgets it."""
        rows = [(owner, kind, _encode(key), text) for key, text in texts]
        if rows:
            with self._transaction():
                self._db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)", rows)
                self._db.execute("DELETE FROM note WHERE text = ''")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.rollback()  # SQLite itself has done so after some errors
                raise
        except sqlite3.Error as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: sqlite3.Error) -> LedgerError:
        return LedgerError(f"ledger {self.path} cannot be written: {error}; nothing was changed")

    def _all(self, query: str, arguments: tuple[str, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(f"ledger {self.path} cannot be read: {error}; nothing was changed") from error


def _encode(key: Any) -> str:
    return json.dumps(key, separators=(",", ":"))  # named tuples are written as lists


def _decode(kind: str, text: str) -> Any:
    return KINDS[kind].decode_key(json.loads(text))


def _hand_over(directory: str, path: str) -> None:
    """Make a new file belong to the directory's owner: root must not lock the unprivileged agent out of its own directory."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except FileExistsError:
        return
    holder = os.stat(directory)
    # Only where it is needed: the agent's unit may not chown at all.
    if os.geteuid() == 0 and (holder.st_uid, holder.st_gid) != (0, os.getegid()):
        os.chown(path, holder.st_uid, holder.st_gid)


@contextmanager
def node_lock(directory: str = DIRECTORY) -> Iterator[int]:
    """Hold the lock that serialises agent, modules and command line while they read, plan and apply; yield its descriptor."""
    import fcntl

    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        path = os.path.join(directory, "lock")
        _hand_over(directory, path)
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise LedgerError(f"lock {directory}/lock cannot be opened: {error}; nothing was changed") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def unlocked(handle: int) -> Iterator[None]:
    """Let others have the node's lock for a while, and wait for it at the end. What is claimed stays claimed."""
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_EX)
