# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers for tasks with ``confirm_timeout``: waiting files and processes, and the state that a task can change."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..waiting import eventually
from .namespace import each

PENDING = Path("/run/kubenode-confirm")
LEDGERS = (Path("/run/kubenode/ledger.db"), Path("/var/lib/kubenode/ledger.db"))
SYSCTLS = (
    "ipv4/ip_forward",
    "ipv4/tcp_keepalive_time",
    "ipv4/conf/all/arp_ignore",
    "ipv4/vs/conntrack",
    "ipv4/vs/conn_reuse_mode",
)
_CHANGING = {
    "create": re.compile(r" initval \S+"),
    "add": re.compile(r" timeout \d+"),
}  # a random value, and the remaining time
_TABLE = re.compile("^(?=table )", re.MULTILINE)
_PART = re.compile(r"^(?=\t\w)", re.MULTILINE)  # a chain or set of a table
_TESTS = os.getpid()


def wait(what: Callable[[], object]) -> None:
    """Wait for a condition; fail if it does not come true."""
    eventually(what, pause=0.05)


def guards() -> list[int]:
    """Return the processes that wait to undo a change: forks of this process."""
    mine = Path("/proc/self/cmdline").read_bytes()
    numbers = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "cmdline").read_bytes() == mine and int(directory.name) != os.getpid():
                numbers.append(int(directory.name))
        except OSError:
            continue
    return numbers


def undone(path: str) -> dict[str, Any]:
    """Wait until the node has undone a change; return its record, and remove it."""
    record = Path(f"{path}.undone")
    wait(lambda: record.exists() and "undone" in json.loads(record.read_text()))
    content: dict[str, Any] = json.loads(record.read_text())
    record.unlink()
    return content


def killed(function: Callable[[], object]) -> str:
    """Call a function that kills its process, in a child; return the path of the pending change's file."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (path,) = PENDING.iterdir()
    return str(path).partition(".undone")[0]


def die(*_arguments: object) -> None:
    """Kill this process with SIGKILL if it is the child of the tests.

    The child's guard has this function in memory, too. It goes on, because it is not a child of the tests.
    """
    if os.getppid() == _TESTS:
        os.kill(os.getpid(), signal.SIGKILL)


def claims() -> set[tuple[str, str]]:
    """Return owner and kind of all claims."""
    return {(row[2], row[0]) for rows in ledgers().values() for row in rows if len(row) == 3}


def ledgers() -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of the ledgers' tables that are not empty."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    for path in LEDGERS:
        if path.exists():
            ledger = sqlite3.connect(path)
            for table in ("claim", "note"):
                rows[f"{path} {table}"] = sorted(ledger.execute(f"SELECT * FROM {table}"))
            ledger.close()
    return {table: lines for table, lines in rows.items() if lines}


def node() -> dict[str, Any]:
    """Return all state that a task can change: kernel, files, ledgers; without values that a new creation changes."""
    ipvs, saved, v4, v6, tables, addresses = each(
        "ipvsadm -Sn",
        "ipset save",
        "iptables-save",
        "ip6tables-save",
        "nft --stateless list ruleset",
        "ip -json address",
    )
    sets = [_CHANGING[line.split()[0]].sub("", line) for line in saved.splitlines()]
    links = json.loads(addresses)
    paths = [Path("/proc/sys/net", name) for name in SYSCTLS]
    return {
        "ipvs": sorted(ipvs.splitlines()),  # the kernel lists virtual servers in the order of their creation
        "sets": sorted(sets),
        "lists": [line for line in sets if line.startswith("add list ")],
        "rules": [line.partition(" [")[0] for line in [*v4.splitlines(), *v6.splitlines()] if line[0] != "#"],
        # The kernel lists tables, and the chains and sets of each, in the order of their creation
        "tables": sorted(sorted(part.rstrip("}\n") for part in _PART.split(table)) for table in _TABLE.split(tables)),
        "links": sorted((link["ifname"], "UP" in link["flags"], sorted(_addresses(link))) for link in links),
        "ledgers": ledgers(),
        "sysctls": [path.read_text() for path in paths if path.exists()],
        "files": {path.name: path.read_text() for path in Path("/etc").glob("*/*kubenode*")},
    }


def _addresses(link: dict[str, Any]) -> list[str]:
    return [f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"] if each["scope"] != "link"]
