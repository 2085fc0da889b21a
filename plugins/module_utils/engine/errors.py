# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the engine, by the actor that must fix them, and values as messages show them."""

from __future__ import annotations

from collections.abc import Iterable

MOST_SHOWN = 200  # characters of a value in a message: enough to recognise it, too few to flood a log
_MOST_BITS = 256  # of an integer that is shown in full: Python refuses to print very long ones
_DEEPEST = 4  # levels of a value that are shown


def shown(value: object) -> str:
    """Return the ``repr`` of a value of any size and nesting, cut to about 200 characters."""
    text = _shown(value, _DEEPEST)
    return text if len(text) <= MOST_SHOWN or isinstance(value, str) else f"{text[:MOST_SHOWN]}..."


def cut(text: str, most: int) -> str:
    """Return at most ``most`` characters of a text; a longer one ends with its full length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _shown(value: object, depth: int) -> str:
    if isinstance(value, str):
        return repr(value) if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]!r}... ({len(value)} characters)"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict):
        pairs = (f"{_shown(key, depth - 1)}: {_shown(item, depth - 1)}" for key, item in value.items())
        return f"{{{_joined(pairs)}}}" if depth or not value else "{...}"
    if isinstance(value, list):
        return f"[{_joined(_shown(item, depth - 1) for item in value)}]" if depth or not value else "[...]"
    return repr(value)


def _joined(parts: Iterable[str]) -> str:
    """Join as many parts as are shown."""
    shown_parts, size = [], 0
    for part in parts:
        shown_parts.append(part)
        size += len(part) + 2
        if size > MOST_SHOWN:
            break
    return ", ".join(shown_parts)


class EngineError(Exception):
    """Base of every error that the engine raises on purpose; its text is for users."""


class InputError(EngineError):
    """Invalid input: the author of the input must fix it.

    The text always names the object, the field, the value and what was expected.
    """

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        super().__init__(f"{cut(subject, MOST_SHOWN)}: {cut(field, MOST_SHOWN)} is {shown(value)}, expected {expected}")
        self.subject = subject
        self.field = field
        self.value = value
        self.expected = expected


class KernelError(EngineError):
    """The kernel, or a tool that speaks to it, refused: the operator has to act."""


class MissingError(KernelError):
    """The node lacks something: a kernel module, a tool, a right. The text says how to get it."""


class BusyError(KernelError):
    """Another process holds a resource for longer than the wait. A later attempt may succeed."""


class LedgerError(EngineError):
    """The ledger cannot be read or written; nothing is purged meanwhile."""


class LockedError(LedgerError):
    """Another process holds the node's lock for longer than the wait; the text names it."""


class ConflictError(EngineError):
    """A key belongs to another owner; nothing was changed."""
