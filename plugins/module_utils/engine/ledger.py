# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ledger: the owner of each item on this node.

A SQLite file under ``/run``, which a reboot clears together with the kernel state that it describes. It maps (kind,
key) to one owner; the agent is one, each playbook ``owner:`` another. Children (real servers, members) belong to the
owner of their parent and are not listed.

The agent's user owns that file, so root trusts only rows about the network in canonical form. Any other row is kept,
ignored and named in :attr:`Ledger.problems`. Root opens the file in a process with its owner's rights (``privsep.py``).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Callable

from .errors import ConflictError, LedgerError
from .ledger_file import LedgerFile
from .ledger_rows import RowError, decode, encode, readable
from .model.kinds import name
from .node_lock import DIRECTORY, prepare

if TYPE_CHECKING:
    from .privsep import OwnerProcess

LASTING = "/var/lib/kubenode"  # the ledger of items that outlive a reboot: files, and original values of their sysctls
PATIENCE = 30.0  # seconds that another process may hold the file
_ANSWER = 10.0  # further seconds, for the helper process to report that
_MOST_PROBLEMS = 20
_ADOPTION = "adoption"  # kind of a note, of no item
Item = tuple[str, Any]


class Ledger:
    """The open ledger. Every method is one transaction; methods raise LedgerError if the file cannot be used.

    Args:
        directory: the directory of the file, which is created if absent.
        seconds: how long another process may hold the file.
        lasting: whether only root writes the file and it outlives a reboot; by default true for :data:`LASTING`.
    """

    def __init__(self, directory: str = DIRECTORY, seconds: float = PATIENCE, lasting: bool | None = None) -> None:
        self.path = os.path.join(directory, "ledger.db")
        self._lasting = directory == LASTING if lasting is None else lasting
        self._ignored: dict[str, dict[tuple[str, str], str]] = {}  # by table and row
        self._version = -1  # SQLite's counter of changes by other processes
        self._process: OwnerProcess | None = None
        self._file: LedgerFile | None = None
        try:
            if self._lasting:
                os.makedirs(directory, mode=0o755, exist_ok=True)
            else:
                prepare(directory)
            owner = _other_owner(directory)
            # /run is memory: a kernel crash clears the file, too
            if owner is None:
                self._file = LedgerFile(self.path, self._lasting, seconds)
            else:
                from .privsep import OwnerProcess  # a node without the agent's own user does not need it

                uid, gid = owner
                self._process = OwnerProcess(
                    uid, gid, lambda: LedgerFile(self.path, self._lasting, seconds), seconds + _ANSWER
                )
        except (OSError, sqlite3.Error, LedgerError) as error:
            raise LedgerError(
                f"ledger {self.path} cannot be opened: {_words(error)}{self._holder(error)}; nothing was changed"
            ) from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        if self._process is not None:
            self._process.close()

    @property
    def is_fresh(self) -> bool:
        """Tell whether this ledger created its file, empty."""
        return bool(self._read("is_fresh"))

    def is_current(self) -> bool:
        """Tell whether the file is still where it was opened: another process may have removed or replaced it."""
        return bool(self._read("is_current"))

    def remove_if_empty(self) -> None:
        """Remove the file and its directory if the ledger is empty. The caller holds the node's lock."""
        try:
            if self._query("SELECT kind FROM claim UNION ALL SELECT kind FROM note LIMIT 1"):
                return
            os.unlink(self.path)
            os.rmdir(os.path.dirname(self.path))
        except (OSError, LedgerError):
            pass  # the directory has other files, or the next task reports the unreadable file

    def owned(self, owner: str) -> dict[str, set[Any]]:
        """Return the keys of one owner, per kind."""
        keys: dict[str, set[Any]] = {}
        for kind, key, _owner in self._claims("SELECT kind, key, owner FROM claim WHERE owner = ?", owner):
            keys.setdefault(kind, set()).add(key)
        return keys

    def others(self, owner: str) -> dict[str, dict[Any, str]]:
        """Return the keys that all other owners claim, per kind, with the owner's name."""
        keys: dict[str, dict[Any, str]] = {}
        for kind, key, other in self._claims("SELECT kind, key, owner FROM claim WHERE owner != ?", owner):
            keys.setdefault(kind, {})[key] = other
        return keys

    def owners_of(self, kind: str, keys: Iterable[Any]) -> dict[Any, str]:
        """Return the owners of these keys of one kind; keys that nobody claims are left out."""
        found = {}
        for key in keys:
            for (owner,) in self._query("SELECT owner FROM claim WHERE kind = ? AND key = ?", kind, encode(key)):
                found[key] = readable(owner)
        return found

    def kinds(self, owner: str) -> set[str]:
        """Return the kinds of the items that an owner claims."""
        return {str(kind) for (kind,) in self._query("SELECT DISTINCT kind FROM claim WHERE owner = ?", owner)}

    def written_by_others(self) -> bool:
        """Tell whether other processes have written since the last call; True for the first call."""
        ((version,),) = self._query("PRAGMA data_version")
        known, self._version = self._version, version
        return bool(version != known)

    def owners(self) -> dict[str, int]:
        """Return all owners, with the number of keys that each claims."""
        rows = self._query("SELECT owner, count(*) FROM claim GROUP BY owner ORDER BY owner")
        return {readable(owner): count for owner, count in rows}

    def claim(self, owner: str, items: Iterable[Item]) -> set[Item]:
        """Claim items for an owner; return the newly claimed ones.

        Raises:
            ConflictError: an item is another owner's; nothing was written.
        """
        rows = {(kind, encode(key)): (kind, key) for kind, key in items}
        if not rows:
            return set()
        listed = list(rows.values())
        new, conflict = self._write("claim", owner, list(rows))
        if conflict is not None:
            position, other = conflict
            raise ConflictError(
                f"{name(*listed[position])} is wanted by owner {owner!r} but belongs to owner {readable(other)!r};"
                " nothing was changed"
            )
        return {listed[position] for position in new}

    def forget(self, owner: str, items: Iterable[Item]) -> None:
        """Remove this owner's claims on items; notes stay until they are set to ""."""
        self._strike(owner, items, False)

    def rehearse(self, owner: str, items: Iterable[Item]) -> None:
        """Test whether claims can be removed, before the items themselves are removed for good."""
        self._strike(owner, items, True)

    def _strike(self, owner: str, items: Iterable[Item], rehearse: bool) -> None:
        rows = [(owner, kind, encode(key)) for kind, key in items]
        if rows:
            self._write("change", [("DELETE FROM claim WHERE owner = ? AND kind = ? AND key = ?", rows)], rehearse)

    def notes(self, owner: str, kind: str) -> dict[Any, str]:
        """Return the notes by key, which a restart needs (for example a real server's drain start)."""
        notes = {}
        for key, text in self._query("SELECT key, text FROM note WHERE owner = ? AND kind = ?", owner, kind):
            try:
                notes[decode(kind, key)] = str(text)
            except RowError as error:
                self.ignore("note", kind, key, str(error))
        return notes

    def note(self, owner: str, kind: str, texts: Iterable[tuple[Any, str]]) -> None:
        """Write a note for each key; "" removes it."""
        rows = [(owner, kind, encode(key), text) for key, text in texts]
        gone = [row[:3] for row in rows if not row[3]]
        kept = [row for row in rows if row[3]]
        if rows:
            delete = "DELETE FROM note WHERE owner = ? AND kind = ? AND key = ?"
            replace = "INSERT OR REPLACE INTO note (owner, kind, key, text) VALUES (?, ?, ?, ?)"
            self._write("change", [(delete, gone), (replace, kept)])

    def ask_adoption(self, owner: str) -> None:
        """Ask an owner to adopt, once, the unowned items with well-known names."""
        row = [(owner, _ADOPTION, '""', "asked")]
        self._write("change", [("INSERT OR REPLACE INTO note (owner, kind, key, text) VALUES (?, ?, ?, ?)", row)])

    def is_adoption_asked(self, owner: str) -> bool:
        """Tell whether an adoption was requested and not yet ended."""
        return bool(self._query("SELECT key FROM note WHERE owner = ? AND kind = ?", owner, _ADOPTION))

    def end_adoption(self, owner: str) -> None:
        """End the adoption."""
        self._write("change", [("DELETE FROM note WHERE owner = ? AND kind = ?", [(owner, _ADOPTION)])])

    def ignore(self, table: str, kind: object, key: object, reason: str) -> None:
        """Report an unusable row in :attr:`problems`; it stays in the file."""
        named = self._ignored.setdefault(table, {})
        row = (readable(kind), readable(key))
        if len(named) < _MOST_PROBLEMS:
            named.setdefault(
                row,
                f"ledger {self.path}: the {table} with kind {row[0]!r}, key {row[1]!r} {reason}; it is kept and"
                " ignored. If no later release wrote it, remove the row with sqlite3",
            )
        elif row not in named:
            named[("", "")] = f"ledger {self.path}: more rows of the table {table} are kept and ignored"

    @property
    def problems(self) -> list[str]:
        """Sentences about rows that were read and ignored, for the caller to report."""
        return [sentence for named in self._ignored.values() for sentence in named.values()]

    def forget_problems(self) -> None:
        """Clear the problems of claims, which the next read reports again; notes are read once."""
        self._ignored.pop("claim", None)

    def _claims(self, query: str, owner: str) -> Iterable[tuple[str, Any, str]]:
        for kind, key, other in self._query(query, owner):
            try:
                yield kind, decode(kind, key, lasting=self._lasting), readable(other)
            except RowError as error:
                self.ignore("claim", kind, key, f"of owner {readable(other)!r} {error}")

    def _query(self, text: str, *arguments: str) -> Sequence[Sequence[Any]]:
        return list(self._read("query", text, list(arguments)))

    def _read(self, method: str, *arguments: Any) -> Any:
        try:
            return self._call(method, *arguments)
        except (OSError, sqlite3.Error, LedgerError) as error:
            raise LedgerError(
                f"ledger {self.path} cannot be read: {_words(error)}{self._holder(error)}; nothing was changed"
            ) from error

    def _write(self, method: str, *arguments: Any) -> Any:
        try:
            return self._call(method, *arguments)
        except (OSError, sqlite3.Error, LedgerError) as error:
            raise LedgerError(
                f"ledger {self.path} cannot be written: {_words(error)}{self._holder(error)}; nothing was changed"
            ) from error

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._process is not None:
            return self._process.call(method, *arguments)
        function: Callable[..., Any] = getattr(self._file, method)
        return function(*arguments)

    def _holder(self, error: Exception) -> str:
        """Return the process that holds the file, and the remedy, if the error is about that."""
        if "locked" not in str(error):
            return ""
        from .node_lock import holders

        try:
            return f": it is held by {holders(os.stat(self.path))}; wait for that process, or end it"
        except OSError:
            return ""


def _other_owner(directory: str) -> tuple[int, int] | None:
    """Return uid and gid of a directory's owner if this process is root and the owner is not; otherwise None.

    Raises:
        OSError: the directory cannot be read.
    """
    if os.geteuid() != 0:
        return None
    status = os.stat(directory)
    return (status.st_uid, status.st_gid) if status.st_uid != 0 else None


def _words(error: Exception) -> str:
    """Return an error's text without its number, which SQLite's errors lack."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
