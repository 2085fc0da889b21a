# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Duration of Ansible tasks and playbooks.

A task's wall time lasts from its banner to the next. A playbook has wall time and CPU time.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .node import Node

_BANNER = re.compile(r"(?:TASK \[(.*)\]|PLAY RECAP) \*+$")

Task = dict[str, Any]


class Run(NamedTuple):
    """Result of a playbook's run.

    It has the wall time and the controller's CPU time in seconds, the number of module executions on a node, and the
    number of changed tasks.
    """

    seconds: float
    cpu: float
    executions: int
    changed: int


def run_playbook(inventory: Path, playbook: str | Path, *options: str) -> Run:
    """Run a whole playbook.

    Raises:
        RuntimeError: the playbook failed; with the end of Ansible's output.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", "-vvv", "--inventory", str(inventory), str(playbook), *options],
        cwd=ROOT, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"ansible-playbook {playbook}: status {done.returncode}\n{done.stdout[-3000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    changed = sum(map(int, re.findall(r" changed=(\d+) ", done.stdout.partition("PLAY RECAP")[2])))
    return Run(
        seconds, cpu, len(re.findall(r"^(?:<.*> )?Using module file ", done.stdout, flags=re.MULTILINE)), changed
    )


def _environment() -> dict[str, str]:
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", f"{ROOT / 'collection'}:{ROOT / '.cache/peers'}")
    return environment


def time_tasks(node: Node, tasks: Sequence[Task], variables: dict[str, Any] | None = None) -> dict[str, list[float]]:
    """Run tasks on the node one after the other; return the seconds of each task, by its name, in order.

    Raises:
        RuntimeError: a task failed; with the end of Ansible's output.
    """
    play = [{"hosts": "nodes", "gather_facts": False, "vars": variables or {}, "tasks": list(tasks)}]
    path = node.lab.directory / "tasks.yml"
    path.write_text(json.dumps(play))  # JSON is YAML
    seconds: dict[str, list[float]] = {}
    current, began, lines = "", 0.0, []
    with subprocess.Popen(
        ["ansible-playbook", "--inventory", str(node.inventory), str(path)],
        cwd=ROOT, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            now = time.monotonic()
            lines.append(line)
            if found := _BANNER.match(line.rstrip()):
                if current:
                    seconds.setdefault(current, []).append(now - began)
                current, began = found[1] or "", now
    if process.returncode:
        raise RuntimeError(f"ansible-playbook: status {process.returncode}\n{''.join(lines[-30:])}")
    return seconds
