# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calling ipset(8), and what its complaints mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import KernelError, MissingError
from ..command import Finished, run

_ABSENT = "The set with the given name does not exist"
_LINE = "Error in line "


class Complaint(NamedTuple):
    """What ipset says: the index of the line (from 0; -1 if ipset names none) and its words."""

    line: int
    text: str

    @property
    def absent(self) -> bool:
        """Tell whether ipset misses the set."""
        return self.text == _ABSENT


def ipset(arguments: Sequence[str], large: bool = False) -> Finished:
    """Run one command.

    Raises:
        MissingError: no ipset, no kernel support, no right.
    """
    return _checked(run(["ipset", *arguments], large=large))


def query(arguments: Sequence[str]) -> str:
    """Run a command that reads; what it asks for may be absent.

    Raises:
        KernelError: ipset refused.
    """
    ended = ipset(arguments, large=True)
    if ended.status and complaint(ended.errors).text != _ABSENT:
        raise KernelError(f"ipset {arguments[0]}: {complaint(ended.errors).text}")
    return ended.output


def restore(lines: Sequence[str]) -> Complaint | None:
    """Feed lines to one ``ipset restore``; what exists already or is gone already is no error.

    A complaint says nothing about the lines before it: ipset collects members and sends them together, and forgets what it
    collected when it cannot parse a later line.

    Raises:
        MissingError: no ipset, no kernel support, no right.
        KernelError: ipset refused altogether.
    """
    ended = _checked(run(["ipset", "-exist", "restore"], "\n".join(lines) + "\n"))
    if not ended.status:
        return None
    refused = complaint(ended.errors)
    if refused.line >= 0:
        return refused
    if not refused.text.startswith(("Syntax error", "Argument ")):
        raise KernelError(f"ipset restore: {refused.text}")
    return Complaint(_bisect(lines), refused.text)


def _bisect(lines: Sequence[str]) -> int:
    """Find the line that is to blame: for numbers out of their range and options of newer kernels, ipset 7 does not say which it is."""
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        ended = run(["ipset", "-exist", "restore"], "\n".join(lines[:middle]) + "\n")
        good, bad = (good, middle) if ended.status else (middle, bad)
    return good


def complaint(errors: str) -> Complaint:
    """Take ``ipset v7.17: Error in line 3: Hash is full, cannot add more elements`` apart."""
    for text in errors.splitlines():
        head, found, rest = text.partition(_LINE)
        if found:
            number, _colon, words = rest.partition(": ")
            return Complaint(int(number) - 1, words)
        if head.startswith("ipset v") and ": " in head:
            return Complaint(-1, head.partition(": ")[2])
    return Complaint(-1, errors.strip() or "ipset failed without a word")


def _checked(ended: Finished) -> Finished:
    if ended.status:
        if "Cannot open session to kernel" in ended.errors:
            raise MissingError("the kernel has no IP sets; load the kernel module ip_set")
        if "Operation not permitted" in ended.errors:
            raise MissingError("IP sets need root (the capability CAP_NET_ADMIN in this network namespace)")
    return ended
