# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests of tests/kernel and of tests/host, AT_ONCE files at a time on each processor (`make kernel`).

    python tests/tools/kernel.py [--stock] [tests/kernel/test_x.py …]

With --stock, the kernel is a Debian release's own (molecule/lab/stock-pytest), and files of tests/host do not run.

Each file of tests/kernel runs in a fresh kernel of its own: modules, sysctls and leftovers of other files cannot affect
it. A file of tests/host runs on this machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import cycle
from pathlib import Path

import junit

RESULTS = Path(".cache/results/kernel")
HOST = Path("tests/host")
AT_ONCE = 2  # on each processor: half of its time, a file waits, mostly for traffic. An emulated kernel never waits
# Files that take longer than a minute.
LONG = {
    "test_agent_faults.py",
    "test_cluster.py",
    "test_confirm.py",
    "test_container.py",
    "test_packages.py",
    "test_role_agent_credentials.py",
    "test_takeover.py",
    "test_traffic_healing.py",
    "test_traffic_routes.py",
}


UML, STOCK = "molecule/lab/uml-pytest", "molecule/lab/stock-pytest"


def run(path: Path, results: Path = RESULTS, boots: str = UML) -> tuple[bool, str]:
    """Run one file, with its report in ``results``; return whether it passed, and the text to print.

    ``boots`` is the program that boots a kernel and runs pytest in it.
    """
    program = "pytest" if path.is_relative_to(HOST) else boots
    name = f"{path.parent.name}/{path.name}"
    report = (results / name).with_suffix(".xml")
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = [program, "--junitxml", str(report), str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as running:
        printed = running.stdout.read() if running.stdout else ""
        _pid, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if not report.exists():
        junit.write(
            report,
            [junit.Case("kernel", name, problem=f"the run ended with status {running.returncode} and no report")],
        )
    if running.returncode:
        return False, f"{printed}\n  FAILED  {path}"
    took = f"{time.monotonic() - start:4.0f} s, {used.ru_utime + used.ru_stime:4.0f} s of processor"
    return True, f"  ok      {name:45} {len(junit.read_one(report)):4} tests {took}"


def run_all(paths: Sequence[Path], results: Path = RESULTS, boots: str = UML) -> bool:
    """Run files, the longest first; return whether all passed."""
    # Build the foreign root and the container images here: the tests' kernels have no network. tests/host uses the
    # root, too.
    for module in ("support.distributions.foreign_root", "support.containers.images"):
        command = [sys.executable, "-m", module]
        environment = {**os.environ, "PYTHONPATH": "tests:molecule"}
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environment)
    passed = []
    processors = sorted(os.sched_getaffinity(0))
    workers = len(processors) * (1 if boots == STOCK else AT_ONCE)
    with ThreadPoolExecutor(max_workers=workers, initializer=_stay, initargs=(cycle(processors),)) as pool:
        for finished in as_completed(
            [pool.submit(run, path, results, boots) for path in sorted(paths, key=_weight, reverse=True)]
        ):
            ok, shown = finished.result()
            print(shown, flush=True)
            passed.append(ok)
    return bool(passed) and all(passed)


def _stay(processors: Iterator[int]) -> None:
    """Bind this thread, and the kernels that it starts, to the next processor: molecule/lab/kernel says why."""
    os.sched_setaffinity(0, {next(processors)})


def _weight(path: Path) -> tuple[bool, int]:
    """Return the sort key of a file: whether it is in LONG, then its size, which mostly predicts its duration.

    A long file that starts last would run alone, with all other processors idle.
    """
    return path.name in LONG, path.stat().st_size


def main() -> int:
    """Run the files named on the command line, by default all."""
    parser = argparse.ArgumentParser(prog="kernel.py", description="Run tests in real kernels.")
    parser.add_argument("--stock", action="store_true", help="boot a Debian release's own kernel (KUBENODE_RELEASE)")
    parser.add_argument("file", nargs="*", type=Path, help="by default all of tests/kernel and tests/host")
    arguments = parser.parse_args()
    default = Path("tests/kernel").glob("test_*.py") if arguments.stock else all_files()
    return 0 if run_all(arguments.file or [*default], boots=STOCK if arguments.stock else UML) else 1


def all_files() -> list[Path]:
    """Return the files of tests/kernel and tests/host."""
    return [*Path("tests/kernel").glob("test_*.py"), *HOST.glob("**/test_*.py")]


if __name__ == "__main__":
    sys.exit(main())
