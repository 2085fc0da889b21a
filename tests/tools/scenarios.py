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
KERNELS = {"stock": os.environ.get("KUBENODE_STOCK_KERNEL", "stock")}
# A lab whose kernel is emulated never waits, so it begins first: alone at the end, it would leave processors idle. The
# more kernels share a processor, the more of it each needs: in a run of three labs beside the other tests,
# test_takeover needed 72 s of the processor, alone 45 s (part of that is a faster kernel).
AT_ONCE = 2
BYTECODE = Path("molecule/lab/bytecode")  # shared by the modules that scenarios run on the controller
REPORT = Path(".cache/results/molecule/molecule.xml")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line of molecule's closing recap: default    : actions=9  successful=7  disabled=0  skipped=0  missing=2  failed=0
RECAP = re.compile(r"^(\S+)\s*: actions=\d+  successful=(\d+)  .*failed=(\d+)")
ACTION = re.compile(r"(\S+) ➜ \S+: Executing")
ENDED = re.compile(r"└─ Return code: (\d+)")
MAX_CAUSE = 400  # characters of a failed task and its error


def recap(lines: list[str]) -> dict[str, tuple[int, int]]:
    """Parse molecule's output; return each scenario's number of succeeded and of failed actions."""
    counts: dict[str, tuple[int, int]] = {}
    for line in lines:
        if match := RECAP.match(COLOUR.sub("", line)):
            succeeded, failed = counts.get(match[1], (0, 0))
            counts[match[1]] = (succeeded + int(match[2]), failed + int(match[3]))
    return counts


def causes(lines: list[str]) -> dict[str, str]:
    """Parse molecule's output; return for each scenario with a failed playbook its last failed task and the error."""
    failures: dict[str, str] = {}
    scenario = task = cause = ""
    paragraph = ""
    for line in lines:
        text = COLOUR.sub("", line).strip(" │\n")
        if not text or text.startswith(("TASK [", "[ERROR]: ", "***")):
            if paragraph.startswith("TASK ["):
                task = paragraph
            elif paragraph.startswith("[ERROR]: "):
                cause = f"{task}: {paragraph.removeprefix('[ERROR]: ')}"[:MAX_CAUSE]
            paragraph = ""
        if action := ACTION.search(text):
            scenario, cause = action[1], ""
        elif (ended := ENDED.search(text)) and ended[1] != "0":
            failures[scenario] = cause
        paragraph = f"{paragraph} {text}".strip()
    return failures


def cases(scenarios: list[str], counts: dict[str, tuple[int, int]], failures: dict[str, str]) -> list[junit.Case]:
    """Return one case for each scenario; a scenario that molecule did not run is a failure."""
    result = []
    for name in scenarios:
        succeeded, failed = counts.get(name, (0, 0))
        problem = f"{failed} of its actions failed" if failed else None if succeeded else "did not run"
        if problem and failures.get(name):
            problem += f"; {failures[name]}"
        result.append(junit.Case("molecule", name, problem=problem))
    return result


def labs() -> dict[str, list[str]]:
    """Return each lab's scenarios, in molecule's order; the first lab has those that no row of LABS names."""
    scenarios = sorted(path.parent.name for path in Path("molecule").glob("*/molecule.yml"))
    named = {scenario for others in LABS.values() for scenario in others}
    return {lab: others or [each for each in scenarios if each not in named] for lab, others in LABS.items()}


def run(lab: str, arguments: list[str]) -> tuple[int, list[str]]:
    """Run molecule in a lab, and print its output as it comes; return its exit status and output."""
    environment = {
        **os.environ,
        "KUBENODE_LAB": lab,
        **({"KUBENODE_KERNEL": KERNELS[lab]} if lab in KERNELS else {}),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(Path(".cache/molecule", lab).resolve()),
        **({"PYTHONPATH": str(BYTECODE.resolve())} if sys.pycache_prefix and "PYTHONPATH" not in os.environ else {}),
    }
    # Molecule skips `create` if an interrupted run recorded it as done. Then nodes may be missing or used. This is what
    # `molecule destroy` does, without the seconds that molecule and Ansible take for it.
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["molecule/lab/lab", "down", lab], check=True, **quiet)
    for name in ("state.yml", "inventory/lab.yml"):
        Path(environment["MOLECULE_EPHEMERAL_DIRECTORY"], name).unlink(missing_ok=True)
    lines = []
    command = ["molecule", "test", "--report", *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as molecule:
        for line in molecule.stdout or ():
            print(f"{lab:9} {line}" if len(LABS) > 1 else line, end="", flush=True)
            lines.append(line)
    return molecule.returncode, lines


def main() -> int:
    """Run molecule in every lab; return 1 if any run failed."""
    given = sys.argv[1:]
    wanted = {lab_for(given): given} if given else {lab: _options(names) for lab, names in labs().items()}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        emulated_first = sorted(wanted.items(), key=lambda item: item[0] not in KERNELS)
        ended = list(pool.map(lambda item: run(*item), emulated_first))
    counts: dict[str, tuple[int, int]] = {}
    failures: dict[str, str] = {}
    for _status, lines in ended:
        failures |= causes(lines)
        for name, (succeeded, failed) in recap(lines).items():
            before = counts.get(name, (0, 0))  # the scenario default makes and removes each lab
            counts[name] = (before[0] + succeeded, before[1] + failed)
    names = sorted(counts) if given else sorted(name for names in labs().values() for name in names)
    junit.write(REPORT, cases(names, counts, failures))
    return max(status for status, _lines in ended)


def lab_for(arguments: list[str]) -> str:
    """Return the lab of the first scenario that arguments of molecule name; the first lab if they name none."""
    named = (lab for word in arguments for lab, scenarios in labs().items() if word in scenarios)
    return next(named, next(iter(LABS)))


def _options(scenarios: list[str]) -> list[str]:
    return [word for scenario in scenarios for word in ("--scenario-name", scenario)]


if __name__ == "__main__":
    sys.exit(main())
