# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run iptables-save(8) and iptables-restore(8), and parse their error messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import BusyError, KernelError, MissingError
from ...model.iptables import BUILT_IN
from ..command import Finished, run
from ..presence import exists

_PROGRAMS = {4: "iptables", 6: "ip6tables"}
_CHOSEN = {"backend": ""}
_LOCK = {"seconds": 10}
_TABLE_LISTS = {4: "ip_tables_names", 6: "ip6_tables_names"}


class Version(NamedTuple):
    """``numbers`` for example ``(1, 8, 9)``; ``backend`` is ``legacy`` or ``nft``."""

    numbers: tuple[int, ...]
    backend: str

    @property
    def random_fully(self) -> bool:
        """Tell whether iptables has ``--random-fully`` (from 1.6.2 on)."""
        return self.numbers >= (1, 6, 2)


class Complaint(NamedTuple):
    """Error message of a restore: the line (from 1; 0 if none is named) and the text ("" if none).

    ``cause`` is set if iptables cannot be used, whatever the line says.
    """

    line: int
    text: str
    cause: KernelError | None = None


def choose(backend: str) -> None:
    """Use one back end from now on, ``legacy`` or ``nft``; "": that of the node's ``iptables``."""
    _CHOSEN["backend"] = backend


def wait_for_lock(seconds: int) -> None:
    """Set how many seconds each restore waits for another program's lock, ten by default.

    A caller that retries sets less.
    """
    _LOCK["seconds"] = seconds


def _program(family: int) -> str:
    return "-".join(part for part in (_PROGRAMS[family], _CHOSEN["backend"]) if part)


def version(family: int = 4) -> Version:
    """Return version and back end of the node's ``iptables``, or of the chosen one.

    Raises:
        MissingError: there is no iptables.
        KernelError: iptables printed nothing.
    """
    words = run([_program(family), "--version"]).output.split()  # iptables v1.8.9 (nf_tables)
    if not words:
        raise KernelError(f"{_program(family)} --version printed nothing, expected its version and back end")
    numbers = next((word[1:] for word in words if word[:1] == "v"), "")
    backend = "nft" if "(nf_tables)" in words else "legacy"
    return Version(
        tuple(int(part) for part in numbers.split(".") if part.isascii() and part.isdigit() and len(part) < 10), backend
    )


def save(family: int) -> str:
    """Return the output of ``iptables-save``; without the right to list the tables, that for nat and filter.

    Raises:
        MissingError: no iptables, or no right.
        KernelError: iptables failed, or printed nothing of the tables that there are.
    """
    output = ""
    for choice in _choices(family):
        ended = run([f"{_program(family)}-save", *choice])
        if ended.status:
            raise _refusal(family, ended)
        if not ended.output and (shown := _shows_tables(family)):
            raise KernelError(f"{_program(family)}-save printed nothing, expected the tables in {shown}")
        output += ended.output
    return output


def _shows_tables(family: int) -> str:
    """Return what shows tables of iptables; "" if there is none.

    iptables-save ends without an error if it cannot write.
    """
    if version(family).backend == "nft":
        from ..nftables.read import read_tables

        name = {4: "ip", 6: "ip6"}[family]
        return next((f"nftables: {key}" for key in read_tables() if key.family == name and key.name in BUILT_IN), "")
    if not exists(_table_list(family), _PROGRAMS[family]):
        return ""
    try:
        with open(_table_list(family), encoding="ascii") as file:
            return _table_list(family) if file.read().strip() else ""
    except PermissionError:
        return _table_list(family)  # one table is shown at a time, and that is in use afterwards
    except OSError as error:
        raise KernelError(f"{_PROGRAMS[family]}: {_table_list(family)} cannot be read: {error.strerror}") from error


def _table_list(family: int) -> str:
    return f"/proc/thread-self/net/{_TABLE_LISTS[family]}"


def _choices(family: int) -> tuple[tuple[str, ...], ...]:
    """Return the options of the calls that show all tables.

    The legacy back end's list of tables is readable by root alone, whatever capabilities a process has.
    """
    if exists(_table_list(family), _PROGRAMS[family]) and not os.access(_table_list(family), os.R_OK):
        return ("-t", "nat"), ("-t", "filter")
    return ((),)


def restore(family: int, lines: Sequence[str], first: int | None = None) -> Complaint | None:
    """Feed lines to one ``iptables-restore --noflush``; chains that they do not name stay, counters included.

    With ``first``, the number of lines of the first table, an error below is raised only if no table is done:
    iptables-nft commits one after the other.

    Raises:
        MissingError: no iptables, or not root.
        BusyError: another program holds the lock.
        KernelError: the lock cannot be opened.
    """
    ended = run([f"{_program(family)}-restore", "--noflush", "-w", str(_LOCK["seconds"])], "\n".join(lines) + "\n")
    if not ended.status:
        return None
    complained = complaint(ended.errors)
    if not any(words in ended.errors for words in ("Permission denied", "holding the xtables lock. ", "lock file")):
        return complained
    error = _refusal(family, ended)
    if first is None or complained.line <= first:
        raise error
    return complained._replace(cause=error)


def complaint(errors: str) -> Complaint:
    """Parse the error message of either back end; both name the line, in several forms."""
    import re

    where = re.search(r"line:? (\d{1,9})(?: failed)?(?:: (.*))?", errors)
    head = re.search(r"^ip6?tables(?:-\w+)* v\S+ \(\w+\): (.+)", errors, re.MULTILINE)
    bare = re.search(r"^Bad argument .+", errors, re.MULTILINE)
    words = head.group(1) if head else (where.group(2) if where else None) or (bare.group() if bare else "")
    return Complaint(int(where.group(1)) if where else 0, words.strip().rstrip("."))


def _refusal(family: int, ended: Finished) -> KernelError:
    program = _program(family)
    if "lock file" in ended.errors:  # Fatal: can't open lock file /run/xtables.lock: Permission denied
        return KernelError(f"{program}: its lock cannot be opened ({ended.errors.strip().rpartition('lock file ')[2]})")
    if "Permission denied" in ended.errors:
        return MissingError(f"{program} needs root (the capability CAP_NET_ADMIN in this network namespace)")
    if "holding the xtables lock" in ended.errors:
        return BusyError(
            f"{program}: another program has held the lock /run/xtables.lock for {_LOCK['seconds']} seconds"
        )
    return KernelError(f"{program}: {complaint(ended.errors).text or ended.errors.strip()}")
