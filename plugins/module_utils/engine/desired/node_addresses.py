# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node addresses that serve node ports."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.net import EVERYTHING, contains, family, unmapped

DUMMY = "kube-ipvs0"
LOOPBACK = "lo"
PRIMARY = "primary"
_LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}
_LINK_LOCAL_6 = "fe80::/10"


def node_addresses(fam: int, addresses: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the usable addresses of one family: those of all links but kube-ipvs0, no loopback, no IPv6 link-local.

    An IPv4-mapped address counts as the IPv4 address that it holds. An address that is on kube-ipvs0 and on another
    link too is the node's (kubernetes/kubernetes#114815).
    """
    usable: dict[str, None] = {}
    for link, spelled in addresses:
        address = unmapped(spelled)
        if link == DUMMY or family(address) != fam or contains(_LOOPBACK[fam], address):
            continue
        if fam == 4 or not contains(_LINK_LOCAL_6, address):
            usable[address] = None
    return tuple(usable)


def node_port_addresses(
    fam: int, addresses: Iterable[tuple[str, str]], selectors: tuple[str, ...], node_ips: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the addresses that serve node ports.

    Args:
        fam: 4 or 6.
        addresses: (link, address) of the node.
        selectors: ``nodePortAddresses``: canonical networks of both families, or ``("primary",)``; nothing means all.
        node_ips: the primary address of each family.
    """
    if selectors == (PRIMARY,):
        networks = [f"{ip}/{128 if fam == 6 else 32}" for ip in node_ips if family(ip) == fam]
        if not networks:
            return ()
    else:
        networks = [net for net in selectors if family(net) == fam]
    if not networks or EVERYTHING[fam] in networks:
        return node_addresses(fam, addresses)
    return tuple(
        dict.fromkeys(
            address
            for link, address in ((link, unmapped(spelled)) for link, spelled in addresses)
            if link != DUMMY
            and family(address) == fam
            and not contains(_LOOPBACK[fam], address)
            and any(contains(net, address) for net in networks)
        )
    )
