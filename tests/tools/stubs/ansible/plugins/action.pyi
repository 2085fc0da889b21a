# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of what the collection uses of Ansible's base of action plugins."""

from collections.abc import Iterable
from typing import Any

class ActionBase:
    _task: Any
    _connection: Any
    _loader: Any

    def run(self, tmp: str | None = ..., task_vars: dict[str, Any] | None = ...) -> dict[str, Any]: ...
    def _execute_module(
        self,
        module_name: str | None = ...,
        module_args: dict[str, Any] | None = ...,
        *,
        task_vars: dict[str, Any] | None = ...,
        wrap_async: bool = ...,
    ) -> dict[str, Any]: ...
    def _find_needle(self, dirname: str, needle: str) -> str: ...
    def _make_tmp_path(self) -> str: ...
    def _transfer_file(self, local_path: str, remote_path: str) -> str: ...
    def _fixup_perms2(self, remote_paths: Iterable[str]) -> None: ...
    def _low_level_execute_command(self, cmd: str) -> dict[str, Any]: ...
    def _remove_tmp_path(self, tmp_path: str) -> None: ...
