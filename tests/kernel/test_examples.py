# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every example of the documentation on a kernel: in check mode, for real, and again.

An example that ``EXAMPLES`` does not know fails.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.examples import CHANGES, EXAMPLES, MODULES, PROVES, STAYS, Example
from kernel.modules import run
from kernel.tasks import Controller, collections
from support.agent.process import dump
from support.examples import PREFIX, action, documented
from support.processes.kernel import use_tables
from support.processes.namespace import sh

DOCUMENTED = documented()
PREDICTED = ("changed", "plan", "lines", "diff", "adopted")
PURGED: dict[str, dict[str, Any]] = {
    "ipvs_services": {"sync_daemons": []},
    "virtual_addresses": {},
    "iptables_chains": {},
    "ipsets": {},
    "sysctls": {},
    "kernel_modules": {},
}


@pytest.fixture(scope="module", autouse=True)
def ansible() -> Iterator[None]:
    sh("modprobe", "-a", *MODULES)
    with collections():
        yield


@pytest.fixture
def controller(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    """Make a controller and a node with what the examples need; restore the node at the end."""
    example = EXAMPLES.get(source, Example({}))
    if example.nft and subprocess.run(["nft", "--check", "add", "table", "inet", "t"], check=False).returncode:
        pytest.fail("this kernel has no nf_tables for IP; build the lab's own: molecule/lab/lab kernel")
    use_tables()
    before = dump()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    for name, content in example.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o755)
    for command in example.before:
        sh(*command)
    for name, arguments in example.given:
        run(name, **arguments)
    asked = {variable: run(name) for variable, name in example.asked.items()}
    yield Controller(tmp_path, {**example.variables, **asked})
    for owner in owners(source):
        run("service_proxy", state="absent", owner=owner)
        for name, arguments in {**PURGED, **({"nft_tables": {}} if example.nft else {})}.items():
            run(name, owner=owner, purge="owned", **arguments)
    for command in example.after:
        sh(*command)
    assert dump() == before
    assert list(Path("/etc").glob("*/*kubenode*")) == []


def owners(source: str) -> set[str]:
    given = [task[action(task)] or {} for task in DOCUMENTED[source] if action(task).startswith(PREFIX)]
    return {str(arguments.get("owner", default)) for arguments in given for default in ("ansible", "service_proxy")}


def named(source: str) -> dict[str, dict[str, Any]]:
    return {task.get("name", f"#{number}"): task for number, task in enumerate(DOCUMENTED[source], 1)}


def test_table_of_examples_is_complete() -> None:
    assert {source: list(example.tasks) for source, example in EXAMPLES.items()} == {
        source: list(named(source)) for source in DOCUMENTED
    }


@pytest.mark.parametrize("source", DOCUMENTED)
def test_example_has_its_stated_effect(source: str, controller: Controller) -> None:
    for name, task in named(source).items():
        expected = EXAMPLES[source].tasks[name]
        if expected in (CHANGES, STAYS, PROVES):
            result = converge(controller, task, changed=expected != STAYS, left=[PROVES] if expected == PROVES else [])
        else:
            result = controller.run(task)
            assert result is not None
            assert not result.get("changed")
            assert expected in str(result.get("content", result.get("msg", "")))
        if "register" in task:
            controller.variables[task["register"]] = result


def converge(controller: Controller, task: dict[str, Any], *, changed: bool, left: list[str]) -> dict[str, Any]:
    """Check a task, run it, and run it again; return the result of the first run.

    Check mode must predict the first run. The second run must change nothing, except for the lines in ``left``.
    """
    foreseen, result, again = controller.run(task, check=True), controller.run(task), controller.run(task)
    assert foreseen is not None
    assert result is not None
    assert again is not None
    for field in PREDICTED:
        assert result.get(field) == foreseen.get(field), f"{field}: check mode and run differ"
    assert result["changed"] is changed
    assert (again["changed"], again["lines"]) == (bool(left), left)
    assert result.get("confirmed", True) is True
    return result
