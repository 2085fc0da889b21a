# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of set members (``timeout 60 comment "x"``): parse and compare them."""

from __future__ import annotations

WITHOUT_VALUE = ("nomatch", "wildcard")
# Options of a member in the order of ``ipset save``: the header's flag that each needs.
OPTIONS = {
    "timeout": "timeout",
    "nomatch": "",
    "wildcard": "",
    "packets": "counters",
    "bytes": "counters",
    "comment": "comment",
    "skbmark": "skbinfo",
    "skbprio": "skbinfo",
    "skbqueue": "skbinfo",
}


def same_options(have: str, want: str) -> bool:
    """Tell whether a member's options equal the desired ones, except for the kernel's counters.

    The counters are packets, bytes and the remaining time.

    A remaining time above the wanted timeout comes from another one.
    """
    try:
        return have == want or (steady(have) == steady(want) and _seconds(have) <= _seconds(want))
    except ValueError:
        return False


def _seconds(options: str) -> int:
    return int(dict(pairs(options)).get("timeout", 0))


def steady(options: str) -> list[tuple[str, str]]:
    """Return the options that only a task changes; for a timeout, only its presence."""
    kept = []
    for name, value in pairs(options):
        if name == "timeout":
            if value != "0":
                kept.append((name, ""))
        elif name not in ("packets", "bytes"):
            kept.append((name, value))
    return sorted(kept)


def pairs(options: str) -> list[tuple[str, str]]:
    """Parse options; a quoted comment may contain blanks.

    Raises:
        ValueError: an option without its value.
    """
    parsed = []
    rest = options.strip()
    while rest:
        name, _blank, rest = rest.partition(" ")
        value = ""
        if name not in WITHOUT_VALUE:
            rest = rest.lstrip(" ")
            if rest.startswith('"'):
                value, quote, rest = rest[1:].partition('"')
                if not quote:
                    raise ValueError(f"{name} has no closing quote")
            else:
                value, _blank, rest = rest.partition(" ")
                if not value:
                    raise ValueError(f"{name} has no value")
        parsed.append((name, value))
        rest = rest.lstrip(" ")
    return parsed
