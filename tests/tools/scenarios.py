# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run molecule's scenarios on labs of real kernels and report each as one test (`make molecule`).

    python tests/tools/scenarios.py [argument of molecule test …]    by default all

Scenarios run in AT_ONCE labs at a time, since a scenario mostly waits for its nodes. Each lab has
a name, nodes and a molecule directory of its own. With arguments, molecule runs once, in the lab of the
first scenario that they name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import junit

# Lab -> its scenarios; the lab without any has all others. All labs take about the same time.
LABS: dict[str, list[str]] = {
    "molecule": [],
    "modules": ["modules", "prepare", "sandbox", "verify"],
    "migrate": ["migrate"],
    "stock": ["stock"],
}
# Lab -> kind of its nodes' kernels; user-mode Linux if it has none.
KERNELS = {"stock": "stock"}
AT_ONCE = 3  # the last lab, whose kernel is emulated and so never waits, begins when another has ended
REPORT = Path(".cache/results/molecule/molecule.xml")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line of molecule's closing recap: default    : actions=9  successful=7  disabled=0  skipped=0  missing=2  failed=0
RECAP = re.compile(r"^(\S+)\s*: actions=\d+  successful=(\d+)  .*failed=(\d+)")


def recap(lines: list[str]) -> dict[str, tuple[int, int]]:
    """Parse molecule's output; return each scenario's number of succeeded and of failed actions."""
    counts: dict[str, tuple[int, int]] = {}
    for line in lines:
        if match := RECAP.match(COLOUR.sub("", line)):
            succeeded, failed = counts.get(match[1], (0, 0))
            counts[match[1]] = (succeeded + int(match[2]), failed + int(match[3]))
    return counts


def cases(scenarios: list[str], counts: dict[str, tuple[int, int]]) -> list[junit.Case]:
    """Return one case for each scenario; a scenario that molecule did not run is a failure."""
    result = []
    for name in scenarios:
        succeeded, failed = counts.get(name, (0, 0))
        problem = f"{failed} of its actions failed" if failed else None if succeeded else "did not run"
        result.append(junit.Case("molecule", name, problem=problem))
    return result


def labs() -> dict[str, list[str]]:
    """Return each lab's scenarios, in molecule's order; the first lab has those that no row of LABS names."""
    scenarios = sorted(path.parent.name for path in Path("molecule").glob("*/molecule.yml"))
    named = {scenario for others in LABS.values() for scenario in others}
    return {lab: others or [each for each in scenarios if each not in named] for lab, others in LABS.items()}


def run(lab: str, arguments: list[str]) -> tuple[int, dict[str, tuple[int, int]]]:
    """Run molecule in a lab, and print its output as it comes; return its exit status and recap."""
    environment = {
        **os.environ,
        "KUBENODE_LAB": lab,
        **({"KUBENODE_KERNEL": KERNELS[lab]} if lab in KERNELS else {}),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(Path(".cache/molecule", lab).resolve()),
    }
    # Molecule skips `create` if an interrupted run recorded it as done. Then nodes may be missing or used.
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["molecule", "destroy"], check=True, env=environment, **quiet)
    lines = []
    command = ["molecule", "test", "--report", *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as molecule:
        for line in molecule.stdout or ():
            print(f"{lab:9} {line}" if len(LABS) > 1 else line, end="", flush=True)
            lines.append(line)
    return molecule.returncode, recap(lines)


def main() -> int:
    """Run molecule in every lab; return 1 if any run failed."""
    given = sys.argv[1:]
    wanted = {lab_for(given): given} if given else {lab: _options(names) for lab, names in labs().items()}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        ended = list(pool.map(lambda item: run(*item), wanted.items()))
    counts: dict[str, tuple[int, int]] = {}
    for _status, recapped in ended:
        for name, (succeeded, failed) in recapped.items():
            before = counts.get(name, (0, 0))  # the scenario default makes and removes each lab
            counts[name] = (before[0] + succeeded, before[1] + failed)
    junit.write(
        REPORT, cases(sorted(counts) if given else sorted(name for names in labs().values() for name in names), counts)
    )
    return max(status for status, _recapped in ended)


def lab_for(arguments: list[str]) -> str:
    """Return the lab of the first scenario that arguments of molecule name; the first lab if they name none."""
    named = (lab for word in arguments for lab, scenarios in labs().items() if word in scenarios)
    return next(named, next(iter(LABS)))


def _options(scenarios: list[str]) -> list[str]:
    return [word for scenario in scenarios for word in ("--scenario-name", scenario)]


if __name__ == "__main__":
    sys.exit(main())
