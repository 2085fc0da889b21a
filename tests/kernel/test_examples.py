# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples in the modules' documentation do what they say: every module takes its own, and those of sets and chains are run."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from kernel.modules import PACKAGE, converge, run

PREFIX = "kubenode.ipvs."
NAMES = sorted(path.stem for path in Path("plugins/modules").glob("*.py"))


LOOK = basic.AnsibleModule.__init__


class TakenError(Exception):
    """A module has taken its arguments."""


def examples(name: str) -> list[dict[str, Any]]:
    """The arguments that a module's examples give it, in their order."""
    tasks = yaml.safe_load(importlib.import_module(f"{PACKAGE}.{name}").EXAMPLES)
    return [task[PREFIX + name] or {} for task in tasks if PREFIX + name in task]


def refusal(name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a module has against its arguments; it gets no further than to look at them."""

    def only_look(self: Any, *given: Any, **options: Any) -> None:
        LOOK(self, *given, **options)
        raise TakenError

    monkeypatch.setattr(basic.AnsibleModule, "__init__", only_look)
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(TakenError, SystemExit):
        importlib.import_module(f"{PACKAGE}.{name}").main()
    return str(json.loads(output.getvalue())["msg"]) if output.getvalue() else ""


@pytest.mark.parametrize("name", NAMES)
def test_a_module_takes_its_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [arguments for arguments in examples(name) if "{{" not in json.dumps(arguments)]
    assert shown
    assert [refusal(name, arguments, monkeypatch) for arguments in shown] == [""] * len(shown)


def test_a_wrong_example_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Unsupported parameters" in refusal("ipsets", {"set": []}, monkeypatch)


def test_the_examples_of_sets(tmp_path: Path) -> None:
    (tmp_path / "listed.txt").write_text("# from somewhere\n192.0.2.0/24\n198.51.100.0/24\n")
    for arguments in examples("ipsets"):
        for one in arguments["sets"]:
            if one.get("src"):  # on the controller: the action plugin sends it
                one.update(src=str(tmp_path / one["src"]), remote_src=True)
        assert converge("ipsets", **arguments)["changed"]
    for owner in ("ansible", "edge"):
        run("ipsets", owner=owner, purge="owned")
    assert subprocess.run(["ipset", "save"], check=True, capture_output=True, text=True).stdout == ""


def test_the_examples_of_chains() -> None:
    subprocess.run(["modprobe", "-a", "ip_vs", "xt_ipvs", "xt_set", "xt_LOG"], check=True)
    subprocess.run(["ipset", "create", "trusted", "hash:net"], check=True)
    before = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
    for arguments in examples("iptables_chains"):
        arguments.pop("confirm_timeout", None)  # the controller's to confirm
        assert converge("iptables_chains", **arguments)["changed"]
    for owner in ("ansible", "edge"):
        run("iptables_chains", owner=owner, purge="owned")
    rules = [line for line in before.splitlines() if line.startswith("-A")]
    after = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
    assert [line for line in after.splitlines() if line.startswith("-A")] == rules
    subprocess.run(["ipset", "destroy"], check=True)
