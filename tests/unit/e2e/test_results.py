# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a run: specs of Ginkgo's report, and the table, whose other rows a run keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import results
from e2e.errors import E2eError
from e2e.results import Row, Spec

ROOT = Path(__file__).parents[3]
REPORT = """\
<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed"/>
<testcase name="[It] [sig-network] Services serve" status="passed"/>
<testcase name="[It] [sig-network] Services fail" status="failed"><failure type="failed">no answer</failure></testcase>
<testcase name="[It] [sig-network] Services need zones" status="skipped">
<skipped message="skipped - needs three zones"/></testcase>
<testcase name="[It] [sig-network] Services restart [Slow]" status="skipped"><skipped message="skipped"/></testcase>
<testcase name="[It] [sig-network] Services never run" status="skipped"><skipped message="skipped"/></testcase>
<testcase name="[It] [sig-network] Services go on" status="interrupted"><error>by user</error></testcase>
<testcase name="[It] [sig-apps] Jobs" status="skipped"><skipped message="skipped"/></testcase>
</testsuite></testsuites>
"""
SERVICES = "[sig-network] Services"
FOCUS, SKIP = r"\[sig-network\] Services", r"\[Slow\]|LoadBalancer"


def specs(path: Path) -> list[Spec]:
    report = path / "junit.xml"
    report.write_text(REPORT)
    return results.chosen(results.read(report), FOCUS, SKIP)


def test_report_has_results_and_reasons(tmp_path: Path) -> None:
    assert specs(tmp_path) == [
        Spec(f"{SERVICES} serve", "passed"),
        Spec(f"{SERVICES} fail", "failed", "no answer"),
        Spec(f"{SERVICES} need zones", "skipped", "needs three zones"),
        Spec(f"{SERVICES} restart [Slow]", "not run", "slow: takes several minutes"),
    ]


def test_failed_setup_of_the_suite_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text('<testsuite><testcase name="[BeforeSuite]"><failure message="no node"/></testcase></testsuite>')
    assert results.read(report) == [Spec("[BeforeSuite]", "failed", "no node")]


def test_row_of_another_run_is_kept() -> None:
    page = f"before\n{results.BEGIN}{results.END}after\n"
    old = [Row("a", "2", "uml 6.1", "passed", "v1", "2026-01-01"), Row("b|c", "2", "uml", "not run: slow")]
    page = results.written(page, old)
    assert results.rows_of(page) == old
    new = [Row("a", "2", "uml", "not run: slow"), Row("b|c", "2", "uml 7.2", "failed", "v2", "2026-01-02")]
    page = results.written(page, [*new, Row("a", "3", "uml 7.2", "passed", "v2", "2026-01-02")])
    assert results.rows_of(page) == [old[0], new[1], Row("a", "3", "uml 7.2", "passed", "v2", "2026-01-02")]
    assert page.startswith(f"before\n{results.BEGIN}{results.HEAD}| a |")
    assert page.endswith(f"{results.END}after\n")


def test_page_without_the_table_is_refused() -> None:
    with pytest.raises(E2eError, match="are not there"):
        results.written("no table", [])


def test_page_of_the_documentation_has_the_table() -> None:
    page = (ROOT / results.PAGE).read_text()
    assert results.written(page, []) == page
