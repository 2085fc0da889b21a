# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every linter; print failures and the time of each (`make lint`)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import junit

REPORT = Path(".cache/results/lint/lint.xml")


def scripts(interpreter: str) -> list[str]:
    """Return the tracked files without a suffix whose first line names an interpreter, for example ``bash``."""
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    candidates = [Path(name) for name in listed.split("\0") if name and not Path(name).suffix]
    return [
        str(path)
        for path in candidates
        if path.is_file() and interpreter in _first_line(path).replace("/", " ").split()
    ]


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        line = file.readline(100).decode(errors="replace")
    return line if line.startswith("#!") else ""


def checks() -> dict[str, list[str]]:
    """Return each check's name and command, the quick checks first."""
    python = [".", *scripts("python3")]
    return {
        "ruff format": ["ruff", "format", "--check", *python],
        "ruff": ["ruff", "check", *python],
        "clocks": [sys.executable, "tests/tools/clocks.py"],
        "yamllint": ["yamllint", "--strict", "."],
        "shellcheck": ["shellcheck", *scripts("bash")],
        "antsibull-changelog": ["antsibull-changelog", "lint"],
        "vermin (Python 3.9)": ["vermin", "--target=3.9-", "--no-tips", "--violations", "plugins", "agent/src"],
        "mypy --strict": ["mypy"],
        "mypy plugins": ["mypy", "--config-file", "tests/tools/mypy_plugins.ini"],
        "antsibull-docs": [
            "antsibull-docs",
            "lint-collection-docs",
            "--plugin-docs",
            "--validate-collection-refs",
            "self",
            ".",
        ],
        "ansible-lint": ["ansible-lint", "--nocolor", "-q"],
        "galaxy-importer": [sys.executable, "tests/tools/importer.py"],
    }


def run(name: str, command: list[str]) -> junit.Case:
    """Run one check; print its output if it fails."""
    start = time.monotonic()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - start
    print(f"  {'ok' if done.returncode == 0 else 'FAILED':7} {name:22} {seconds:5.1f} s", flush=True)
    if done.returncode == 0:
        return junit.Case("lint", name, seconds)
    print(done.stdout, flush=True)
    return junit.Case("lint", name, seconds, f"{' '.join(command[:3])} exited with {done.returncode}")


def main() -> int:
    """Run all checks, or those named on the command line; return 1 if any fails."""
    cases = [
        run(name, command) for name, command in checks().items() if not sys.argv[1:] or name.split()[0] in sys.argv[1:]
    ]
    junit.write(REPORT, cases)
    failed = sum(case.problem is not None for case in cases)
    print(f"lint: {len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
