# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong, by who has to act."""

from __future__ import annotations


class EngineError(Exception):
    """Base of every error that the engine raises on purpose; its text is meant for people."""


class InputError(EngineError):
    """Somebody wrote something that cannot be: the author of the input has to act.

    The text always names the object, the field, the value and what was expected.
    """

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        super().__init__(f"{subject}: {field} is {value!r}, expected {expected}")
        self.subject = subject
        self.field = field
        self.value = value
        self.expected = expected


class KernelError(EngineError):
    """The kernel, or a tool that speaks to it, refused: the node's operator has to act."""


class MissingError(KernelError):
    """The node lacks something: a kernel module, a tool, a right. The text says how to get it."""


class BusyError(KernelError):
    """Somebody else holds what is needed, for longer than one waits; later it may be free."""


class LedgerError(EngineError):
    """The ledger cannot be read or written; nothing is purged while that is so."""


class ConflictError(EngineError):
    """A key belongs to somebody else; nothing was changed."""
