# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read this node's tables as one state, and facts about the node."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..desired.node_addresses import DUMMY
from ..desired.node_facts import NodeFacts
from ..errors import MissingError
from ..model import ReadState, State
from .ipset_table import IpsetTable
from .ipvs_table import IpvsTable
from .link_table import LinkTable

if TYPE_CHECKING:
    from ..kernel.iptables import Version
    from .nft_tables import NftTables

_BUCKETS = "/proc/sys/net/netfilter/nf_conntrack_buckets"
_PROBES = {4: ("AF_INET", "192.0.2.1"), 6: ("AF_INET6", "2001:db8::1")}  # documentation networks: unused


class Node:
    """Reads all tables that the agent works with; writes them through ``tables``.

    Rules are read again only if their fingerprint has changed. With ``precise``, every detail of real servers is read.
    """

    def __init__(self, precise: bool = False) -> None:
        self._ipvs = IpvsTable(precise)
        self._ipset = IpsetTable()
        self._links = LinkTable()
        self._iptables_backend = ""  # "legacy" or "nft"
        self._rules: State = {}
        self._rules_print: bytes | None = None
        self._nftables: NftTables | None = None

    @property
    def tables(self) -> Mapping[str, Any]:
        """Return ``apply`` of each table, by the table's name."""
        from ..kernel.tables import TABLES

        tables = {**TABLES, "addresses": self._links.apply}
        tables.update({"ipset": self._ipset.apply, "ipvs": self._ipvs.apply})
        return {**tables, "nftables": self.nftables.apply} if self._nftables else tables

    @property
    def nftables(self) -> NftTables:
        """Return the tables of nftables, as this node reads and writes them."""
        if self._nftables is None:
            from .nft_tables import NftTables

            self._nftables = NftTables()
        return self._nftables

    def read(self, want: ReadState, owned: Mapping[str, Collection[Any]]) -> State:
        """Return the present items: sets and sysctls that are wanted or owned, and all items of other kinds.

        Raises:
            MissingError: the node lacks a kernel module, a tool or a right.
        """
        from ..kernel import finished

        return finished(self.reading(want, owned))

    def reading(
        self, want: ReadState, owned: Mapping[str, Collection[Any]], believed: State | None = None
    ) -> Generator[None, None, State]:
        """Do what :meth:`read` does, in slices.

        ``believed`` are the items of the last reading and later writes, None if unknown. Virtual servers, sets,
        addresses and tables of nftables are decoded again only if another process has changed any since. Otherwise, the
        result has the believed items themselves.
        """
        from ..kernel import sysctls
        from ..kernel.command import is_installed
        from ..kernel.rtnetlink import addresses

        have: State = {}
        have.update((yield from self._ipvs.reading(want, believed)))
        yield
        nft_tables = {*want.get("nft_table", ()), *owned.get("nft_table", ())}
        if nft_tables:
            have.update(self.read_nftables(want, owned, believed))
            yield
        is_asked = any(keys.get(kind) for keys in (want, owned) for kind in ("set", "chain", "jump"))
        if is_asked or (not nft_tables and is_installed("iptables")):  # a cleanup looks for rules without a claim
            have.update((yield from self._ipset.reading({*want.get("set", ()), *owned.get("set", ())}, believed)))
            have.update((yield from self._reading_rules()))
            yield
        have.update((yield from self._links.reading({*want.get("link", ()), *owned.get("link", ()), DUMMY}, believed)))
        yield
        routes = {*want.get("route", ()), *owned.get("route", ())}
        if routes:
            have["route"] = addresses.read_routes({key.link for key in routes})
        have.update(sysctls.read(list(want.get("sysctl", ()))))
        return have

    def read_nftables(
        self, want: ReadState, owned: Mapping[str, Collection[Any]], believed: State | None = None
    ) -> State:
        """Return the items of the wanted and owned tables of nftables, as :meth:`reading` does."""
        return self.nftables.read({*want.get("nft_table", ()), *owned.get("nft_table", ())}, believed)

    def _reading_rules(self) -> Generator[None, None, State]:
        from ..kernel import iptables

        if not self._iptables_backend and self._rules:  # not in the first read, which must be fast
            self._iptables_backend = _iptables().backend
            yield
        fingerprint = iptables.fingerprint(self._iptables_backend) if self._iptables_backend else None
        if fingerprint is None or fingerprint != self._rules_print:
            rules: State = {}
            for family in (4, 6):
                for kind, items in iptables.read(families=(family,)).items():
                    rules.setdefault(kind, {}).update(items)
                yield
            self._rules, self._rules_print = rules, fingerprint
        return {kind: dict(items) for kind, items in self._rules.items()}

    def connections(self, of: Collection[Any]) -> Mapping[Any, tuple[int, int]]:
        """Return active and inactive connections of real servers, at least of these virtual servers."""
        from ..kernel import ipvs

        return ipvs.read_connections(of)


def facts(name: str) -> NodeFacts:
    """Return the facts visible on this node; its Node object takes precedence."""
    from ..kernel.rtnetlink.addresses import node_addresses

    addresses = tuple((link, address) for link, address, _prefix in node_addresses() if link != DUMMY)
    primary = [_primary(family, addresses) for family in (4, 6)]
    return NodeFacts(
        name=name,
        addresses=addresses,
        node_ips=tuple(address for address in primary if address),
        random_fully=_random_fully(),
        kernel=os.uname().release,
        cpus=os.cpu_count() or 0,
        conntrack_buckets=_conntrack_buckets(),
    )


@cache
def _iptables() -> Version:
    """Return the version of iptables, read once."""
    from ..kernel import iptables

    return iptables.version()


def _random_fully() -> bool:
    try:
        return _iptables().random_fully
    except MissingError:
        return True  # reading the rules reports the missing tool


def _conntrack_buckets() -> int:
    """Return the size of connection tracking's hash table, 0 if absent."""
    try:
        with open(_BUCKETS, encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return 0


def _primary(family: int, addresses: Collection[tuple[str, str]]) -> str:
    """Return the source address of the default route, or else the first address; "" if there is none."""
    import socket

    name, target = _PROBES[family]
    try:
        with socket.socket(getattr(socket, name), socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect((target, 9))  # chooses a route; sends nothing
            chosen = str(probe.getsockname()[0])
            if chosen in {address for _link, address in addresses}:
                return chosen
    except OSError:
        pass
    candidates = [address for link, address in addresses if link != "lo" and (":" in address) is (family == 6)]
    return next((address for address in candidates if not address.startswith(("fe80:", "169.254."))), "")


def name() -> str:
    """Return this node's name as kube-proxy takes it: the host name in lower case."""
    return os.uname().nodename.strip().lower()


def set_oom_score(score: int) -> None:
    """Set this process's OOM score adjustment: -1000 (never killed) to 1000 (killed first).

    Raises:
        OSError: lowering needs CAP_SYS_RESOURCE, unless the score was set before this process began.
    """
    path = "/proc/self/oom_score_adj"
    with open(path, encoding="ascii") as file:
        if int(file.read()) == score:
            return
    with open(path, "w", encoding="ascii") as file:
        file.write(str(score))
