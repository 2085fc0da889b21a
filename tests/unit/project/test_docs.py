# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user documentation hangs together: every link leads somewhere, every page can be found from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INDEX = ROOT / "docs/README.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> list[Path]:
    """The files that a page links to, without links to other sites and within the page."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return [(page.parent / target.partition("#")[0]).resolve() for target in targets if not re.match(r"[a-z]+:|#", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert [target for target in links(page) if not target.exists()] == []


def test_every_page_is_in_the_index() -> None:
    listed = set(links(INDEX))
    assert [page for page in PAGES if page.is_relative_to(INDEX.parent) and page != INDEX and page.resolve() not in listed] == []
