# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``apply`` of each table that a service proxy writes, by the table's name in the kinds."""

from __future__ import annotations

from typing import Any

from ..model.step import Step
from . import Result, ipset, iptables, ipvs, sysctls
from .rtnetlink import addresses


def _nftables(steps: list[Step], keep_going: bool = False) -> Result:
    from . import nftables  # late: a node whose rules are in iptables does not need its files

    return nftables.apply(steps, keep_going)


TABLES: dict[str, Any] = {
    "sysctls": sysctls.apply,
    "addresses": addresses.apply,
    "ipset": ipset.apply,
    "iptables": iptables.apply,
    "nftables": _nftables,
    "ipvs": ipvs.apply,
}
