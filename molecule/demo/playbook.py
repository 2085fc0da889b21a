# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook, show its output as it comes, and parse its recap."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from lab.paths import ROOT

from .screen import fail

if TYPE_CHECKING:
    from pathlib import Path

    from .screen import Screen

PLAYBOOK = "kubenode.ipvs.bootstrap"
VARIABLES = "molecule/demo/bootstrap.yml"
_RECAP = re.compile(r"^(\S+)\s+:\s+(ok=\d+.*)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Run(NamedTuple):
    """Result of a run: seconds, and for each host the recap's counters (``ok``, ``changed``, ``failed`` …)."""

    seconds: float
    recap: dict[str, dict[str, int]]

    def total(self, counter: str) -> int:
        """Return a counter's sum over the hosts."""
        return sum(counters[counter] for counters in self.recap.values())


def run(screen: Screen, inventory: Path, *options: str) -> Run:
    """Run the playbook on the demo's nodes.

    Raises:
        DemoError: the playbook failed.
    """
    command = ["ansible-playbook", "--inventory", os.path.relpath(inventory, ROOT), PLAYBOOK]
    command += ["--extra-vars", f"@{VARIABLES}", *options]
    screen.note(shlex.join(command))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    if sys.stdout.isatty():
        environment["ANSIBLE_FORCE_COLOR"] = "1"  # its output is a pipe, the demo's is a terminal
    began = time.monotonic()
    recap = {}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if totals := _RECAP.match(_COLOUR.sub("", line)):
                recap[totals[1]] = {
                    name: int(count) for name, _, count in (one.partition("=") for one in totals[2].split())
                }
    if process.returncode:
        fail(f"`{shlex.join(command)}` ended with status {process.returncode}; what failed is above")
    return Run(time.monotonic() - began, recap)
