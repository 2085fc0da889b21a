# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Files of the collection as a table: kind ``file``, key path, value text. A rename replaces the whole file."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from typing import TYPE_CHECKING, Any

from ..engine.errors import KernelError
from ..engine.kernel import Failure, Result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Callable

    from ansible.module_utils.basic import AnsibleModule

    from ..engine.model.step import Step

HEADER = "# Written by kubenode.ipvs.{module} for owner {owner}; changes made here are lost.\n"


def read(*paths: str) -> dict[Any, str]:
    """Return the texts of the files that exist, by path.

    Raises:
        KernelError: a file exists and cannot be read.
    """
    texts = {}
    for path in paths:
        try:
            texts[path] = text_of(path)
        except OSError as error:
            raise KernelError(f"file {path} cannot be read: {error.strerror}; nothing was changed") from error
    return {path: there for path, there in texts.items() if there is not None}


def text_of(path: str) -> str | None:
    """Return the text of a file, None if it is absent; :func:`write` restores bytes that are not UTF-8.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def boot_order(directories: Iterable[str]) -> list[str]:
    """Return the ``*.conf`` of directories in the order in which a boot reads them: by name, across directories.

    A file hides files of the same name in later directories (sysctl.d(5), modules-load.d(5)).
    """
    files: dict[str, str] = {}
    for directory in directories:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            if name.endswith(".conf"):
                files.setdefault(name, os.path.join(directory, name))
    return [files[name] for name in sorted(files)]


def refuse_read_only(paths: Iterable[str]) -> None:
    """Raise OSError if a path to create, change or remove is on a read-only file system."""
    for path in paths:
        directory = os.path.dirname(os.path.abspath(path))
        while not os.path.isdir(directory):
            directory = os.path.dirname(directory)
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def foresee(steps: Iterable[Step]) -> None:
    """Raise KernelError if a step would write or remove a file on a read-only file system."""
    try:
        refuse_read_only(step.key for step in steps if step.kind == "file")
    except OSError as error:
        raise KernelError(f"file {error.filename} cannot be written: {error.strerror}; nothing was changed") from error


def table(module: AnsibleModule) -> Callable[[list[Step], bool], Result]:
    """Return the table's ``apply``; ``module`` is the AnsibleModule that sets SELinux contexts."""

    def apply(steps: list[Step], keep_going: bool = False) -> Result:
        result = Result([], [])
        for step in steps:
            try:
                write(module, step.key, step.after)
                result.done.append(step)
            except OSError as error:
                result.failed.append(Failure(step, f"file {step.key} cannot be written: {error.strerror}"))
                if not keep_going:
                    break
        return result

    return apply


def write(module: AnsibleModule, path: str, text: str | None, mode: int = 0o644) -> None:
    """Write a whole file by a rename; without a text, remove it.

    The new file keeps the owner, mode and SELinux context of the present one. Ansible's atomic_move is not used: if it
    fails, it ends the module with half of the task done.

    Raises:
        OSError: the file cannot be written or removed, and is as it was.
    """
    if text is None:
        if os.path.lexists(path):
            os.unlink(path)
        return
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    # In the same directory: a full or read-only file system fails the write before anything is replaced.
    handle, temporary = tempfile.mkstemp(prefix=".kubenode-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        os.chmod(temporary, mode)
        there = os.path.exists(path)
        if there:
            status = os.stat(path)
            os.chmod(temporary, stat.S_IMODE(status.st_mode))
            os.chown(temporary, status.st_uid, status.st_gid)
        if module.selinux_enabled():
            context = module.selinux_context(path) if there else module.selinux_default_context(path)
            module.set_context_if_different(temporary, context, False)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
