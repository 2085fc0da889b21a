# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz all targets, one after the other, each for its share of the time (`make fuzz`, `make fuzz FUZZ=seconds`).

    python tests/fuzz/run.py --seconds 60 [--targets cluster watch] [--seed 1] [--corpus DIRECTORY]

The seed is fixed: the same code on the same machine gets nearly the same inputs. Only a find makes a target fail, also
on a slow machine. Finds are in .cache/fuzz/finds/TARGET/: the input, and its traceback beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FUZZ = Path(__file__).resolve().parent
sys.path[:0] = [str(FUZZ.parents[1] / "agent/src"), str(FUZZ.parent), str(FUZZ.parent / "tools")]

import junit  # noqa: E402
from fuzz.targets import MODULES  # noqa: E402

CACHE = Path(".cache/fuzz")
REPORT = Path(".cache/results/fuzz/fuzz.xml")
TOTALS = "totals.json"
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # for the files that the targets write for each input


def fuzz(name: str, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Fuzz one target in a process of its own.

    Return its executions, seconds, finds and problem ("" if there is none).
    """
    scratch = options.cache / "run" / name
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    statistics = scratch / "statistics.json"
    command = [sys.executable, str(FUZZ / "one.py"), name, f"--seconds={seconds}", f"--seed={options.seed}"]
    command += [f"--statistics={statistics}", f"--finds={options.cache / 'finds'}"]
    if options.corpus:
        command.append(f"--corpus={options.corpus / name}")
    begun = time.monotonic()
    # The fuzzer ends without Python's handlers, so its files are removed here.
    with (
        open(scratch / "log", "wb") as log,
        tempfile.TemporaryDirectory(prefix="kubenode-fuzz-", dir=MEMORY) as memory,
    ):
        environment = {**os.environ, "TMPDIR": memory}
        status = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        ).returncode
    result: dict[str, Any] = {"executions": 0, "seconds": round(time.monotonic() - begun, 1), "finds": {}}
    problem = ""
    if statistics.exists():
        result.update(json.loads(statistics.read_text()))
    if status or not result["executions"]:
        lines = (scratch / "log").read_text(errors="replace").strip().splitlines()
        problem = f"the fuzzer ended with status {status}; {scratch / 'log'} ends with: {' | '.join(lines[-3:])}"
    elif result["finds"]:
        problem = f"{len(result['finds'])} finds: " + "; ".join(
            f"{what} ({path})" for what, path in result["finds"].items()
        )
    return {**result, "problem": problem}


def add_up(path: Path, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Add counters to those of earlier runs; return the totals per target."""
    totals: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name, result in results.items():
        known = totals.setdefault(name, {"executions": 0, "seconds": 0.0, "finds": []})
        known["executions"] += result["executions"]
        known["seconds"] = round(known["seconds"] + result["seconds"], 1)
        known["finds"] = sorted({*known["finds"], *result["finds"]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(totals, indent=1))
    return totals


def table(totals: dict[str, Any]) -> str:
    """Return the counters as a table of Markdown."""
    lines = ["| target | executions | seconds | finds |", "|---|---|---|---|"]
    for name in MODULES:
        if name in totals:
            one = totals[name]
            lines.append(f"| `{name}` | {one['executions']:,} | {one['seconds']:,.0f} | {len(one['finds'])} |")
    executions, seconds, finds = (
        sum(one["executions"] for one in totals.values()),
        sum(one["seconds"] for one in totals.values()),
        sum(len(one["finds"]) for one in totals.values()),
    )
    return "\n".join([*lines, f"| all | {executions:,} | {seconds:,.0f} | {finds} |"])


def main() -> int:
    """Fuzz; the exit status is 1 if there is a find."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--targets", nargs="+", default=list(MODULES), choices=list(MODULES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--corpus", type=Path, help="keep what is interesting here, and go on from it the next time")
    parser.add_argument(
        "--table", action="store_true", help="print the totals of all runs as a table, and do nothing else"
    )
    options = parser.parse_args()
    totals = options.cache / TOTALS
    if options.table:
        print(table(json.loads(totals.read_text())))
        return 0
    shutil.rmtree(options.cache / "finds", ignore_errors=True)
    (options.cache / "finds").mkdir(parents=True)
    results: dict[str, dict[str, Any]] = {}
    cases = []
    for name in options.targets:
        result = results[name] = fuzz(name, options, options.seconds / len(options.targets))
        rate = result["executions"] / max(result["seconds"], 0.1)
        word = "FAILED" if result["problem"] else "ok"
        print(
            f"  {word:7} {name:14} {result['executions']:9,} inputs {result['seconds']:7.1f} s {rate:8,.0f}/s",
            flush=True,
        )
        if result["problem"]:
            print(f"          {result['problem']}", flush=True)
        cases.append(junit.Case("fuzz", name, result["seconds"], result["problem"] or None))
        add_up(totals, {name: result})
    junit.write(REPORT, cases)
    failed = sum(case.problem is not None for case in cases)
    print(
        f"fuzz: {sum(result['executions'] for result in results.values()):,} inputs; {len(cases) - failed} passed,"
        f" {failed} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
