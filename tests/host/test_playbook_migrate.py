# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook migrate when a node fails: who goes on, and who does not begin. The move itself is left out: it is the scenario's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NODES = ("n1", "n2", "n3", "n4")
# In place of the role: one node fails, or is away; who comes to the end says so.
MOVE: list[dict[str, Any]] = [
    {"name": "Fail", "ansible.builtin.fail": {"msg": "on purpose"}, "when": "inventory_hostname == failing"},
    {"name": "Be reached", "ansible.builtin.ping": {}, "when": "inventory_hostname == away"},
    {"name": "Come to the end", "ansible.builtin.debug": {"msg": "moved"}},
]


def migrate(site: Path, *options: str) -> tuple[int, set[str], dict[str, str]]:
    """Run the playbook; returns its status, who came to the end, and why others failed."""
    (play,) = yaml.safe_load((ROOT / "playbooks/migrate.yml").read_text(encoding="utf-8"))
    assert [task["name"] for task in play["tasks"]][-1] == "Move the node"
    play["tasks"][-1:] = MOVE
    play["become"] = False
    (site / "migrate.yml").write_text(json.dumps([play]))
    hosts = {name: {"ansible_host": "127.0.0.1", "ansible_port": 1} for name in NODES}
    inventory = {"all": {"hosts": hosts, "vars": {"failing": "", "away": ""}}}
    (site / "inventory.yml").write_text(json.dumps(inventory))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "inventory.yml", "migrate.yml", *options],
        cwd=site,
        env={key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    failed = dict(re.findall(r'^fatal: \[(\w+)\]: [A-Z]+! => \{.*?"msg": "([^"]*)"', done.stdout, re.MULTILINE | re.DOTALL))
    return done.returncode, set(re.findall(r'^ok: \[(\w+)\] => \{\s*"msg": "moved"', done.stdout, re.MULTILINE)), failed


@pytest.mark.parametrize("how", ["failing", "away"])
def test_the_nodes_of_a_batch_end_their_move_and_the_next_batch_does_not_begin(tmp_path: Path, how: str) -> None:
    status, moved, failed = migrate(tmp_path, "-e", "kubenode_serial=2", "-e", f"{how}=n1")
    assert (status != 0, moved, set(failed)) == (True, {"n2"}, {"n1", "n3", "n4"})
    assert failed["n3"] == "n1 failed, so n3 is left as it is."


def test_one_after_the_other_if_nothing_is_said(tmp_path: Path) -> None:
    assert migrate(tmp_path) == (0, set(NODES), {})
    status, moved, failed = migrate(tmp_path, "-e", "failing=n2")
    assert (status != 0, moved, set(failed)) == (True, {"n1"}, {"n2"})


def test_a_limit_leaves_all_others_out(tmp_path: Path) -> None:
    assert migrate(tmp_path, "--limit", "n3") == (0, {"n3"}, {})
