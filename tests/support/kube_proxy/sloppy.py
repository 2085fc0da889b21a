# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses as kube-proxy reads them: ``ParseIPSloppy`` and ``ParseCIDRSloppy``."""

from __future__ import annotations

from ipaddress import ip_address, ip_network


def parse_ip(text: str) -> str:
    """Return the address that ParseIPSloppy reads, as text; "" for none.

    Numbers are decimal whatever their zeros. An IPv4-mapped address is IPv4.
    """
    *groups, tail = text.split(":")
    numbers = ".".join(part.lstrip("0") or "0" for part in tail.split(".")) if ".." not in tail else ""
    last = numbers if "." in tail or not groups else tail.lstrip("0") or tail[:1]
    try:
        ip = ip_address(":".join([*(group.lstrip("0") or group[:1] for group in groups), last]))
    except ValueError:
        return ""
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def parse_cidr(text: str) -> str:
    """Return the network that ParseCIDRSloppy reads from the stripped text, as text; "" for none."""
    base, slash, length = text.strip().partition("/")
    if not slash or not parse_ip(base):
        return ""
    bits = int(length) - (96 if ":" in base and ":" not in parse_ip(base) else 0)
    return str(ip_network(f"{parse_ip(base)}/{bits}", strict=False))
