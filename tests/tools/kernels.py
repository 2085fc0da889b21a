# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the scenario `stock` on the own kernel of each Debian release, and write the results as a table (`make kernels`).

    python tests/tools/kernels.py [release …]    by default all that the lab has

The table is in docs/how-to/prepare.md. A run replaces the rows of its releases, and no others; a release
whose node did not come up showed nothing of its kernel, and keeps its row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import junit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "molecule"))

from lab.recipe import RELEASES

PAGE = Path("docs/how-to/prepare.md")
RESULTS = Path(".cache/results/kernels")
FACTS = Path(".cache/stock.json")  # written by the scenario, on the node that it runs on
BEGIN, END = "<!-- The rows below are written by `make kernels`. -->\n", "<!-- end of the rows -->\n"
HEAD = (
    "| Release | Kernel | Python | iptables | `molecule/stock` | Date |\n"
    "|---|---|---|---|---|---|\n"
)  # fmt: skip


def run(release: str) -> dict[str, str]:
    """Run the scenario on a release; return the row: kernel, python, iptables, result and date."""
    FACTS.unlink(missing_ok=True)
    command = [sys.executable, "tests/tools/scenarios.py", "--scenario-name", "stock"]
    done = subprocess.run(command, env={**os.environ, "KUBENODE_RELEASE": release}, check=False)
    facts = json.loads(FACTS.read_text()) if FACTS.exists() else {}
    result = "failed" if done.returncode else "passed"
    today = time.strftime("%Y-%m-%d")
    return {"kernel": "", "python": "", "iptables": "", **facts, "result": result, "date": today}


def rows_of(page: str) -> dict[str, str]:
    """Return the lines of the table in the page by release."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    return {line.split("|")[1].strip(): line for line in table.removeprefix(HEAD).splitlines()}


def written(page: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page with these rows in its table, except rows without a kernel."""
    before, begin, rest = page.partition(BEGIN)
    _table, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: the lines {BEGIN.strip()!r} and {END.strip()!r} are not there")
    fields = ("kernel", "python", "iptables", "result", "date")
    fresh = {
        name: f"| {name} | {' | '.join(row[field] for field in fields)} |"
        for name, row in rows.items()
        if row["kernel"]
    }
    lines = {**rows_of(page), **fresh}
    ordered = [lines[name] for name in (*RELEASES, *sorted(set(lines) - set(RELEASES))) if name in lines]
    return "".join([before, begin, HEAD, *(f"{line}\n" for line in ordered), end, after])


def main() -> int:
    """Run the scenario on the releases of the command line; return 1 if one failed."""
    releases = sys.argv[1:] or RELEASES
    for release in releases:
        if release not in RELEASES:
            print(f"kernels.py: release {release!r}: expected one of {', '.join(RELEASES)}", file=sys.stderr)
            return 2
    rows = {}
    for release in releases:
        rows[release] = run(release)
        PAGE.write_text(written(PAGE.read_text(), rows))
    problems = {release: None if row["result"] == "passed" else "the scenario failed" for release, row in rows.items()}
    junit.write(RESULTS / "kernels.xml", [junit.Case("kernels", name, problem=text) for name, text in problems.items()])
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
