# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks in the documentation: examples of every module, filter and lookup plugin, and of every page."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PREFIX = "kubenode.ipvs."
STATE_FILE = "kubenode_"  # prefix of the variables in a file for the playbook converge


def documented() -> dict[str, list[dict[str, Any]]]:
    """Return the tasks by their source: ``plugins/modules/ipsets.py``, or ``docs/how-to/converge.md #2``."""
    plugins = [
        path for kind in ("modules", "filter", "lookup") for path in sorted((ROOT / "plugins" / kind).glob("*.py"))
    ]
    tasks_of = {str(path.relative_to(ROOT)): list(yaml.safe_load(_examples(path))) for path in plugins}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"^```ya?ml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks, 1):
            tasks = _tasks(yaml.safe_load(block))
            if tasks:
                tasks_of[f"{page.relative_to(ROOT)} #{number}"] = tasks
    return tasks_of


def _examples(path: Path) -> str:
    """Return the EXAMPLES of a plugin, without importing it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXAMPLES":
            return str(ast.literal_eval(node.value))
    return ""


def _tasks(block: Any) -> list[dict[str, Any]]:
    """Return the tasks with the collection's modules in a YAML block; for a file of converge, the playbook's tasks."""
    if isinstance(block, dict) and all(name.startswith(STATE_FILE) for name in block):
        (play,) = yaml.safe_load((ROOT / "playbooks/converge.yml").read_text())
        owner = block["kubenode_owner"]
        return [
            {**task, PREFIX + module: {**task[PREFIX + module], "owner": owner}, "vars": block}
            for task in play["tasks"]
            for module in (name.removeprefix(PREFIX) for name in task if name.startswith(PREFIX))
            if module != "service_proxy"
        ]
    if not isinstance(block, list):
        return []
    tasks = [task for item in block for task in (item.get("tasks", []) if "hosts" in item else [item])]
    return [task for task in tasks if action(task).startswith(PREFIX)]


def action(task: dict[str, Any]) -> str:
    """Return the module of a task: its only key with a dot."""
    (name,) = (key for key in task if "." in key)
    return name
