# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send member files from the controller to the node, and name the controller's file in errors about its members.

Then confirm a change that waits for confirmation.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.kubenode.ipvs.plugins.plugin_utils.confirmation import ConfirmingAction


class ActionModule(ConfirmingAction):
    """The controller's half of ``ipsets``."""

    TRANSFERS_FILES = True
    _supports_async = False

    def _change(self, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module, with the controller's member files in the node's temporary directory."""
        arguments = dict(self._task.args)
        sent: dict[str, str] = {}
        if isinstance(arguments.get("sets"), list):
            arguments["sets"] = [self._send(each, sent) for each in arguments["sets"]]
        result = self._execute_module(module_args=arguments, task_vars=task_vars)
        for remote, local in sent.items():
            result["msg"] = str(result.get("msg", "")).replace(remote, local)
        if sent:
            if not result["msg"]:
                del result["msg"]
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _send(self, given: Any, sent: dict[str, str]) -> Any:
        """Return a set with the node's copy of its member file, and send that file if it is on the controller.

        ``sent`` maps each remote path to the path on the controller that the task gives.
        """
        if (
            not isinstance(given, dict)
            or not given.get("src")
            or boolean(given.get("remote_src") or False, strict=False)
        ):
            return given
        try:
            source = self._find_needle("files", given["src"])
        except AnsibleError as error:
            raise AnsibleActionFail(
                f"the file {given['src']} with members of set {given.get('name')} does not exist"
            ) from error
        if not self._connection._shell.tmpdir:
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, f"members-{len(sent)}")
        self._transfer_file(self._loader.get_real_file(source), remote)
        self._fixup_perms2((self._connection._shell.tmpdir, remote))
        sent[remote] = given["src"]
        return {**given, "src": remote, "remote_src": True}
