# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test` counts the tests that ran, so that a test which did not run is not green."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from molecule.ansi_output import AnsiOutput
from molecule.reporting.definitions import ActionResult, CompletionState, ScenarioResults, ScenariosResults

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import junit
import matrix
import scenarios
import whole

ROOT = Path(__file__).parents[3]
MAKEFILE = """
green:
\t@mkdir -p .cache/results/green && cp green.xml .cache/results/green/
red:
\t@mkdir -p .cache/results/red && cp red.xml .cache/results/red/; exit 1
crashed:
\t@mkdir -p .cache/results/crashed && cp green.xml .cache/results/crashed/; exit 1
empty:
\t@true
"""


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Makefile").write_text(MAKEFILE)
    junit.write(Path("green.xml"), [junit.Case("s", "one", 0.5), junit.Case("s", "two")])
    junit.write(Path("red.xml"), [junit.Case("s", "one"), junit.Case("s", "two", problem="2 != 3")])


@pytest.mark.parametrize(
    ("part", "passed", "failed"),
    [("green", 2, 0), ("red", 1, 1), ("crashed", 2, 1), ("empty", 0, 1), ("no-such-target", 0, 1)],
)
def test_a_part_counts_its_tests_and_its_own_end(part: str, passed: int, failed: int) -> None:
    result = whole.run(part)
    assert (result.passed, len(result.failed)) == (passed, failed)


def test_the_last_line_sums_all_parts(capfd: pytest.CaptureFixture[str]) -> None:
    assert whole.report([whole.run("green"), whole.run("red")], 61) == 1
    out = capfd.readouterr().out.splitlines()
    assert out[-1] == "3 passed, 1 failed"
    assert "FAILED red: s::two: 2 != 3" in out


def test_lanes_run_in_parallel_and_all_count(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["whole.py", "green", "--", "red", "crashed"])
    assert whole.main() == 1
    out = capfd.readouterr().out.splitlines()
    assert out[-1] == "5 passed, 2 failed"
    assert [line.split()[0] for line in out if " passed " in line and "failed " in line] == ["green", "red", "crashed"]


def test_earlier_report_does_not_count() -> None:
    whole.run("green")
    Path("Makefile").write_text("green:\n\t@true\n")
    assert whole.run("green").passed == 0


@pytest.mark.parametrize(
    ("name", "reason", "allowed"),
    [
        ("pslint-python-3.11", "No tests applicable.", True),
        ("pslint-python-3.11", "Skipping sanity test because pwsh could not be found.", False),
        ("compile-python-3.13", 'Skipping sanity test "compile" on Python 3.13 because it could not be found.', True),
        ("compile-python-3.11", "No tests applicable.", False),
        ("validate-modules-python-3.11", "No tests applicable.", False),
        ("test_something", "not today", False),
    ],
)
def test_only_known_skips_are_allowed(name: str, reason: str, allowed: bool) -> None:
    skipped = f"<skipped>{reason}</skipped>"
    Path("skipped.xml").write_text(
        f'<testsuite><testcase classname="sanity" name="{name}">{skipped}</testcase></testsuite>'
    )
    (case,) = junit.read(Path())[-1:]
    assert bool(whole.allowed(case)) is allowed
    assert case.problem == f"skipped: {reason}"


def test_scenarios_are_read_from_what_molecule_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PY_COLORS", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    results = ScenariosResults(
        [
            ScenarioResults(
                "default",
                [
                    ActionResult("create", [CompletionState.successful]),
                    ActionResult("verify", [CompletionState.failed]),
                ],
            ),
            ScenarioResults("modules", [ActionResult("converge", [CompletionState.successful])]),
        ]
    )
    printed = AnsiOutput().format_scenario_recap(results).splitlines()
    cases = {
        case.name: case.problem
        for case in scenarios.cases(["artifact", "default", "modules"], scenarios.recap(printed), {})
    }
    assert cases == {"artifact": "did not run", "default": "1 of its actions failed", "modules": None}


def test_a_failed_scenario_names_its_last_failed_task() -> None:
    printed = """INFO     shop ➜ converge: Executing
  │ TASK [Ignore this one]
  │   ******
  │ [ERROR]: Task failed: no matter
  │
  │ TASK [Write the cluster]
  │   ******
  │ [ERROR]: Task failed: the module is
  │   absent
  │
  └─ Return code: 2 ───
INFO     default ➜ destroy: Executing
  └─ Return code: 0 ───
"""
    failures = scenarios.causes(printed.splitlines(keepends=True))
    assert failures == {"shop": "TASK [Write the cluster]: Task failed: the module is absent"}
    (case,) = scenarios.cases(["shop"], {"shop": (2, 1)}, failures)
    assert case.problem == f"1 of its actions failed; {failures['shop']}"


@pytest.mark.parametrize(
    ("arguments", "lab"),
    [
        (["--scenario-name", "stock"], "stock"),
        (["--scenario-name", "sandbox", "--destroy=never"], "modules"),
        (["--destroy=never"], "molecule"),
    ],
)
def test_arguments_run_in_the_lab_of_their_scenario(
    arguments: list[str], lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert scenarios.lab_for(arguments) == lab


def test_matrix_and_dev_cover_every_ansible_core() -> None:
    """The list begins at the oldest version in meta/runtime.yml, and has no gap."""
    oldest = re.search(r"requires_ansible: '>=2\.(\d+)\.0'", (ROOT / "meta/runtime.yml").read_text())
    present = re.search(r"^ansible-core==2\.(\d+)\.", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE)
    assert oldest
    assert present
    covered = sorted([int(present[1]), *(int(core.version.split(".")[1]) for core in matrix.CORES)])
    assert covered == list(range(int(oldest[1]), covered[-1] + 1))
