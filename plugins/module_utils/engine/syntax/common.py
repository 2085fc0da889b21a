# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers for the syntax of members and of rules."""

from __future__ import annotations


class AskError(Exception):
    """Only the tool itself knows its spelling of this; the package catches the error."""


def integer(text: str) -> int | None:
    """Return a number as ipset reads it: decimal, ``0x`` hexadecimal or ``0`` octal; None if invalid."""
    try:
        if text[:2] in ("0x", "0X"):
            return int(text[2:], 16) if text[2:].isalnum() else None
        if not (text.isascii() and text.isdigit()):
            return None
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        return None
