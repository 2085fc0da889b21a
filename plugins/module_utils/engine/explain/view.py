# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's state as far as it decides about packets: tables, rules, links, routes, sysctls, connections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ..model import ReadState
from ..model.ipset import MemberKey
from ..model.iptables import WHERE, ChainKey, JumpKey, written
from ..model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from ..model.link import AddressKey
from ..model.net import family, full_prefix
from ..model.nftables import ChainKey as NftChainKey
from ..model.nftables import ElementKey, NftChain, SetKey
from .routes import LOCAL_TABLE, MAIN_TABLE, PolicyRule, RouteEntry, Routes

RuleTable = dict[ChainKey, tuple[str, ...]]


class LinkView(NamedTuple):
    """One interface. ``kind`` is its type (``bridge``, ``veth`` …, "" for hardware), ``master`` its bridge or ""."""

    name: str
    is_up: bool = True
    kind: str = ""
    master: str = ""
    mtu: int = 1500


class Template(NamedTuple):
    """Persistence template: connections of the client to the virtual server go to this real server."""

    server: VirtualServerKey
    client: str
    address: str
    port: int


class Host(NamedTuple):
    """Facts of the node that no plan changes.

    ``addresses`` are (link, address, prefix length). ``neighbours`` maps addresses to (link, state). ``limits`` has
    ``conntrack`` and ``conntrack_max``. ``processes`` are the names of running programs that may balance, too.
    ``connections`` has active and inactive connections by real server. ``lacking`` names in words what could not be
    read.
    """

    links: Mapping[str, LinkView] = {}
    addresses: tuple[tuple[str, str, int], ...] = ()
    routes: tuple[RouteEntry, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    sysctls: Mapping[str, str] = {}
    neighbours: Mapping[str, tuple[str, str]] = {}
    templates: tuple[Template, ...] = ()
    limits: Mapping[str, int] = {}
    connections: Mapping[RealServerKey, tuple[int, int]] = {}
    processes: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


class NodeView:
    """State of a node at one moment. Treat it as immutable; :meth:`replaced` returns another one.

    Args:
        items: the items by kind; of rules, only those of nftables.
        rules: the rules of iptables by chain, built-in chains included.
        policies: policies of built-in chains that are not ACCEPT.
        host: everything else.
    """

    def __init__(
        self, items: ReadState, rules: Mapping[ChainKey, tuple[str, ...]], policies: Mapping[ChainKey, str], host: Host
    ) -> None:
        self.items = items
        self.rules = rules
        self.policies = policies
        self.host = host
        self.routes = Routes(host.routes, host.rules)
        self._by_set: dict[str, list[str]] | None = None
        self._by_nft_set: dict[SetKey, list[tuple[str, ...]]] | None = None
        self._reals: dict[VirtualServerKey, dict[RealServerKey, RealServer]] | None = None

    def replaced(
        self,
        items: ReadState | None = None,
        rules: Mapping[ChainKey, tuple[str, ...]] | None = None,
        host: Host | None = None,
    ) -> NodeView:
        """Return a view with other items, rules or facts."""
        return NodeView(
            self.items if items is None else items,
            self.rules if rules is None else rules,
            self.policies,
            self.host if host is None else host,
        )

    # lookups

    def server(self, key: VirtualServerKey) -> VirtualServer | None:
        """Return a virtual server."""
        value: VirtualServer | None = self.items.get("virtual_server", {}).get(key)
        return value

    def real_servers(self, server: VirtualServerKey) -> dict[RealServerKey, RealServer]:
        """Return the real servers of a virtual server."""
        if self._reals is None:
            self._reals = {}
            for key, value in self.items.get("real_server", {}).items():
                self._reals.setdefault(key.server, {})[key] = value
        return self._reals.get(server, {})

    def set_type(self, name: str) -> str:
        """Return the type of an IP set, "" if there is none of this name."""
        header = self.items.get("set", {}).get(name)
        return header.type if header is not None else ""

    def has_member(self, name: str, member: str) -> bool:
        """Tell whether an IP set has exactly this member."""
        return MemberKey(name, member) in self.items.get("member", {})

    def members(self, name: str) -> list[str]:
        """Return the members of an IP set."""
        if self._by_set is None:
            self._by_set = {}
            for set_name, member in self.items.get("member", {}):
                self._by_set.setdefault(set_name, []).append(member)
        return self._by_set.get(name, [])

    def elements(self, key: SetKey) -> list[tuple[str, ...]]:
        """Return the elements of a set of nftables."""
        if self._by_nft_set is None:
            self._by_nft_set = {}
            for element in self.items.get("nft_element", {}):
                self._by_nft_set.setdefault(element.set, []).append(element.fields)
        return self._by_nft_set.get(key, [])

    def has_element(self, key: SetKey, fields: tuple[str, ...]) -> bool:
        """Tell whether a set of nftables has exactly this element."""
        return ElementKey(key, fields) in self.items.get("nft_element", {})

    def nft_chains(self) -> Mapping[NftChainKey, NftChain]:
        """Return the chains of nftables."""
        return self.items.get("nft_chain", {})

    def sysctl(self, name: str, default: str = "") -> str:
        """Return a sysctl's value."""
        return str(self.host.sysctls.get(name, default))

    def route(self, address: str, *, source: str = "", link: str = "", mark: int = 0) -> RouteEntry | None:
        """Return the route to an address."""
        return self.routes.lookup(address, source=source, link=link, mark=mark)

    def is_local(self, address: str) -> bool:
        """Tell whether an address belongs to the node."""
        found = self.routes.lookup(address)
        return found is not None and found.is_local

    def source_on(self, link: str, fam: int, target: str = "") -> str:
        """Return the address that masquerading takes on a link: of the target's network if one is, else the first."""
        usable = [
            (address, prefix)
            for name, address, prefix in self.host.addresses
            if (name != "lo" if link == "lo" else name == link) and family(address) == fam and address[:5] != "fe80:"
        ]
        for address, prefix in usable:
            if target and _same_network(address, target, prefix):
                return address
        return usable[0][0] if usable else ""


def _same_network(one: str, other: str, prefix: int) -> bool:
    from ..model.net import contains, network

    return contains(network(f"{one}/{prefix}"), other)


def view_of(items: ReadState, host: Host) -> NodeView:
    """Return the view of a node with these items and no rules of other programs: a desired or planned state.

    Local routes follow from the items' addresses and routes; ``host`` has all others.
    """
    addresses = [(key.link, key.address, key.prefix) for key in items.get("address", {})]
    local = [local_route(link, address) for link, address, _prefix in addresses]
    local += [RouteEntry(key.network, "local", key.link, table=LOCAL_TABLE) for key in items.get("route", {})]
    sysctls = {**host.sysctls, **items.get("sysctl", {})}
    whole = host._replace(addresses=(*host.addresses, *addresses), routes=(*host.routes, *local), sysctls=sysctls)
    return NodeView(items, rules_of(items), {}, whole)


def host_of(addresses: Iterable[tuple[str, str, int]], routes: Iterable[RouteEntry] = (), **more: Any) -> Host:
    """Return the facts of a node with addresses (link, address, prefix length) and the routes that they imply."""
    listed = tuple(addresses)
    found = [local_route(link, address) for link, address, _prefix in listed]
    found += [RouteEntry("127.0.0.0/8", "local", "lo", table=LOCAL_TABLE)]
    for link, address, prefix in listed:
        if link != "lo" and prefix < full_prefix(family(address)):
            found.append(_connected(link, address, prefix))
    links = {link: LinkView(link) for link, _address, _prefix in listed}
    return Host(links, listed, (*found, *routes), **more)


def local_route(link: str, address: str) -> RouteEntry:
    """Return the route that the kernel makes for an address of the node."""
    return RouteEntry(f"{address}/{full_prefix(family(address))}", "local", link, source=address, table=LOCAL_TABLE)


def _connected(link: str, address: str, prefix: int) -> RouteEntry:
    from ..model.net import network

    return RouteEntry(network(f"{address}/{prefix}"), "unicast", link, source=address, table=MAIN_TABLE)


def rules_of(items: ReadState) -> RuleTable:
    """Return the rules of iptables by chain, built-in chains included, from items ``chain`` and ``jump``."""
    rules: RuleTable = {key: tuple(texts) for key, texts in items.get("chain", {}).items()}
    jumps = items.get("jump", {})
    for key in sorted(jumps, key=lambda key: _order(jumps[key])):
        chain = ChainKey(key.family, key.table, key.chain)
        rules[chain] = (*rules.get(chain, ()), written(key.rule))
    return rules


def _order(position: Any) -> tuple[int, int]:
    return (0, position) if isinstance(position, int) else (WHERE.index(position.where), position.order)


def jumps_in(rules: Mapping[ChainKey, tuple[str, ...]], keys: Collection[JumpKey]) -> set[JumpKey]:
    """Return those of the jumps that a node has."""
    return {key for key in keys if written(key.rule) in rules.get(ChainKey(key.family, key.table, key.chain), ())}


def address_key(link: str, address: str) -> AddressKey:
    """Return the key of a virtual address on a link."""
    return AddressKey(link, address, full_prefix(family(address)))
