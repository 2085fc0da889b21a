# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Task of ``kernel_settings``: the task of ``kernel_modules``, then the task of ``sysctls``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._module.task import ModuleTask
from ..engine.errors import EngineError
from ..engine.ledger import LASTING
from . import kernel_modules, sysctls

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .._confirm.guard import Guard
    from .._module.planning import LedgerView


class Task(ModuleTask):
    """Task of ``kernel_settings``: kernel modules first, since some sysctls exist only after their module is loaded."""

    spec: ClassVar[dict[str, Any]] = {
        **kernel_modules.OPTIONS,
        "absent_modules": kernel_modules.Task.spec["absent"],
        "sysctls": sysctls.Task.spec["sysctls"],
        "absent_sysctls": sysctls.Task.spec["absent"],
    }
    directory = LASTING

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = {}
        self._sysctls = sysctls.Task(module, {**params, "absent": params["absent_sysctls"]})
        self._sysctls.foresee()
        self._modules = kernel_modules.Task(module, {**params, "absent": params["absent_modules"]})

    def converge(self, view: LedgerView, _guard: Guard | None = None) -> dict[str, Any]:
        first = self._modules.converge(view)
        try:
            return joined(first, self._sysctls.converge(view))
        except EngineError as error:
            raise error if self.module.check_mode else self._modules.taken_back(error, view) from error


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return two results, merged into one."""
    result = {**first, **second, "changed": first["changed"] or second["changed"]}
    for field in ("plan", "lines", "adopted", "overridden"):
        result[field] = [*first[field], *second[field]]
    if "diff" in first:
        result["diff"] = {side: {**first["diff"][side], **second["diff"][side]} for side in ("before", "after")}
    return result
