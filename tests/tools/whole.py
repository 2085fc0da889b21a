# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the parts of `make test`, and count their tests.

    python tests/tools/whole.py lint unit kernel -- sanity molecule

Parts run one after the other. ``--`` begins another lane, and lanes run side by side: most tests wait for kernels more
than they compute. The output of a part is printed when it ends, the names of running parts once a minute.

Each part is a target of the Makefile that leaves JUnit reports in .cache/results/<part>/. These are failures, too: a
part without a report, a skipped test that is not in ALLOWED_SKIPS, a part that fails although its tests passed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import junit

RESULTS = Path(".cache/results")
TESTED = RESULTS / "tested.json"  # the commit that passed all parts
_MINUTE = 60
_screen = threading.Lock()
_running: dict[str, float] = {}  # part -> start time

# Tests of ansible-test that may be absent: a pattern of the name, a pattern of ansible-test's reason, and the reason
# for the summary, which lists them. Any other skip is a failure.
ALLOWED_SKIPS = (
    ("empty-init", "No tests applicable", "there is no __init__.py among the modules"),
    ("pslint", "No tests applicable", "there is no PowerShell"),
    ("shellcheck", "No tests applicable", "the artifact has no shell scripts; `make lint` checks the repository's"),
    ("(compile|import)-python-3.8", "No tests applicable", "nodes have Python 3.9 at least"),
    ("(compile|import)-python-3", "could not be found", "this machine lacks that Python"),
)


class Part(NamedTuple):
    """Result of one part of the tests.

    It has the number of passed tests, the failed tests, the allowed absent tests, the wall time and the processor time
    in seconds. The latter lacks what the lab's nodes use: they are no children of the part.
    """

    name: str
    passed: int
    failed: list[junit.Case]
    absent: list[str]
    seconds: float
    processor: float


def allowed(case: junit.Case) -> str | None:
    """Return why a test may be absent; None if it may not."""
    for name, given, reason in ALLOWED_SKIPS:
        if case.skipped is not None and re.match(name, case.name) and re.search(given, case.skipped):
            return reason
    return None


def run(name: str) -> Part:
    """Run one target of the Makefile and read its reports."""
    reports = RESULTS / name
    shutil.rmtree(reports, ignore_errors=True)
    start = _running[name] = time.monotonic()
    command = ["make", "--no-print-directory", name]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as running:
        printed = running.stdout.read() if running.stdout else ""
        _pid, wait_status, used = os.wait4(running.pid, 0)
        status = running.returncode = os.waitstatus_to_exitcode(wait_status)
    seconds = time.monotonic() - start
    del _running[name]
    with _screen:
        print(f"\n=== {name} === {_clock(seconds)}\n{printed}", flush=True)
    read_cases = junit.read(reports)
    cases = [case for case in read_cases if not allowed(case)]
    absent = [f"{case.name}: {allowed(case)}" for case in read_cases if allowed(case)]
    failed = [case for case in cases if case.problem is not None]
    passed = len(cases) - len(failed)
    if status and not failed:
        failed.append(junit.Case(name, f"make {name}", problem=f"exited with {status} although no test failed"))
    elif not passed and not failed:
        failed.append(junit.Case(name, f"make {name}", problem=f"left no report in {reports}: nothing was tested"))
    return Part(name, passed, failed, absent, seconds, used.ru_utime + used.ru_stime)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def lanes(names: list[str]) -> list[list[str]]:
    """Return the lanes: the part names, split at each ``--``."""
    return [list(lane) for gap, lane in groupby(names, key=lambda name: name == "--") if not gap]


def _tell(ended: threading.Event) -> None:
    """Print once a minute the running parts and their time."""
    start = time.monotonic()
    while not ended.wait(_MINUTE):
        now = time.monotonic()
        parts = ", ".join(f"{name} ({_clock(now - began)})" for name, began in dict(_running).items())
        with _screen:
            print(f"[{_clock(now - start)}] running: {parts}", flush=True)


def report(parts: list[Part], seconds: float) -> int:
    """Print the summary, with the wall time of the whole run in seconds; return the number of failures."""
    print("\n=== summary ===")
    for part in parts:
        for test in part.absent:
            print(f"not run, {part.name} {test}")
    for part in parts:
        for case in part.failed:
            lines = (case.problem or "").strip().splitlines() or [""]
            print(f"FAILED {part.name}: {case.suite}::{case.name}: {lines[0]}")
    for part in parts:
        times = f"{_clock(part.seconds):>9}, {_clock(part.processor):>6} of processor"
        print(f"{part.name:10} {part.passed:6} passed {len(part.failed):6} failed {times}")
    failed = sum(len(part.failed) for part in parts)
    print(f"in {_clock(seconds)} minutes")
    print(f"{sum(part.passed for part in parts)} passed, {failed} failed", flush=True)
    return failed


def record(parts: list[Part]) -> None:
    """Write which commit passed all these parts, for tests/tools/release.py; nothing if files are not committed."""
    asked = [["git", "status", "--porcelain"], ["git", "rev-parse", "HEAD"]]
    changed, commit = (subprocess.run(words, check=False, capture_output=True, text=True).stdout for words in asked)
    if commit and not changed:
        passed = {part.name: part.passed for part in parts}
        TESTED.write_text(json.dumps({"commit": commit.strip(), "passed": passed}) + "\n", encoding="utf-8")


def main() -> int:
    """Run the parts named on the command line; every part runs, also after a failed one."""
    start = time.monotonic()
    ended = threading.Event()
    threading.Thread(target=_tell, args=(ended,), daemon=True).start()
    wanted = lanes(sys.argv[1:])
    TESTED.unlink(missing_ok=True)
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        parts = [part for lane in pool.map(lambda lane: [run(name) for name in lane], wanted) for part in lane]
    ended.set()
    if report(parts, time.monotonic() - start):
        return 1
    record(parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
