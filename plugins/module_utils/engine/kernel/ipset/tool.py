# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ipset(8), and parse its error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import KernelError, MissingError
from ..command import Finished, run, run_printing

_ABSENT = "The set with the given name does not exist"
_LINE = "Error in line "
_MOST_DIGITS = 10  # of a line number
_UNUSED_NAME = "kubenode.nobodys"  # a name that no set has
# for example without memory for its first requests
_SILENT = "it ended as if all was well, but the kernel did not answer it"


class Complaint(NamedTuple):
    """Error message of ipset: the index of the line (from 0; -1 if ipset names none) and the text."""

    line: int
    text: str

    @property
    def absent(self) -> bool:
        """Tell whether the set does not exist."""
        return self.text == _ABSENT


def ipset(arguments: Sequence[str]) -> Finished:
    """Run one command.

    Raises:
        MissingError: no ipset, no kernel support, no right.
    """
    ended = run(["ipset", *arguments])
    _check(ended.status, ended.errors)
    return ended


def query(arguments: Sequence[str]) -> bytes:
    """Run a command that reads and return its output as bytes; the named set may be absent.

    The output may be megabytes long.

    Raises:
        MissingError: no ipset, no kernel support, no right.
        KernelError: ipset refused.
    """
    for _attempt in range(2):
        status, output, errors = run_printing(["ipset", *arguments])
        _check(status, errors)
        if status and complaint(errors).text != _ABSENT:
            raise KernelError(f"ipset {arguments[0]}: {complaint(errors).text}")
        if status or output:
            return output
    if not _absent(_UNUSED_NAME):  # no output: no set exists, or ipset failed silently
        raise KernelError(f"ipset {arguments[0]}: {_SILENT}")
    return output


def restore(lines: Sequence[str]) -> Complaint | None:
    """Feed lines to one ``ipset restore``; creating what exists or deleting what is absent is no error.

    An error message says nothing about earlier lines: ipset sends members in batches, and drops a batch when it cannot
    parse a later line.

    Raises:
        MissingError: no ipset, no kernel support, no right.
        KernelError: ipset refused all lines, or did not confirm the last one.
    """
    ended = run(["ipset", "-exist", "restore"], "\n".join((*lines, "list -n")) + "\n")
    _check(ended.status, ended.errors)
    if not ended.status:
        if not ended.output and not _gone(lines):
            raise KernelError(f"ipset restore: {_SILENT}")
        return None
    refused = complaint(ended.errors)
    if 0 <= refused.line < len(lines):
        return refused
    if refused.line >= 0 or not refused.text.startswith(("Syntax error", "Argument ")):
        raise KernelError(f"ipset restore: {refused.text}")
    return Complaint(blamed(lines), refused.text)


def _gone(lines: Sequence[str]) -> bool:
    """Tell whether ipset executed lines after which no set is left to list."""
    names = [line.split()[1] for line in lines if line.startswith("destroy ")]
    return bool(names) and _absent(names[-1])


def _absent(name: str) -> bool:
    """Tell whether the kernel says that there is no such set."""
    return complaint(ipset(["list", "-n", name]).errors).text == _ABSENT


def blamed(lines: Sequence[str]) -> int:
    """Return the index of the refused line, found by bisection.

    ipset 7 does not name the line for unknown words and for numbers out of range.
    """
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        ended = run(["ipset", "-exist", "restore"], "\n".join(lines[:middle]) + "\n")
        good, bad = (good, middle) if ended.status else (middle, bad)
    return good


def complaint(errors: str) -> Complaint:
    """Parse ``ipset v7.17: Error in line 3: Hash is full, cannot add more elements``."""
    for text in errors.splitlines():
        head, separator, rest = text.partition(_LINE)
        if separator:
            number, _colon, words = rest.partition(": ")
            if number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS:
                return Complaint(int(number) - 1, words)
        if head.startswith("ipset v") and ": " in head:
            return Complaint(-1, head.partition(": ")[2])
    return Complaint(-1, errors.strip() or "ipset failed without a word")


def _check(status: int, errors: str) -> None:
    if status:
        if "Cannot open session to kernel" in errors:
            raise MissingError("the kernel has no IP sets; load the kernel module ip_set")
        if "Operation not permitted" in errors:
            raise MissingError("IP sets need root (the capability CAP_NET_ADMIN in this network namespace)")
