# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runner of Ansible tasks on this kernel: Ansible's templates, action plugins and local connection.

The modules run in this process. A process of ansible-playbook for each task would take ten times as long. Molecule's
scenarios prove what that process adds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import action_loader, connection_loader, init_plugin_loader
from ansible.template import Templar, trust_as_template
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
from kernel.modules import ModuleError, run
from support.examples import PREFIX, ROOT, action
from support.processes.namespace import sh


@contextmanager
def collections() -> Iterator[None]:
    """Let Ansible find the collection's plugins, although tests have already imported the collection as a package."""
    imported = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "ansible_collections"}
    for name in imported:
        del sys.modules[name]
    init_plugin_loader([str(ROOT / "collection")])
    try:
        yield
    finally:
        _AnsibleCollectionFinder._remove()
        for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
            del sys.modules[name]
        sys.modules.update(imported)


class Controller:
    """Run one task after the other, as a playbook would.

    ``directory``/files holds the files of the tasks. ``variables`` also holds what the tasks register.
    """

    def __init__(self, directory: Path, variables: dict[str, Any]) -> None:
        self.variables = variables
        self._loader = DataLoader()
        self._loader.set_basedir(str(directory))

    def run(self, task: dict[str, Any], *, check: bool = False) -> dict[str, Any] | None:
        """Run a task and return its result; None if its condition is not met.

        Raises:
            ModuleError: the task failed.
        """
        templar = Templar(loader=self._loader, variables={**self.variables, **_trusted(task.get("vars", {}))})
        if "when" in task and not templar.evaluate_conditional(trust_as_template(task["when"])):
            return None
        name = action(task)
        arguments = templar.template(_trusted(task[name] or {}))
        if name == "ansible.builtin.command":
            return {"changed": False, "stdout": sh(*str(arguments).split())}
        if name == "ansible.builtin.copy":
            return {"changed": False, "content": arguments["content"]}
        if name.startswith(PREFIX) and name not in action_loader:
            return run(name.removeprefix(PREFIX), check=check, **arguments)
        return self._act(name, arguments, check, templar)

    def _act(self, name: str, arguments: dict[str, Any], check: bool, templar: Templar) -> dict[str, Any]:
        """Run an action plugin; its modules run in this process."""
        task = Task()
        task.action, task.args, task.check_mode = name, arguments, check
        context = PlayContext()
        connection = connection_loader.get("local", context)
        plugin = action_loader.get(
            name,
            task=task,
            connection=connection,
            play_context=context,
            loader=self._loader,
            templar=templar,
            shared_loader_obj=None,
        )

        def module(module_name: str = "", module_args: Any = None, **_: Any) -> dict[str, Any]:
            given = arguments if module_args is None else module_args
            try:
                return run((module_name or name).removeprefix(PREFIX), check=check, **given)
            except ModuleError as error:
                return error.result

        plugin._execute_module = module
        result: dict[str, Any] = plugin.run(task_vars={**self.variables, **templar.available_variables})
        if result.get("failed"):
            raise ModuleError(result)
        return result


def _trusted(value: Any) -> Any:
    """Mark every text in a value as a possible template, as Ansible does with the texts of a playbook."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: _trusted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return value
