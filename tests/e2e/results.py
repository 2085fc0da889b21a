# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a run: read from the JUnit report of e2e.test, and written as a table into the documentation.

A run replaces the rows of the specs that it ran on the same nodes and kernel. A spec that it left out gets a row with
the reason, unless an earlier run has a row for it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from .errors import E2eError

PAGE = Path("docs/explanation/kube-proxy.md")
BEGIN, END = "<!-- The rows below are written by `make e2e`. -->\n", "<!-- end of the rows -->\n"
HEAD = (
    "| Test | Nodes | Kernel | Result | Kubernetes | Date |\n"
    "|---|---|---|---|---|---|\n"
)  # fmt: skip
PASSED, FAILED, SKIPPED, LEFT_OUT = "passed", "failed", "skipped", "not run"
# Parts of SKIP, and the reason for each.
REASONS = {
    r"\[Slow\]": "slow: takes several minutes",
    r"\[Disruptive\]": "disruptive: restarts parts of the control plane or nodes over ssh",
    r"\[Serial\]": "serial: needs the cluster for itself",
    "LoadBalancer": "load balancer: left out by default",
    r"\[Feature:": "needs a feature that the cluster does not enable",
}
_FILTERED = ("", "skipped")
_UNFINISHED = ("interrupted", "aborted", "timedout", "pending")


class Spec(NamedTuple):
    """Result of one spec: its name, its state, and the reason of a skip or the message of a failure."""

    name: str
    state: str
    reason: str = ""


class Row(NamedTuple):
    """Row of the table."""

    test: str
    nodes: str
    kernel: str  # its kind, and its version
    result: str
    kubernetes: str = ""
    date: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identify the row: nodes, kind of kernel and test."""
        return self.nodes, self.kernel.partition(" ")[0], self.test

    @property
    def line(self) -> str:
        """Line of the table."""
        return f"| {' | '.join(field.replace('|', '&#124;') for field in self)} |\n"


def read(report: Path) -> list[Spec]:
    """Return the specs of a JUnit report that Ginkgo wrote; of its other nodes, only those that failed.

    A spec that an interrupt ended is missing.
    """
    specs = []
    for element in ElementTree.parse(report).getroot().iter("testcase"):
        kind, _, rest = element.get("name", "").partition(" ")
        name = rest if kind == "[It]" else element.get("name", "")
        failure = element.find("failure") if element.find("failure") is not None else element.find("error")
        skip = element.find("skipped")
        if kind == "[It]" and element.get("status") in _UNFINISHED:
            continue
        if failure is not None:
            specs.append(Spec(name, FAILED, (failure.get("message") or failure.text or "").strip()))
        elif kind == "[It]" and skip is not None:
            message = (skip.get("message") or "").strip()
            is_filtered = message in _FILTERED
            specs.append(Spec(name, LEFT_OUT if is_filtered else SKIPPED, message.removeprefix("skipped - ")))
        elif kind == "[It]":
            specs.append(Spec(name, PASSED))
    return specs


def chosen(specs: list[Spec], focus: str, skip: str) -> list[Spec]:
    """Return the specs that ran, and those of the focus that were left out, with the reason.

    A spec that matches the focus alone and has not run is missing: the run ended before.
    """
    result = []
    for spec in specs:
        if spec.state != LEFT_OUT:
            result.append(spec)
        elif re.search(focus, spec.name) and re.search(skip, spec.name):
            result.append(spec._replace(reason=_reason(spec.name, skip)))
    return result


def _reason(name: str, skip: str) -> str:
    for pattern, reason in REASONS.items():
        if pattern in skip.split("|") and re.search(pattern, name):
            return reason
    return "matches SKIP"


def rows(specs: list[Spec], nodes: str, kernel: str, kubernetes: str, date: str) -> list[Row]:
    """Return the rows of specs."""
    return [
        Row(spec.name, nodes, kernel, _result(spec), kubernetes, date)
        if spec.state != LEFT_OUT
        else Row(spec.name, nodes, kernel.partition(" ")[0], _result(spec))
        for spec in specs
    ]


def _result(spec: Spec) -> str:
    if spec.state in (PASSED, FAILED):
        return spec.state
    return f"{spec.state}: {' '.join(spec.reason.split())[:200]}"


def rows_of(page: str) -> list[Row]:
    """Return the rows of the page's table."""
    table = page.partition(BEGIN)[2].partition(END)[0].removeprefix(HEAD)
    return [
        Row(*(field.strip().replace("&#124;", "|") for field in line.strip().strip("|").split("|")))
        for line in table.splitlines()
    ]


def written(page: str, new: list[Row]) -> str:
    """Return the page with these rows in its table.

    Raises:
        E2eError: the page has no table.
    """
    before, begin, rest = page.partition(BEGIN)
    _table, end, after = rest.partition(END)
    if not begin or not end:
        raise E2eError(f"{PAGE}: the lines {BEGIN.strip()!r} and {END.strip()!r} are not there")
    merged = {row.key: row for row in rows_of(page)}
    for row in new:
        if not row.result.startswith(LEFT_OUT) or merged.get(row.key, row).result.startswith(LEFT_OUT):
            merged[row.key] = row
    return "".join([before, begin, HEAD, *(merged[key].line for key in sorted(merged)), end, after])
