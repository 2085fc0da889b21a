# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools of the kernel that runs the tests, as molecule/lab/pytest-init arranges them."""

from __future__ import annotations

import os

from kubenode.engine.model.iptables import BUILT_IN

from .namespace import sh

# Variant of iptables: nft, legacy, or none for a system with neither iptables, ipset and nft nor their modules.
IPTABLES = os.environ.get("KUBENODE_IPTABLES", "legacy")
TOOLS = () if IPTABLES == "none" else ("iptables", "ip6tables")
# With none, the tests' own nft is outside of the agent's PATH.
NFT = os.environ.get("KUBENODE_NFT", "nft")


def use_tables(*tables: str) -> None:
    """Have the tables and their built-in chains as after their first use, by default filter and nat.

    A table of iptables-legacy stays after its first use, and so does a built-in chain of iptables-nft.
    """
    lines = []
    for table in tables or ("filter", "nat"):
        lines += [f"*{table}", *(f":{chain} ACCEPT" for chain in BUILT_IN[table]), "COMMIT", ""]
    for tool in TOOLS:
        sh(f"{tool}-restore", "--noflush", text="\n".join(lines))
