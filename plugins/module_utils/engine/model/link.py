# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, the addresses on them, and local routes."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """A network interface; kube-proxy's ``kube-ipvs0`` is a dummy that is never set up."""

    type: str = "dummy"
    up: bool = False


class AddressKey(NamedTuple):
    """An address with its prefix length on a link, for example ``("kube-ipvs0", "10.96.0.10", 32)``."""

    link: str
    address: str
    prefix: int

    def __str__(self) -> str:
        """Return for example ``10.96.0.10/32 on kube-ipvs0``."""
        return f"{self.address}/{self.prefix} on {self.link}"


class Route(NamedTuple):
    """Local route as the kernel identifies it beside others of the same network and link.

    ``protocol`` is the number of the routing protocol. ``priority`` is 0 for the kernel's default, which is 1024 for
    IPv6.
    """

    protocol: int
    priority: int = 0


STATIC = Route(4)  # new routes: their protocol is RTPROT_STATIC, which routing daemons ignore


class RouteKey(NamedTuple):
    """Local route on a link, for example ``("lo", "10.96.0.0/16")``.

    With it, the node takes every address of the network as its own.
    """

    link: str
    network: str

    def __str__(self) -> str:
        """Return for example ``10.96.0.0/16 on lo``."""
        return f"{self.network} on {self.link}"
