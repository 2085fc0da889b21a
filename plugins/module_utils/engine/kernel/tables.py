# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``apply`` of each table that a service proxy writes, by the table's name in the kinds."""

from __future__ import annotations

from . import ipset, iptables, ipvs, nftables, sysctls
from .rtnetlink import addresses

TABLES = {
    "sysctls": sysctls.apply,
    "addresses": addresses.apply,
    "ipset": ipset.apply,
    "iptables": iptables.apply,
    "nftables": nftables.apply,
    "ipvs": ipvs.apply,
}
