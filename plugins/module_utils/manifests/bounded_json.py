# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds for JSON before it is parsed: nesting, and the length of numbers.

Text of a hundred thousand brackets ends a parser with RecursionError, and a number of 5,000 digits with ValueError.
With them ends whatever else is in the same document: a page of five hundred objects. Here such a value becomes text
that says what it was, so that only the object that holds it cannot be used. Everything that walks through a parsed
document may rely on these bounds.
"""

from __future__ import annotations

import re

DEEPEST = 64  # levels that are kept; an object of the Kubernetes API has about ten
LONGEST_NUMBER = 40  # digits
TOO_DEEP = "nested too deeply"

_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)


def integer(text: str) -> int | str:
    """Return an integer's value, or a text about it if it has more digits than any field of Kubernetes."""
    return int(text) if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}... ({len(text)} digits)"


def bounded(text: str) -> str:
    """Return JSON text with every value that is nested too deeply replaced by a text that says so.

    The result is nearly always the same text.
    """
    return _pruned(text) if _is_deep(text) else text


def _is_deep(text: str) -> bool:
    """Tell whether brackets are nested more than 64 levels deep (in turns of both kinds: 128).

    The check costs a tenth of the time of parsing.
    """
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    # those in strings count at first, since strings are slow to find and their brackets mostly come in pairs
    return _is_left(_brackets(text)) and _is_left(_brackets(_STRINGS.sub("", text)))


def _brackets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, _NOT_BRACKETS)


def _is_left(brackets: bytes) -> bool:
    """Tell whether something is left when the innermost pairs have been taken away as often as there may be levels."""
    for _level in range(DEEPEST):
        if not brackets:
            return False
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return bool(brackets)


def _pruned(text: str) -> str:
    parts = []
    depth = start = 0
    for match in _TOKENS.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            depth += 1
            if depth == DEEPEST + 1:
                parts += [text[start : match.start()], f'"{TOO_DEEP}"']
        elif token in ("]", "}"):
            if depth == DEEPEST + 1:
                start = match.end()
            depth -= 1
    if depth <= DEEPEST:
        parts.append(text[start:])
    return "".join(parts)
