# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks and role variables that the documentation shows: each exists, and its value is valid."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).parents[3]
PREFIX = "kubenode.ipvs."
MODULES = sorted(PREFIX + path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="session")
def documentation() -> dict[str, Any]:
    """Return documentation and examples by module, as ansible-doc reads them, with all fragments merged."""
    ansible_doc = Path(sys.executable).with_name("ansible-doc")
    command = [ansible_doc, "--json", "--type", "module", *MODULES]
    read = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    return json.loads(read.stdout)


def argument_spec(options: dict[str, Any]) -> dict[str, Any]:
    """Return the argument spec of documented options."""
    kept = ("aliases", "choices", "elements", "required", "type")
    return {
        name: {key: option[key] for key in kept if key in option}
        | ({"options": argument_spec(option["suboptions"])} if "suboptions" in option else {})
        for name, option in options.items()
    }


def tasks(text: str) -> list[tuple[str, Any]]:
    """Return the tasks in a YAML text that use a module of the collection, at any depth: (module, arguments)."""

    def walk(node: Any) -> list[tuple[str, Any]]:
        if isinstance(node, list):
            return [task for item in node for task in walk(item)]
        if not isinstance(node, dict):
            return []
        ours = [(key, value or {}) for key, value in node.items() if key in MODULES]
        return ours + [task for value in node.values() for task in walk(value)]

    return walk(yaml.safe_load(text))


def problems(module: str, arguments: Any, documentation: dict[str, Any]) -> list[str]:
    """Return a task's violations of the documented options; templates are skipped."""
    if "{{" in json.dumps(arguments, default=str):
        spec = argument_spec(documentation[module]["doc"]["options"])
        return [f"{module}: no option {name}" for name in arguments if name not in spec]
    validator = ArgumentSpecValidator(argument_spec(documentation[module]["doc"]["options"]))
    return [f"{module}: {message}" for message in validator.validate(arguments).error_messages]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_are_valid(module: str, documentation: dict[str, Any]) -> None:
    shown = tasks(documentation[module]["examples"])
    assert module in [name for name, _arguments in shown]
    assert [problem for name, arguments in shown for problem in problems(name, arguments, documentation)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tasks_on_a_page_are_valid(page: Path, documentation: dict[str, Any]) -> None:
    blocks = re.findall(r"^```ya?ml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    shown = [task for block in blocks for task in tasks(block)]
    assert [problem for name, arguments in shown for problem in problems(name, arguments, documentation)] == []


def role_options() -> dict[str, Any]:
    """Return the options of all roles."""
    options: dict[str, Any] = {}
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            options.update(entry.get("options", {}))
    return options


def variables(node: Any) -> dict[str, Any]:
    """Return the variables of the collection's roles in a YAML block, at any depth."""
    if not isinstance(node, dict):
        return {}
    roles = tuple(f"{path.name}_" for path in (ROOT / "roles").iterdir())
    named = {name: value for name, value in node.items() if str(name).startswith(roles)}
    return named | {name: value for item in node.values() for name, value in variables(item).items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_variables_on_a_page_are_valid(page: Path) -> None:
    options = role_options()
    for block in re.findall(r"^```ya?ml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        shown = variables(yaml.safe_load(block))
        assert shown.keys() <= options.keys()
        checked = {name: {**options[name], "required": False} for name in shown}
        assert ArgumentSpecValidator(checked).validate(shown).error_messages == []


def test_a_wrong_task_is_found(documentation: dict[str, Any]) -> None:
    task = (
        "- kubenode.ipvs.ipvs_services:\n    services:\n      - {address: 192.0.2.1, port: 80, protocol: icmp, servers:"
        " []}\n"
    )
    ((module, arguments),) = tasks(task)
    texts = " ".join(problems(module, arguments, documentation))
    assert "icmp" in texts
    assert "servers" in texts
