# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run molecule's scenarios on one lab of real kernels and report each as one test (`make molecule`).

python tests/tools/scenarios.py [argument of molecule test …]    by default --all
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import junit

REPORT = Path(".cache/results/molecule/molecule.xml")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line of molecule's closing recap: default    : actions=9  successful=7  disabled=0  skipped=0  missing=2  failed=0
RECAP = re.compile(r"^(\S+)\s*: actions=\d+  successful=(\d+)  .*failed=(\d+)")


def recap(lines: list[str]) -> dict[str, tuple[int, int]]:
    """From molecule's output, each scenario's number of actions that succeeded and that failed."""
    counts: dict[str, tuple[int, int]] = {}
    for line in lines:
        if match := RECAP.match(COLOUR.sub("", line)):
            succeeded, failed = counts.get(match[1], (0, 0))
            counts[match[1]] = (succeeded + int(match[2]), failed + int(match[3]))
    return counts


def cases(scenarios: list[str], counts: dict[str, tuple[int, int]]) -> list[junit.Case]:
    """One case a scenario; one that molecule did not get to is a failure."""
    result = []
    for name in scenarios:
        succeeded, failed = counts.get(name, (0, 0))
        problem = f"{failed} of its actions failed" if failed else None if succeeded else "did not run"
        result.append(junit.Case("molecule", name, problem=problem))
    return result


def main() -> int:
    """Run molecule with its output shown as it comes; returns its exit status."""
    arguments = sys.argv[1:] or ["--all"]
    # Molecule skips `create` if an interrupted run left it noted as done; then there may be no nodes, or used ones.
    subprocess.run(["molecule", "destroy"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = []
    command = ["molecule", "test", "--report", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as molecule:
        for line in molecule.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    counts = recap(lines)
    scenarios = sorted(path.parent.name for path in Path("molecule").glob("*/molecule.yml"))
    junit.write(REPORT, cases(scenarios if "--all" in arguments else sorted(counts), counts))
    return molecule.returncode


if __name__ == "__main__":
    sys.exit(main())
