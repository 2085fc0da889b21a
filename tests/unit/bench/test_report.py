# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of kube-proxy in the documentation: all from one run, and equal on every page.

The pages say that this run is not the one of `make bench`.
"""

from __future__ import annotations

import re
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


def test_readme_table_is_of_the_same_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text[text.index("| 1,002 Services x 5 endpoints") :].split("\n\n")[0].splitlines()[2:]
    figures, what = {}, ""
    for row in kube_proxy.ROWS:
        what = row[0] or what
        if row[1] == "1,002":
            figures[re.sub(r" \(.*\)", "", what)] = list(row[2:])
    assert len(lines) == 5
    for line in lines:
        name, *values = cells(line)
        assert [value.replace("not measured", "-") for value in values] == figures[name], name
    assert "user-mode Linux 6.1, one CPU" in text
    assert "November 2026" in text
