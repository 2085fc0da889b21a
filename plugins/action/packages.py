# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send package files to a node that lacks a package, and remove the files after the installation."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

MODULE = "kubenode.ipvs.packages"


class ActionModule(ActionBase):
    """The controller's half of ``packages``."""

    # run() creates a directory on the node when there is something to transfer. With True, Ansible would create a
    # second one, which is never removed.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, and once more with the files if packages are missing."""
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        directory = arguments.get("directory")
        first = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        suffix = first.pop("suffix", None)
        needed = first.pop("files_needed", False)
        if not directory or suffix is None or first.get("failed"):
            result.update(first)
            return result
        sources = self._sources(directory, suffix)
        if not needed:  # check mode
            result.update(first)
            return result
        try:
            # exists already if modules are not pipelined
            temporary = self._connection._shell.tmpdir or self._make_tmp_path()
            arguments["files"] = [self._connection._shell.join_path(temporary, source.name) for source in sources]
            for source, path in zip(sources, arguments["files"]):
                self._transfer_file(str(source), path)
            self._fixup_perms2((temporary, *arguments["files"]))
            result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _sources(self, directory: str, suffix: str) -> list[Path]:
        try:
            directory_path = Path(self._find_needle("files", directory))
        except AnsibleError as error:
            raise AnsibleActionFail(f"directory {directory} does not exist on the controller") from error
        sources = sorted(path for path in directory_path.glob(f"*{suffix}") if path.is_file())
        if not sources:
            raise AnsibleActionFail(
                f"directory {directory} has no package *{suffix}, which the node's package manager installs"
            )
        verify(directory_path, sources)
        return sources


def verify(directory: Path, sources: list[Path]) -> None:
    """Compare package files with the file SHA256SUMS of their directory, if it has one.

    Raises:
        AnsibleActionFail: a file has no line in it, or another digest.
    """
    manifest = directory / "SHA256SUMS"
    if not manifest.exists():
        return
    expected = {}
    for number, line in enumerate(manifest.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](?:\./)?(.+)", line)
        if match is None:
            raise AnsibleActionFail(
                f"{manifest} line {number} is {line[:100]!r}, expected 'SHA-256  NAME' as sha256sum writes it"
            )
        expected[match[2]] = match[1]
    for source in sources:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        if expected.get(source.name) != digest:
            wanted = expected.get(source.name, "a line for it")
            raise AnsibleActionFail(
                f"{source} has SHA-256 {digest}, expected {wanted} in {manifest}; nothing was installed"
            )
