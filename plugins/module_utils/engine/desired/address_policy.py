# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address policy: decide which addresses of ``spec.externalIPs`` and ``status.loadBalancer`` are served.

By default, every address is served except reserved ones: special addresses, those of this node, and those of the
agent's own API server. A network of the configuration (``allowedExternalIPs``, ``allowedLoadBalancerIPs``) allows a
reserved address only if it names it closely enough:

=============  ==============================================================
Reserved       Allowed by
=============  ==============================================================
special        a network within the special one, such as 169.254.20.0/24
API server     a network of that single address
this node      any network but that of all addresses
=============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from ..model.net import EVERYTHING, contains, family, full_prefix, overlap

# An IPv6 address that holds an IPv4 address is another spelling of it, and that one may be reserved.
_SPECIAL = {
    4: (
        ("unspecified", "0.0.0.0/8"),
        ("a loopback address", "127.0.0.0/8"),
        ("link-local", "169.254.0.0/16"),
        ("multicast", "224.0.0.0/4"),
        ("the broadcast address", "255.255.255.255/32"),
    ),
    6: (
        ("unspecified", "::/128"),
        ("a loopback address", "::1/128"),
        ("link-local", "fe80::/10"),
        ("multicast", "ff00::/8"),
        ("an IPv4-mapped address", "::ffff:0:0/96"),
        ("an IPv4-compatible address", "::/96"),
    ),
}


class AddressPolicy(NamedTuple):
    """The policy for one field: its setting, the networks of that setting, and the addresses of node and API server."""

    setting: str
    allowed: tuple[str, ...]
    node: frozenset[str]
    api_servers: frozenset[str]

    def refusal(self, address: str) -> str:
        """Return the expectation that an address does not meet; "" if it is served."""
        networks = [net for net in self.allowed if contains(net, address)]
        if self.allowed and not networks:
            return f"an address in one of the networks of {self.setting}: {', '.join(self.allowed)}"
        kind, special = special_network(address)
        if special and not any(_within(net, special) for net in networks):
            return f"an address that is not {kind} ({self.setting} may list a network within {special})"
        if address in self.api_servers:
            single = f"{address}/{full_prefix(family(address))}"
            if single not in networks:
                return f"an address that is not this agent's API server's ({self.setting} may list {single})"
        elif address in self.node and not any(net not in EVERYTHING.values() for net in networks):
            return f"an address that is not this node's own ({self.setting} may list it)"
        return ""


@lru_cache(maxsize=4096)
def special_network(address: str) -> tuple[str, str]:
    """Return the kind of a special address and its network; "" and "" for any other."""
    for kind, net in _SPECIAL[family(address)]:
        if contains(net, address):
            return kind, net
    return "", ""


def _within(net: str, other: str) -> bool:
    return overlap(net, other) and int(net.partition("/")[2]) >= int(other.partition("/")[2])


def policies(
    external: tuple[str, ...], balancer: tuple[str, ...], node: Collection[str], api_servers: Collection[str]
) -> tuple[AddressPolicy, AddressPolicy]:
    """Return the policies for external IPs and for load balancer addresses."""
    own, servers = frozenset(node), frozenset(api_servers)
    return (
        AddressPolicy("allowedExternalIPs", external, own, servers),
        AddressPolicy("allowedLoadBalancerIPs", balancer, own, servers),
    )
