# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Duration of ``ipsets`` and ``iptables_chains`` on the node for large tables, compared with the kernel's tools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import ansible
from lab.paths import ROOT

from .node import DIRECTORY
from .report import Row

if TYPE_CHECKING:
    from .node import Node

MEMBERS, CHANGED, RULES, ROUNDS = 100_000, 100, 2000, 7
_NOTE = (
    "the module's own time: from its first line to its result, without starting Python and loading Ansible's part of a"
    " module."
)


def measure(node: Node) -> list[Row]:
    """Return the rows; leave the tables unchanged."""
    _copy(node)
    node.run("modprobe -a ip_set ip_set_hash_ip iptable_filter")
    arguments = (MEMBERS, CHANGED, RULES, ROUNDS)
    seconds = json.loads(node.python("modules.py", *map(str, arguments)))
    members = f"{MEMBERS:,} members from a file"
    unchanged = seconds["sets unchanged"]
    return [
        Row(
            f"`ipsets`, {members}, nothing to do",
            "`ipset save` of them",
            unchanged,
            seconds["ipset save"],
            bar=4,
            note=_NOTE,
        ),
        Row(
            f"`ipsets`, {members}, {CHANGED} exchanged for others",
            "the same with nothing to do",
            seconds["sets changed"],
            unchanged,
            bar=1.3,
        ),
        Row(
            f"`iptables_chains`, {RULES:,} rules, nothing to do",
            "`iptables-save`",
            seconds["chains unchanged"],
            seconds["iptables-save"],
            bar=5,
        ),
    ]


def _copy(node: Node) -> None:
    """Copy the modules, and Ansible's code that a module imports, to the node.

    Only Ansible's code is byte-compiled: Ansible sends modules as sources.
    """
    library = Path(ansible.__file__).parent
    sources = [
        (library.parent, ["ansible/module_utils"]),
        (
            ROOT / "collection",
            [f"ansible_collections/kubenode/ipvs/plugins/{part}" for part in ("modules", "module_utils")],
        ),
    ]
    arguments = [part for directory, names in sources for part in ("-C", str(directory), *names)]
    archive = subprocess.run(["tar", "-c", "--exclude=__pycache__", *arguments], capture_output=True, check=True).stdout
    node.run(
        f"tar -x -C {DIRECTORY} && touch {DIRECTORY}/ansible/__init__.py && python3 -m compileall -q"
        f" {DIRECTORY}/ansible",
        archive,
    )
