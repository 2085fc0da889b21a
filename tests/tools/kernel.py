# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests of tests/kernel and of tests/host, as many files at a time as there are processors (`make kernel`).

    python tests/tools/kernel.py [tests/kernel/test_x.py …]

A file of tests/kernel finds a kernel of its own in which nothing was done before: what another file loads, sets or leaves behind
cannot help or hurt it. A file of tests/host is run on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import junit

RESULTS = Path(".cache/results/kernel")
HOST = Path("tests/host")


def run(path: Path) -> tuple[bool, str]:
    """Run one file; returns whether it passed, and what to show of it."""
    program = "pytest" if path.is_relative_to(HOST) else "molecule/lab/uml-pytest"
    name = f"{path.parent.name}/{path.name}"
    report = (RESULTS / name).with_suffix(".xml")
    report.unlink(missing_ok=True)
    start = time.monotonic()
    done = subprocess.run(
        [program, "--junitxml", str(report), str(path)],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if not report.exists():
        junit.write(report, [junit.Case("kernel", name, problem=f"the run ended with status {done.returncode} and no report")])
    if done.returncode:
        return False, f"{done.stdout}\n  FAILED  {path}"
    return True, f"  ok      {name:45} {len(junit.read_one(report)):4} tests {time.monotonic() - start:4.0f} s"


def main() -> int:
    """Run the files named on the command line, by default all."""
    # What a kernel without a network starts from; tests/host uses it, too.
    root = [sys.executable, "-m", "support.foreign_root"]
    subprocess.run(root, check=False, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "tests:molecule"})
    # The largest first: a long one that starts last would have a processor to itself.
    paths = [Path(name) for name in sys.argv[1:]] or sorted(
        [*Path("tests/kernel").glob("test_*.py"), *HOST.glob("**/test_*.py")], key=lambda path: path.stat().st_size, reverse=True
    )
    passed = []
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for finished in as_completed([pool.submit(run, path) for path in paths]):
            ok, shown = finished.result()
            print(shown, flush=True)
            passed.append(ok)
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
