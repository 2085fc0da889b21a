# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tests on the own kernel of each Debian release, and write the results as three tables (`make kernels`).

    python tests/tools/kernels.py [--scenario | --suite | --traffic] [machine …]    by default all, on all machines

A machine is a release's code name, with -arm64 or -legacy behind it for another processor or iptables-legacy. The
scenario `stock` runs the roles and the agent on such a node. The suite is tests/kernel, with the kernel of the release
beneath this machine's file system. The traffic tests of the suite run again without programs and modules of iptables,
ipset and nft. The tables are in docs/how-to/prepare.md. A run replaces the rows of its machines, and no others; a
machine whose kernel did not come up showed nothing of it, and keeps its row.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import junit
import kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "molecule"))

from lab import image, qemu
from lab.errors import LabError
from lab.progress import Progress
from lab.recipe import RELEASES

PAGE = Path("docs/how-to/prepare.md")
RESULTS = Path(".cache/results/kernels")
FACTS = Path(".cache/stock.json")  # written by the scenario, on the node that it runs on
END = "<!-- end of the rows -->\n"
_BEGIN_OF_VERSION = Struct("<H")  # kernel_version in the header of a bzImage, less its base (arch/x86/boot.rst)
_HEADER_AT, _BASE = 0x20E, 0x200


class Machine(NamedTuple):
    """Release with a kind of kernel (molecule/lab/kernel_kinds.py) and a variant of iptables."""

    release: str
    kernel: str = "stock"
    iptables: str = "nft"


MACHINES = {
    **{release: Machine(release) for release in RELEASES},
    "bookworm-legacy": Machine("bookworm", iptables="legacy"),
    "trixie-arm64": Machine("trixie", kernel="arm64"),
}


class Table(NamedTuple):
    """Table in the page: the line before it, and the heading of each field of a row."""

    begin: str
    headings: Mapping[str, str]

    @property
    def head(self) -> str:
        """Return the first two lines of the table."""
        names = ("Release", *self.headings.values())
        return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"


SCENARIO = Table(
    "<!-- The rows below are written by `make kernels`. -->\n",
    {"kernel": "Kernel", "python": "Python", "iptables": "iptables", "result": "`molecule/stock`", "date": "Date"},
)
_COUNTS = {"passed": "Passed", "failed": "Failed", "date": "Date"}


class Suite(NamedTuple):
    """Files of tests/kernel, and their table; without iptables, or with the machine's variant of it."""

    name: str
    files: str
    has_iptables: bool
    table: Table


SUITE = Suite(
    "tests/kernel",
    "test_*.py",
    True,
    Table(
        "<!-- The rows of the suite are written by `make kernels`. -->\n",
        {"kernel": "Kernel", "iptables": "iptables", **_COUNTS},
    ),
)
TRAFFIC = Suite(
    "traffic without iptables",
    "test_traffic_*.py",
    False,
    Table("<!-- The rows of traffic are written by `make kernels`. -->\n", {"kernel": "Kernel", **_COUNTS}),
)


def run_scenario(machine: Machine) -> dict[str, str]:
    """Run the scenario on a machine; return the row."""
    FACTS.unlink(missing_ok=True)
    command = [sys.executable, "tests/tools/scenarios.py", "--scenario-name", "stock"]
    chosen = {
        "KUBENODE_RELEASE": machine.release,
        "KUBENODE_STOCK_KERNEL": machine.kernel,
        "KUBENODE_IPTABLES": machine.iptables,
    }
    done = subprocess.run(command, env={**os.environ, **chosen}, check=False)
    facts = json.loads(FACTS.read_text()) if FACTS.exists() else {}
    result = "failed" if done.returncode else "passed"
    return {"kernel": "", "python": "", "iptables": "", **facts, "result": result, "date": _today()}


def runs_on(suite: Suite, machine: Machine) -> bool:
    """Tell whether a suite runs on a machine.

    It has this machine's file system, and so its processor; without iptables, no variant of that differs.
    """
    return machine.kernel == "stock" and (suite.has_iptables or machine.iptables == "nft")


def run_suite(suite: Suite, machine: Machine) -> dict[str, str]:
    """Run a suite on a machine's kernel; return the row, without a kernel if its image cannot be built."""
    variant = machine.iptables if suite.has_iptables else "none"
    os.environ |= {"KUBENODE_RELEASE": machine.release, "KUBENODE_IPTABLES": variant}
    try:
        directory = image.find_or_build(machine.release, qemu.StockKernel(), Progress()).directory
    except LabError as error:
        print(f"kernels.py: {machine.release}: {error}", file=sys.stderr)
        return {"kernel": "", "failed": "all"}
    results = RESULTS / f"{machine.release}-{variant}"
    shutil.rmtree(results, ignore_errors=True)  # reports of files that are no longer there
    kernel.run_all([*Path("tests/kernel").glob(suite.files)], results, kernel.STOCK)
    cases = junit.read(results)
    failed = sum(case.problem is not None for case in cases)
    program = f"iptables-{machine.iptables}"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "kernel": version_of((directory / qemu.KERNEL).read_bytes()),
        "iptables": " ".join(re.findall(r"v([0-9.]+) (.*)", shown)[0]),
        "passed": str(len(cases) - failed),
        "failed": str(failed),
        "date": _today(),
    }


def version_of(program: bytes) -> str:
    """Return the version of a kernel from its bzImage."""
    begin = _BASE + _BEGIN_OF_VERSION.unpack_from(program, _HEADER_AT)[0]
    return program[begin : program.index(b" ", begin)].decode()


def _today() -> str:
    return time.strftime("%Y-%m-%d")


def rows_of(page: str, table: Table) -> dict[str, str]:
    """Return the lines of a table in the page by release."""
    text = page.partition(table.begin)[2].partition(END)[0]
    return {line.split("|")[1].strip(): line for line in text.removeprefix(table.head).splitlines()}


def written(page: str, table: Table, rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page with these rows in a table, except rows without a kernel."""
    before, begin, rest = page.partition(table.begin)
    _rows, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: the lines {table.begin.strip()!r} and {END.strip()!r} are not there")
    fresh = {
        name: f"| {name} | {' | '.join(row[field] for field in table.headings)} |"
        for name, row in rows.items()
        if row["kernel"]
    }
    lines = {**rows_of(page, table), **fresh}
    ordered = [lines[name] for name in (*MACHINES, *sorted(set(lines) - set(MACHINES))) if name in lines]
    return "".join([before, begin, table.head, *(f"{line}\n" for line in ordered), end, after])


def main() -> int:
    """Run the tests on the machines of the command line; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="kernels.py", description="Run tests on Debian's own kernels.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--scenario", action="store_true", help="the scenario stock alone")
    which.add_argument("--suite", action="store_true", help="the files of tests/kernel alone")
    which.add_argument("--traffic", action="store_true", help="the traffic tests without iptables alone")
    parser.add_argument("machine", nargs="*", default=[*MACHINES], help=f"by default {', '.join(MACHINES)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.machine) - set(MACHINES):
        parser.error(f"machine {', '.join(sorted(unknown))}: expected of {', '.join(MACHINES)}")
    problems: dict[str, str | None] = {}
    every = not (arguments.scenario or arguments.suite or arguments.traffic)
    suites = [SUITE] * (every or arguments.suite) + [TRAFFIC] * (every or arguments.traffic)
    machines = [MACHINES[name] for name in arguments.machine]
    if not (every or arguments.scenario or any(runs_on(suite, each) for suite in suites for each in machines)):
        parser.error(f"machine {', '.join(arguments.machine)}: {suites[0].name} does not run there")
    for name in arguments.machine:
        if every or arguments.scenario:
            row = run_scenario(MACHINES[name])
            PAGE.write_text(written(PAGE.read_text(), SCENARIO, {name: row}))
            problems[f"stock on {name}"] = None if row["result"] == "passed" else "the scenario failed"
        for suite in (suite for suite in suites if runs_on(suite, MACHINES[name])):
            row = run_suite(suite, MACHINES[name])
            PAGE.write_text(written(PAGE.read_text(), suite.table, {name: row}))
            failed = row["failed"]
            problems[f"{suite.name} on {name}"] = None if failed == "0" else f"{failed} tests failed"
    junit.write(RESULTS / "kernels.xml", [junit.Case("kernels", name, problem=text) for name, text in problems.items()])
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
