# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy the pages of docs/ into the source of the documentation site, with an index (tests/tools/site).

    python tests/tools/site_pages.py DIRECTORY

A link to a page of docs/ stays. A link to another file of the repository becomes a link to this file on GitHub, at this
version's tag. Sphinx checks the former, this tool the latter.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Title of a part of the site -> the folder of its pages.
PARTS = {"Tutorial": "tutorial", "How-to": "how-to", "Reference": "reference", "Explanation": "explanation"}
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")


def main() -> int:
    """Write all pages; return 1 if a link leads to nothing."""
    target = Path(sys.argv[1])
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    tree = f"{galaxy['repository']}/tree/v{galaxy['version']}"
    broken = []
    for folder in PARTS.values():
        (target / folder).mkdir(parents=True)
        for path in sorted((DOCS / folder).iterdir()):
            if path.suffix == ".md":
                text, nowhere = rewritten(path, tree)
                (target / folder / path.name).write_text(text, encoding="utf-8")
                broken += [f"{path.relative_to(ROOT)} links to {link}, which is not there" for link in nowhere]
    shutil.copytree(DOCS / "images", target / "images")
    (target / "index.md").write_text(index(), encoding="utf-8")
    for line in broken:
        print(f"make docs: {line}", file=sys.stderr)
    return 1 if broken else 0


def rewritten(path: Path, tree: str) -> tuple[str, list[str]]:
    """Return a page whose links out of docs/ lead to ``tree`` on GitHub, and its links to nothing."""
    nowhere = []

    def replaced(match: re.Match[str]) -> str:
        target = (path.parent / match[2]).resolve()
        if not target.exists():
            nowhere.append(match[2])
        inside = target.is_relative_to(DOCS) and target.is_file()
        return match[0] if inside else f"{match[1]}{tree}/{target.relative_to(ROOT)}{match[3] or ''}{match[4]}"

    return LINK.sub(replaced, path.read_text(encoding="utf-8")), nowhere


def index() -> str:
    """Return the first page: what this is, in README's words, and all pages by part."""
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    lines = ["# kubenode.ipvs", "", first, ""]
    parts = {
        **{title: f"{folder}/*" for title, folder in PARTS.items()},
        "Modules, roles and plugins": "collection/index",
    }
    for title, pages in parts.items():
        lines += ["```{toctree}", ":glob:", ":maxdepth: 1", f":caption: {title}", "", pages, "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
