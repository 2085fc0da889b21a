# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of ``nft list table`` in one form: nft orders the elements of a set, and breaks their lines, by itself."""

from __future__ import annotations

import re

_ELEMENTS = re.compile(r"elements = \{ (.*?) \}", re.DOTALL)


def normal(text: str) -> str:
    """Return a listing with its elements sorted as text, one a line, without lines that only a file has."""
    lines = [line for line in text.splitlines() if not line.startswith(("add table ", "delete table "))]
    return _ELEMENTS.sub(lambda match: "elements = {\n" + "\n".join(sorted(_split(match[1]))) + "\n}", "\n".join(lines))


def elements(text: str) -> dict[str, set[str]]:
    """Return the elements of each set of one table's text, by the set's name."""
    elements_of: dict[str, set[str]] = {}
    for block in re.findall(r"\tset (\S+) \{\n(.*?)\n\t\}", text, re.DOTALL):
        match = _ELEMENTS.search(block[1])
        elements_of[block[0]] = set(_split(match[1])) if match else set()
    return elements_of


def _split(elements: str) -> list[str]:
    return re.split(r",\s+", elements.strip())
