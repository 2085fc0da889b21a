# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write JUnit reports, the report format of all parts of `make test`."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """One test of a report; ``problem`` says why it does not count as passed, None if it passed.

    ``skipped`` is the reason of a skipped test. It is also its problem, unless ALLOWED_SKIPS in whole.py allows it.
    """

    suite: str
    name: str
    seconds: float = 0.0
    problem: str | None = None
    skipped: str | None = None


def write(path: Path, cases: list[Case]) -> None:
    """Write a report with one suite."""
    suite = ElementTree.Element("testsuite", name=path.stem, tests=str(len(cases)))
    for case in cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=case.suite, name=case.name, time=f"{case.seconds:.3f}"
        )
        if case.problem is not None:
            ElementTree.SubElement(element, "failure", message=case.problem)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def read(directory: Path) -> list[Case]:
    """Read every report under a directory, which need not exist."""
    return [case for path in sorted(directory.glob("**/*.xml")) for case in read_one(path)]


def read_one(path: Path) -> list[Case]:
    """Read one report."""
    return [_case(element) for element in ElementTree.parse(path).getroot().iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    problem = skipped = None
    for child in element:
        message = child.get("message") or (child.text or "").strip()
        if child.tag == "skipped":
            skipped = message or "no reason given"
            problem = f"skipped: {skipped}"
        elif child.tag in ("failure", "error"):
            problem = message or child.tag
            break
    return Case(
        element.get("classname", ""), element.get("name", ""), float(element.get("time") or 0), problem, skipped
    )
