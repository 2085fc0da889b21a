# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds for JSON before it is parsed: nesting, and the length of numbers.

A hundred thousand nested brackets end a parser with RecursionError, and a number of 5,000 digits with ValueError.
Then the whole document is lost: a page of five hundred objects. Here such a value becomes a text that describes it, so
that only its object cannot be used. Code that walks through a parsed document may rely on these bounds.
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
    """Tell whether brackets are nested more than 64 levels deep (128 if both kinds alternate).

    The check costs a tenth of the time of parsing.
    """
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    # Brackets in strings count at first: strings are slow to find, and their brackets mostly come in pairs.
    return _is_left(_brackets(text)) and _is_left(_brackets(_STRINGS.sub("", text)))


def _brackets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, _NOT_BRACKETS)


def _is_left(brackets: bytes) -> bool:
    """Tell whether brackets are left after the innermost pairs have been removed :data:`DEEPEST` times."""
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
