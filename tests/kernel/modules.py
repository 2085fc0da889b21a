# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the collection's modules in this process; Ansible starts a process for each."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Iterator
from typing import Any

from ansible.module_utils import _internal, basic
from ansible.module_utils.common import warnings
from kernel import returned

PACKAGE = "ansible_collections.kubenode.ipvs.plugins.modules"


class ModuleError(Exception):
    """A module called fail_json; ``result`` holds all that it returned."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


@contextlib.contextmanager
def in_a_module() -> Iterator[None]:
    """Send warnings into a module's result, although the tests have imported the controller's half of Ansible, too."""
    before, _internal.is_controller = _internal.is_controller, False
    try:
        yield
    finally:
        _internal.is_controller = before


def run(name: str, *, check: bool = False, diff: bool = True, **arguments: Any) -> dict[str, Any]:
    """Run one module and return its result, which must match its documentation.

    Raises:
        ModuleError: the module failed.
    """
    given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": diff}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
    basic._ANSIBLE_PROFILE = "legacy"
    warnings._global_warnings.clear()  # warnings of the module that ran before in this process
    module = importlib.import_module(f"{PACKAGE}.{name}")
    output = io.StringIO()
    with in_a_module(), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
    # ansible-core 2.19 and later send warnings as objects.
    texts = [each if isinstance(each, str) else each["event"]["msg"] for each in result.get("warnings", [])]
    result["warnings"] = texts
    differences = returned.differences(PACKAGE, name, result)
    assert differences == [], f"{name} does not return what it documents: {'; '.join(differences)}"
    if result.get("failed"):
        raise ModuleError(result)
    return result


def converge(name: str, **arguments: Any) -> dict[str, Any]:
    """Check, run, and run again: check mode must say what the run does, and the second run must change nothing."""
    foreseen = run(name, check=True, **arguments)
    result = run(name, **arguments)
    for field in ("changed", "plan", "lines", "diff"):
        given, expected = result[field], foreseen[field]
        assert given == expected, f"{field}: check mode and run differ: {expected!r}, {given!r}"
    again = run(name, **arguments)
    assert (again["changed"], again["lines"]) == (False, [])
    return result
