# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tests on the own kernel of each Debian release, and write the results as three tables (`make kernels`).

    python tests/tools/kernels.py [--scenario | --suite | --traffic] [release …]    by default all, on all releases

The scenario `stock` runs the roles and the agent on a node of the release. The suite is tests/kernel, with the kernel
of the release beneath this machine's file system. The traffic tests of the suite run again without programs and modules
of iptables, ipset and nft. The tables are in docs/how-to/prepare.md. A run replaces the rows of its releases, and no
others; a release whose kernel did not come up showed nothing of it, and keeps its row.
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
    """Files of tests/kernel that run with a variant of iptables (molecule/lab/stock_pytest.py), and their table."""

    name: str
    files: str
    variant: str
    table: Table


SUITE = Suite(
    "tests/kernel",
    "test_*.py",
    "nft",
    Table(
        "<!-- The rows of the suite are written by `make kernels`. -->\n",
        {"kernel": "Kernel", "iptables": "iptables", **_COUNTS},
    ),
)
TRAFFIC = Suite(
    "traffic without iptables",
    "test_traffic_*.py",
    "none",
    Table("<!-- The rows of traffic are written by `make kernels`. -->\n", {"kernel": "Kernel", **_COUNTS}),
)


def run_scenario(release: str) -> dict[str, str]:
    """Run the scenario on a release; return the row."""
    FACTS.unlink(missing_ok=True)
    command = [sys.executable, "tests/tools/scenarios.py", "--scenario-name", "stock"]
    done = subprocess.run(command, env={**os.environ, "KUBENODE_RELEASE": release}, check=False)
    facts = json.loads(FACTS.read_text()) if FACTS.exists() else {}
    result = "failed" if done.returncode else "passed"
    return {"kernel": "", "python": "", "iptables": "", **facts, "result": result, "date": _today()}


def run_suite(suite: Suite, release: str) -> dict[str, str]:
    """Run a suite on a release's kernel; return the row, without a kernel if its image cannot be built."""
    os.environ |= {"KUBENODE_RELEASE": release, "KUBENODE_IPTABLES": suite.variant}
    try:
        directory = image.find_or_build(release, qemu.StockKernel(), Progress()).directory
    except LabError as error:
        print(f"kernels.py: {release}: {error}", file=sys.stderr)
        return {"kernel": "", "failed": "all"}
    results = RESULTS / f"{release}-{suite.variant}"
    shutil.rmtree(results, ignore_errors=True)  # reports of files that are no longer there
    kernel.run_all([*Path("tests/kernel").glob(suite.files)], results, kernel.STOCK)
    cases = junit.read(results)
    failed = sum(case.problem is not None for case in cases)
    shown = subprocess.run(["iptables-nft", "--version"], capture_output=True, text=True, check=True).stdout
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
    ordered = [lines[name] for name in (*RELEASES, *sorted(set(lines) - set(RELEASES))) if name in lines]
    return "".join([before, begin, table.head, *(f"{line}\n" for line in ordered), end, after])


def main() -> int:
    """Run the tests on the releases of the command line; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="kernels.py", description="Run tests on Debian's own kernels.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--scenario", action="store_true", help="the scenario stock alone")
    which.add_argument("--suite", action="store_true", help="the files of tests/kernel alone")
    which.add_argument("--traffic", action="store_true", help="the traffic tests without iptables alone")
    parser.add_argument("release", nargs="*", default=RELEASES, help=f"by default {', '.join(RELEASES)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.release) - set(RELEASES):
        parser.error(f"release {', '.join(sorted(unknown))}: expected of {', '.join(RELEASES)}")
    problems: dict[str, str | None] = {}
    every = not (arguments.scenario or arguments.suite or arguments.traffic)
    suites = [SUITE] * (every or arguments.suite) + [TRAFFIC] * (every or arguments.traffic)
    for release in arguments.release:
        if every or arguments.scenario:
            row = run_scenario(release)
            PAGE.write_text(written(PAGE.read_text(), SCENARIO, {release: row}))
            problems[f"stock on {release}"] = None if row["result"] == "passed" else "the scenario failed"
        for suite in suites:
            row = run_suite(suite, release)
            PAGE.write_text(written(PAGE.read_text(), suite.table, {release: row}))
            failed = row["failed"]
            problems[f"{suite.name} on {release}"] = None if failed == "0" else f"{failed} tests failed"
    junit.write(RESULTS / "kernels.xml", [junit.Case("kernels", name, problem=text) for name, text in problems.items()])
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
