# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks when a node fails: the nodes that go on, and the nodes that do not begin.

The tests replace the tasks that work on the nodes; the scenarios test those.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
NODES = ("n1", "n2", "n3", "n4")
ROLES = {"migrate": 1, "bootstrap": 2}  # how many of the last tasks include the role
# These tasks replace them: one node fails or is unreachable; each node that reaches the end says so.
WORK: list[dict[str, Any]] = [
    {"name": "Fail", "ansible.builtin.fail": {"msg": "on purpose"}, "when": "inventory_hostname == failing"},
    {"name": "Be reached", "ansible.builtin.ping": {}, "when": "inventory_hostname == away"},
    {"name": "Come to the end", "ansible.builtin.debug": {"msg": "done"}},
]


def play(name: str, site: Path, *options: str) -> tuple[int, set[str], dict[str, str]]:
    """Run a playbook; return its status, the nodes that reached the end, and why the others failed."""
    (first,) = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text(encoding="utf-8"))
    assert ["ansible.builtin.include_role" in task for task in first["tasks"]] == [False] + [True] * ROLES[name]
    first["tasks"][1:] = WORK
    first["become"] = False
    (site / "play.yml").write_text(json.dumps([first]))
    hosts = {name: {"ansible_host": "127.0.0.1", "ansible_port": 1} for name in NODES}
    inventory = {"all": {"hosts": hosts, "vars": {"failing": "", "away": ""}}}
    (site / "inventory.yml").write_text(json.dumps(inventory))
    done = run_playbook(
        ["-i", "inventory.yml", "play.yml", *options],
        site,
        {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
    )
    failed = dict(
        re.findall(r'^fatal: \[(\w+)\]: [A-Z]+! => \{.*?"msg": "([^"]*)"', done.stdout, re.MULTILINE | re.DOTALL)
    )
    return done.returncode, set(re.findall(r'^ok: \[(\w+)\] => \{\s*"msg": "done"', done.stdout, re.MULTILINE)), failed


@pytest.mark.parametrize("how", ["failing", "away"])
def test_failed_batch_completes_and_next_batch_does_not_begin(tmp_path: Path, how: str) -> None:
    status, moved, failed = play("migrate", tmp_path, "-e", "kubenode_serial=2", "-e", f"{how}=n1")
    assert (status != 0, moved, set(failed)) == (True, {"n2"}, {"n1", "n3", "n4"})
    assert failed["n3"] == "n1 failed, so n3 is left as it is."


def test_migration_moves_one_node_at_a_time_by_default(tmp_path: Path) -> None:
    assert play("migrate", tmp_path) == (0, set(NODES), {})
    status, moved, failed = play("migrate", tmp_path, "-e", "failing=n2")
    assert (status != 0, moved, set(failed)) == (True, {"n1"}, {"n2"})


@pytest.mark.parametrize(("how", "share"), [("failing", 0), ("away", 24)])
def test_rollout_ends_with_the_batch_with_too_many_failures(tmp_path: Path, how: str, share: int) -> None:
    options = ("-e", "kubenode_serial=2", "-e", f"kubenode_max_fail_percentage={share}", "-e", f"{how}=n1")
    status, done, failed = play("bootstrap", tmp_path, *options)
    assert (status != 0, done, set(failed)) == (True, {"n2"}, {"n1", "n3"})
    assert failed["n3"] == "n1 failed, so n3, n4 and all after them are left as they are."


def test_rollout_continues_without_failed_nodes(tmp_path: Path) -> None:
    options = ("-e", "kubenode_serial=2", "-e", "kubenode_max_fail_percentage=25", "-e", "failing=n1")
    status, done, failed = play("bootstrap", tmp_path, *options)
    assert (status != 0, done, set(failed)) == (True, {"n2", "n3", "n4"}, {"n1"})


@pytest.mark.parametrize("name", ROLES)
def test_limit_leaves_other_nodes_out(name: str, tmp_path: Path) -> None:
    assert play(name, tmp_path, "--limit", "n3") == (0, {"n3"}, {})
