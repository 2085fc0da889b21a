# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links in the user documentation: each leads to a page and a heading that exist.

The index leads to every page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INDEX = ROOT / "docs/README.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "roles").glob("*/README.md")),
]


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the linked files of a page with their headings ("" for none), without links to other sites."""
    targets = [
        target.partition("#")
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if not re.match(r"[a-z]+:", target)
    ]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _sharp, anchor in targets]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges derive them from the text."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert [str(target) for target, _anchor in links(page) if not target.exists()] == []
    assert [(target.name, anchor) for target, anchor in links(page) if anchor and anchor not in anchors(target)] == []


def test_every_page_is_in_the_index() -> None:
    listed = {target for target, _anchor in links(INDEX)}
    assert [
        page for page in PAGES if page.is_relative_to(INDEX.parent) and page != INDEX and page.resolve() not in listed
    ] == []
