# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run parts of the tests many times beside a load, and list the tests that did not always pass (`make flaky`).

    python tests/tools/flaky.py unit=20 host=5 kernel=5 lab=5
    python tests/tools/flaky.py kernel=5 tests/kernel/test_takeover.py tests/kernel/test_traffic_flows.py

Each argument ``part=times`` runs a part so many times; a path limits the parts kernel and host to that file. The load
is `stress-ng`: busy processes, disk writes, memory that is allocated and freed. FLAKY_LOAD has its options; empty
means no load. All runs go on after a failure. Reports stay in .cache/results/flaky/.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import junit
import kernel

RESULTS = Path(".cache/results/flaky")
SCRATCH = Path(".cache/flaky")
LOAD = "--cpu 2 --hdd 1 --hdd-bytes 64M --vm 1 --vm-bytes 1G --vm-keep"
PARTS = ("unit", "host", "kernel", "lab")


class Outcome(NamedTuple):
    """Result of a test over all runs: the number of runs that had it, and its message where it did not pass."""

    name: str
    runs: int
    problems: list[str]


@contextlib.contextmanager
def load(options: str) -> Iterator[None]:
    """Run `stress-ng` during a ``with`` block; it ends with this process."""
    if not options:
        yield
        return
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    words = ["stress-ng", "--quiet", "--temp-path", str(SCRATCH), *shlex.split(options)]
    with subprocess.Popen(words, start_new_session=True) as stress:
        try:
            yield
            if stress.poll() is not None:
                sys.exit(f"stress-ng ended with status {stress.returncode} before the tests did: there was no load")
        finally:
            with contextlib.suppress(ProcessLookupError):
                stress.terminate()
            stress.wait()
            shutil.rmtree(SCRATCH, ignore_errors=True)


def run(part: str, paths: list[Path], reports: Path) -> None:
    """Run a part once; leave its reports in ``reports``."""
    if part in ("kernel", "host"):
        directory = Path("tests", part)
        chosen = [path for path in paths if path.is_relative_to(directory)] or (
            [] if paths else sorted(directory.rglob("test_*.py"))
        )
        kernel.run_all(chosen, reports)
        return
    command = ["pytest", "-q", "--junitxml", str(reports / f"{part}.xml"), f"tests/{part}"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not (reports / f"{part}.xml").exists():
        junit.write(
            reports / f"{part}.xml", [junit.Case(part, "pytest", problem=f"ended with {done.returncode} and no report")]
        )


def outcomes(part: str) -> list[Outcome]:
    """Return the result of each test of a part over all runs."""
    seen: Counter[str] = Counter()
    problems: dict[str, list[str]] = {}
    for case in junit.read(RESULTS / part):
        name = f"{case.suite}::{case.name}"
        seen[name] += 1
        problems.setdefault(name, []).extend([case.problem.strip().splitlines()[0]] if case.problem else [])
    return [Outcome(name, seen[name], problems[name]) for name in sorted(seen)]


def report(parts: dict[str, int]) -> int:
    """Print the tests that did not always pass; return their number."""
    print("\n=== flaky ===")
    total = 0
    for part, times in parts.items():
        tests = outcomes(part)
        bad = [each for each in tests if each.problems or each.runs < times]
        print(f"{part:8} {times:3} times {len(tests):6} tests {len(bad):6} did not always pass")
        for each in bad:
            print(
                f"  {each.name}: {len(each.problems)} of {each.runs} runs failed:"
                f" {'; '.join(sorted(set(each.problems))) or 'not in all'}"
            )
        total += len(bad) or (0 if tests else 1)
    return total


def main() -> int:
    """Run the parts on the command line; return 1 if a test did not always pass."""
    parts = {name: int(times) for name, _sign, times in (word.partition("=") for word in sys.argv[1:]) if times}
    paths = [Path(word) for word in sys.argv[1:] if "=" not in word]
    if not parts or (unknown := set(parts) - set(PARTS)):
        sys.exit(
            f"flaky: expected {', '.join(f'{part}=TIMES' for part in PARTS)}" + (f", not {unknown}" if parts else "")
        )
    shutil.rmtree(RESULTS, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the load ends with this process
    with load(os.environ.get("FLAKY_LOAD", LOAD)):
        for part, times in parts.items():
            for number in range(1, times + 1):
                start = time.monotonic()
                run(part, paths, RESULTS / part / str(number))
                print(f"{part} {number} of {times}: {time.monotonic() - start:.0f} s", flush=True)
    return 1 if report(parts) else 0


if __name__ == "__main__":
    sys.exit(main())
