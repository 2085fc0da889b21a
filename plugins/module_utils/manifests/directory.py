# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory of manifests, or a single file, as a source of objects.

The output of ``kubectl get svc,endpointslices -A -o json`` (or ``-o yaml``) is accepted as it is. A file that cannot be
used is a problem with a name, a line and a reason, and its last good version stays in place. If two files hold the same
object, the first by name counts and the other is a problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from typing import NamedTuple

from .documents import DocumentError, Object, ObjectKey, objects

SUFFIXES = (".yaml", ".yml", ".json")


class Changes(NamedTuple):
    """Changes of objects: new or changed objects, and the keys of removed ones."""

    put: list[Object]
    removed: list[ObjectKey]


class Manifests:
    """Objects of a path, not read until :meth:`scan`.

    ``waiting`` is the reason why no objects are known yet, or "". While it is set, nothing may be removed from a node.
    ``unknown`` names the files of which no version could be read: their objects are not known.
    """

    about = "manifests"

    def __init__(self, path: str) -> None:
        self.path = path
        self.unknown: set[str] = set()
        self.waiting = f"{path} has not been read yet"
        self._signatures: dict[str, tuple[int, int, int]] = {}
        self._broken: dict[str, str] = {}
        self._files: dict[str, dict[ObjectKey, Object]] = {}
        self._holders: dict[ObjectKey, list[str]] = {}  # files with this object, sorted
        self._doubled: set[ObjectKey] = set()

    @property
    def problems(self) -> dict[str, str]:
        """Return one sentence for each file that cannot be used as it is."""
        sentences = {
            name: f"{self._file(name)}: {key} is also in {names[0]}, which counts"
            for key in self._doubled
            for names in (self._holders[key],)
            for name in names[1:]
        }
        return {**sentences, **self._broken}

    @property
    def refused(self) -> set[str]:
        """Return the names of the files whose present version cannot be used."""
        return set(self._broken)

    def objects(self) -> Iterator[Object]:
        """Yield every object, from the file that counts."""
        for key, names in self._holders.items():
            yield self._files[names[0]][key]

    def reads(self, name: str) -> bool:
        """Tell whether a file with this name would be read; staged files and editors' backups are not."""
        if os.path.isdir(self.path):
            return _is_manifest(name)
        return name == os.path.basename(self.path)

    def scan(self, names: Collection[str] | None = None) -> Changes:
        """Read the files with these names, or all whose size, modification time or inode differ; return the changes."""
        try:
            present = self._present(None if self.waiting else names)
        except OSError as error:
            # An unmounted file system or a moved directory is not an empty directory: remove no objects.
            self.waiting = f"{self.path} cannot be read: {error.strerror}"
            return Changes([], [])
        if self.waiting:
            names, self.waiting = None, ""  # read everything after a failure, and the first time
        looked_at = set(present) | set(self._files) | set(self._broken)
        if names is not None:
            looked_at &= set(names)
        before: dict[ObjectKey, Object | None] = {}
        for name in sorted(looked_at):
            if name not in present:
                self._forget(name, before)
            elif names is not None or name not in self._signatures or self._signature(name) != self._signatures[name]:
                self._read(name, before)
        return self._changes(before)

    def _present(self, names: Collection[str] | None) -> set[str]:
        """Return the names of the files that exist, or those of ``names`` that may exist.

        Reading the latter tells whether they exist.
        """
        if os.path.isdir(self.path):
            listed = os.listdir(self.path) if names is None else names
            return {name for name in listed if _is_manifest(name)}
        os.stat(self.path)
        return {os.path.basename(self.path)}

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name) if os.path.isdir(self.path) else self.path

    def _signature(self, name: str) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._file(name))
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _forget(self, name: str, before: dict[ObjectKey, Object | None]) -> None:
        self._store(name, {}, before)
        self._files.pop(name, None)
        self._signatures.pop(name, None)
        self._broken.pop(name, None)
        self.unknown.discard(name)

    def _read(self, name: str, before: dict[ObjectKey, Object | None]) -> None:
        path = self._file(name)
        signature = self._signature(name)
        try:
            if path != self.path and not stat.S_ISREG(os.stat(path).st_mode):
                self._refuse(name, f"{path}: not a file")  # opening a named pipe waits for a writer
                return
            with open(path, encoding="utf-8") as file:
                parsed = objects(file.read())
        except FileNotFoundError:
            if os.path.islink(path):
                self._refuse(name, f"{path}: the link leads nowhere")
            else:
                self._forget(name, before)  # removed between listing and reading
            return
        except OSError as error:
            self._refuse(name, f"{path}: cannot be read: {error.strerror}")
            return
        except UnicodeDecodeError as error:
            self._refuse(name, f"{path}: not text in UTF-8 (byte {error.start})")
            return
        except DocumentError as error:
            self._refuse(name, f"{path}:{error.line}: {error.what}" if error.line else f"{path}: {error.what}")
            return
        self._broken.pop(name, None)
        self.unknown.discard(name)
        if signature is not None:
            self._signatures[name] = signature
        self._store(name, parsed, before)

    def _refuse(self, name: str, problem: str) -> None:
        self._signatures.pop(name, None)  # read it again at the next scan
        if name not in self._files:
            self.unknown.add(name)
            self._broken[name] = f"{problem}; nothing of this file is known"
        else:
            self._broken[name] = f"{problem}; its last good version stays in place"

    def _store(self, name: str, parsed: dict[ObjectKey, Object], before: dict[ObjectKey, Object | None]) -> None:
        """Replace the objects of a file; record in ``before`` the object that counted so far for each touched key."""
        old = self._files.get(name, {})
        touched = list(dict.fromkeys((*old, *parsed)))  # in the order of the file, so that every run has the same
        for key in touched:
            names = self._holders.get(key, [])
            before.setdefault(key, self._files[names[0]][key] if names else None)
        self._files[name] = parsed
        for key in touched:
            names = self._holders.setdefault(key, [])
            if key in parsed and name not in names:
                names.append(name)
                names.sort()
            elif key not in parsed and name in names:
                names.remove(name)
            if not names:
                del self._holders[key]
            (self._doubled.add if len(names) > 1 else self._doubled.discard)(key)

    def _changes(self, before: dict[ObjectKey, Object | None]) -> Changes:
        changes = Changes([], [])
        for key, old in before.items():
            names = self._holders.get(key)
            if names:
                new = self._files[names[0]][key]
                if new != old:
                    changes.put.append(new)
            elif old is not None:
                changes.removed.append(key)
        return changes


def _is_manifest(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")
