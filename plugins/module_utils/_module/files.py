# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Our own files as a table: kind ``file``, key path, value text. Written whole, by a rename."""

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
    """Return those of the files that exist.

    Raises:
        KernelError: one exists and cannot be read.
    """
    found = {}
    for path in paths:
        try:
            found[path] = text_of(path)
        except OSError as error:
            raise KernelError(f"file {path} cannot be read: {error.strerror}; nothing was changed") from error
    return {path: there for path, there in found.items() if there is not None}


def text_of(path: str) -> str | None:
    """Return what is in a file, None where it is not; whatever bytes there are can be written again.

    Raises:
        OSError: it exists and cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def foreign_text(path: str) -> str:
    """Return the text of a file of somebody else; "" if it cannot be read, as it says nothing at boot then either."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def boot_order(directories: Iterable[str]) -> list[str]:
    """Return the ``*.conf`` of directories in the order in which a boot reads them: by name, across directories.

    A file hides those of the same name in the directories after its own (sysctl.d(5), modules-load.d(5)).
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
    """Raise OSError if something is to be made, changed or removed where nothing can be."""
    for path in paths:
        directory = os.path.dirname(os.path.abspath(path))
        while not os.path.isdir(directory):
            directory = os.path.dirname(directory)
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def foresee(steps: Iterable[Step]) -> None:
    """Raise KernelError if a file is to be written, or removed, where nothing can be."""
    try:
        refuse_read_only(step.key for step in steps if step.kind == "file")
    except OSError as error:
        raise KernelError(f"file {error.filename} cannot be written: {error.strerror}; nothing was changed") from error


def table(module: AnsibleModule) -> Callable[[list[Step], bool], Result]:
    """Return the table's ``apply``; ``module`` is the AnsibleModule that knows of SELinux."""

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
    """Write a file as a whole, by a rename; without a text, remove it.

    A new file has the owner, mode and context of the one before it.

    Not by Ansible's atomic_move, which ends the module where it fails, with half of the task done.

    Raises:
        OSError: the file is as it was.
    """
    if text is None:
        if os.path.lexists(path):
            os.unlink(path)
        return
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    # In the same directory: no space left, or a file system that is read-only, shows before anything is replaced.
    handle, temporary = tempfile.mkstemp(prefix=".kubenode-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        os.chmod(temporary, mode)
        there = os.path.exists(path)
        if there:
            former = os.stat(path)
            os.chmod(temporary, stat.S_IMODE(former.st_mode))
            os.chown(temporary, former.st_uid, former.st_gid)
        if module.selinux_enabled():
            context = module.selinux_context(path) if there else module.selinux_default_context(path)
            module.set_context_if_different(temporary, context, False)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
