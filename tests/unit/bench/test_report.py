# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of kube-proxy in the documentation: all from one run, and equal on every page.

README quotes the run of `make bench` beside kube-proxy. The section of another run is one by hand.
"""

from __future__ import annotations

from pathlib import Path

from bench import agent, kube_proxy, report

ROOT = Path(__file__).parents[3]
HEADING = "## Beside kube-proxy: another run"
BENCHMARKS = (ROOT / "docs/reference/benchmarks.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_page_has_what_the_generator_writes() -> None:
    head, _heading, section = BENCHMARKS.partition(f"\n{HEADING}\n\n")
    assert section == kube_proxy.markdown()
    generated = report.page({}, {})
    assert head.startswith(generated[: generated.index("| | |")])
    assert generated.endswith(f"\n{HEADING}\n\n{kube_proxy.markdown()}")


def test_sections_of_the_agent_alone_quote_no_kube_proxy() -> None:
    measured = BENCHMARKS.partition("\n## ")[2].partition(HEADING)[0].partition(f"## {report.COMPARED}\n")[0]
    assert "kube-proxy" not in measured
    assert "kube-proxy 1." not in Path(agent.__file__).read_text(encoding="utf-8")


def test_readme_table_is_of_the_run_beside_kube_proxy() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/reference/benchmarks.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Beside kube-proxy\n") :].split("\n## ")[1]
    figures = {}
    for line in section.splitlines():
        if line.startswith("| ") and ", 1,002 services x 5 endpoints" in line:
            what, against, ours, theirs = cells(line)[:4]
            figures[what.split(", 1,002 services")[0], against] = ours, theirs
    lines = readme[readme.index("| 1,002 Services x 5 endpoints") :].split("\n\n")[0].splitlines()[2:]
    assert len(lines) == len(QUOTED)
    for line in lines:
        name, ours, ours_nftables, *theirs = cells(line)
        for value, mode, own in zip(theirs, MODES, (ours, ours_nftables, ours), strict=True):
            known = [figures[f"{QUOTED[name][0]}{more}", f"kube-proxy 1.36.2 {mode}"] for more in QUOTED[name][1:]]
            assert same(own, [one[0] for one in known]), (name, own, known)
            assert same(value, [one[1] for one in known]), (name, value, known)


MODES = ("ipvs", "nftables, `minSyncPeriod: 1ms`", "iptables")
# Row of README -> figure of the page, and its parts
QUOTED = {
    "cold start to everything in place": ("cold start to everything in place", ""),
    "an endpoint is added, until the kernel has it": ("an endpoint is added, until the kernel has it", ": median"),
    "10 changes a second: median, 99th percentile": ("10 changes a second", ": median", ": 99th percentile"),
    "the same: CPU of the node in 30 s": ("10 changes a second", ": CPU of the node in 30 s"),
    "CPU in a minute in which nothing changes": ("CPU in a minute in which nothing changes", ", beyond the bare node"),
    "resident memory, largest": ("resident memory", " at its largest"),
    "failed new connections while a pod dies": (
        "failed new connections while a pod dies",
        " at the moment of its removal",
    ),
}
UNITS = {"ms": 0.001}


def same(quoted: str, known: list[str]) -> bool:
    """Tell whether a quotation, such as ``7, 18 ms``, has the known values in its precision."""
    *numbers, unit = quoted.replace(",", "").split() if " " in quoted else (quoted, "")
    scale = UNITS.get(unit, 1.0)
    for number, value in zip(numbers, known, strict=True):
        amount, unit_of_value = value.split()
        last_place = 10.0 ** -len(number.partition(".")[2])
        difference = float(number) - float(amount) * UNITS.get(unit_of_value, 1.0) / scale
        if abs(difference) > 0.51 * last_place:
            return False
    return True
