# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the agent's bundle to a node that lacks it.

A run that changes nothing takes one remote execution.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

MODULE = "kubenode.ipvs.agent_install"
# The first hexadecimal digits of the bundle's SHA-256 name a release on a node.
RELEASE_DIGITS = 16


class ActionModule(ActionBase):
    """The controller's half of ``agent_install``."""

    # run() creates a directory on the node when there is something to transfer. With True, Ansible would create a
    # second one, which is never removed and costs two round trips in a run that changes nothing.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module with the bundle's digest, and once more with the bundle if the node lacks it."""
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        bundle = arguments.pop("bundle", None)
        if bundle is None:
            result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
            return result
        try:
            source = self._find_needle("files", bundle)
        except AnsibleError as error:
            raise AnsibleActionFail(
                f"bundle {bundle} of the agent does not exist ('make bundle' builds it in a checkout)"
            ) from error
        digest = sha256(source)
        expected = arguments.get("sha256") or digest
        if expected != digest:
            raise AnsibleActionFail(
                f"bundle {source} has SHA-256 {digest}, expected {expected} (sha256); nothing was sent"
            )
        arguments.update(digest=digest[:RELEASE_DIGITS], sha256=digest)
        first = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        if not first.pop("bundle_needed", False) or first.get("failed") or self._task.check_mode:
            result.update(first)
            return result
        try:
            # exists already if modules are not pipelined
            temporary = self._connection._shell.tmpdir or self._make_tmp_path()
            arguments["bundle"] = self._connection._shell.join_path(temporary, "bundle.tar.gz")
            self._transfer_file(source, arguments["bundle"])
            self._fixup_perms2((temporary, arguments["bundle"]))
            result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result


def sha256(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
