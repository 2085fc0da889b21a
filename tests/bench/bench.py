# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the benchmarks: one lab node, section after section, one page."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lab import kernel_kinds
from lab.errors import LabError
from lab.paths import ROOT
from lab.progress import Progress

from . import (
    agent,
    bootstrap,
    explain,
    flushed,
    health_checks,
    history,
    machine,
    modules,
    nftables,
    prepare,
    reading,
    render,
    report,
    scale,
    tables,
)
from .mappings import many_mappings
from .node import Node
from .proxies import comparison

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from .report import Row

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
SECTIONS: dict[str, tuple[str, Callable[[Node], list[Row]]]] = {
    "prepare": ("Ansible", prepare.measure),
    "bootstrap": ("Bootstrap", bootstrap.measure),
    "modules": ("Large sets and chains", modules.measure),
    "reading": ("Reading and comparing", reading.measure),
    "tables": ("The IPVS table", tables.measure),
    "agent": ("The agent", agent.measure),
    "nftables": ("The rules in nftables", nftables.measure),
    "flushed": ("The rules in nftables after a flush", flushed.measure),
    "explain": ("Explaining a connection", explain.measure),
    "history": ("The history of a node", history.measure),
    "scale": ("A large cluster that changes all the time", scale.measure),
    "http": ("Health checks under abuse", health_checks.measure),
    "render": ("Rendering", render.measure),
    "proxies": (report.COMPARED, comparison.measure),
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run", description="Measure against the peers, on one lab node.")
    parser.add_argument("section", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all if none is given")
    parser.add_argument(
        "--kernel",
        choices=kernel_kinds.KERNELS,
        default=kernel_kinds.DEFAULT,
        help="kind of the node's kernel; for named sections, which get headings of their own",
    )
    parser.add_argument(
        "--merge", action="store_true", help="write the sections into the page, as those of another run"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.section) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if arguments.kernel != kernel_kinds.DEFAULT and not arguments.section:
        parser.error(f"--kernel {arguments.kernel}: name the sections to measure")
    return arguments


def _interrupted(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _measure(node: Node, wanted: list[str], progress: Progress) -> dict[str, list[Row]]:
    results: dict[str, list[Row]] = {}
    for name in wanted:
        title, measure = SECTIONS[name]
        progress(f"{title} …")
        results[title] = measure(node)
        print(report.markdown(results[title]), flush=True)
    return results


def _merge(results: dict[str, list[Row]], described: dict[str, str], kernel: str) -> None:
    """Write sections into the page; one of another kernel follows that of the default kernel."""
    headings = [_heading(title, kind) for title, _measure in SECTIONS.values() for kind in kernel_kinds.KERNELS]
    for title, rows in results.items():
        heading = _heading(title, kernel)
        before = [*headings[headings.index(heading) + 1 :], report.KUBE_PROXY]
        PAGE.write_text(report.merged(PAGE.read_text(), heading, rows, described, before))


def _heading(title: str, kernel: str) -> str:
    return title if kernel == kernel_kinds.DEFAULT else f"{title}, kernel {kernel}"


def main() -> int:
    """Measure the named sections; write the page if they are all."""
    signal.signal(signal.SIGTERM, _interrupted)  # so that the node ends with this process
    arguments = _arguments()
    wanted = arguments.section or list(SECTIONS)
    progress = Progress("bench: ")
    # the description includes the peers' versions; a single section may not need the peers
    whole = set(wanted) == set(SECTIONS)
    try:
        kind = kernel_kinds.kernel_kind(arguments.kernel)
        with many_mappings(progress) if kind.maps_each_page else nullcontext():
            node = Node(arguments.kernel)
            try:
                described = machine.describe(node) if whole else machine.describe_run(node)
                results = _measure(node, wanted, progress)
            finally:
                node.down()
    except (LabError, RuntimeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if not whole:
        if arguments.merge:
            _merge(results, described, arguments.kernel)
            progress(f"wrote these sections of {PAGE.relative_to(ROOT)}")
        else:
            progress(f"{PAGE.relative_to(ROOT)} is written when all sections run, or with --merge")
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(report.page(described, results))
    missed = [row.what for rows in results.values() for row in rows if row.met is False]
    progress(f"wrote {Path(PAGE).relative_to(ROOT)}; bars missed: {'; '.join(missed) or 'none'}")
    return 0
