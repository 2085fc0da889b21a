# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's IP sets as sets of nftables: KUBE-CLUSTER-IP and KUBE-6-CLUSTER-IP are ``cluster-ip`` of two tables.

======================  =======================================================  ==============================
type of the IP set      types of the fields                                      element
======================  =======================================================  ==============================
``hash:ip``             address                                                  ``10.96.0.1``
``hash:ip,port``        address, protocol, port                                  ``10.96.0.1 . tcp . 80``
``hash:ip,port,ip``     address, protocol, port, address                         ``… . 80 . 10.244.1.5``
``hash:ip,port,net``    address, protocol, port, address; ``flags interval``     ``… . 80 . 192.0.2.0/24``
``bitmap:port``         port (a rule on the set also compares the protocol)      ``30080``
======================  =======================================================  ==============================

An IP set holds at most ``maxelem`` members; a set of nftables without a size has no such limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from sys import intern
from typing import NamedTuple

from ..errors import InputError
from ..model.ipset import MemberKey
from ..model.net import contains, full_prefix, pack
from ..model.nftables import ElementKey, NftSet, SetKey, TableKey
from . import sets

TABLES = {4: TableKey("ip", "kubenode"), 6: TableKey("ip6", "kubenode")}


class NamedSet(NamedTuple):
    """An IP set's counterpart: its key and type, and the type of the IP set."""

    key: SetKey
    value: NftSet
    ipset_type: str


def _types(family: int, ipset_type: str) -> tuple[str, ...]:
    address = "ipv4_addr" if family == 4 else "ipv6_addr"
    if ipset_type == "bitmap:port":
        return ("inet_service",)
    types: list[str] = []
    for part in ipset_type.partition(":")[2].split(","):
        types.extend(("inet_proto", "inet_service") if part == "port" else (address,))
    return tuple(types)


def _named(family: int, name: str, ipset_type: str) -> NamedSet:
    key = SetKey(TABLES[family], name[len("KUBE-") :].lower())
    return NamedSet(key, NftSet(_types(family, ipset_type), ipset_type.endswith("net")), ipset_type)


# By the IP set's name, which is cut in IPv6; the name in nftables is not.
NAMED_SETS = {
    sets.set_name(family, name): _named(family, name, kind.type) for family, name, kind in sets.wanted_sets(True)
}

_NAMES = {named.key: name for name, named in NAMED_SETS.items()}


def named_set(name: str) -> NamedSet:
    """Return the counterpart of an IP set.

    Raises:
        InputError: it is none of kube-proxy's sets.
    """
    if name not in NAMED_SETS:
        raise InputError("nftables", "set", name, "one of kube-proxy's sets")
    return NAMED_SETS[name]


def elements(members: Iterable[MemberKey]) -> Iterator[ElementKey]:
    """Yield the elements for members of IP sets.

    Networks within another network of the same address, protocol and port are left out: unlike an IP set, a set of
    nftables refuses elements that overlap, and the larger network matches the same packets.
    """
    networks: dict[tuple[SetKey, tuple[str, ...]], list[str]] = {}
    for name, member in members:
        named = named_set(name)
        fields = fields_of(member)
        if len(fields) != len(named.value.types):
            raise InputError("nftables", f"member of set {name}", member, f"{len(named.value.types)} fields")
        if named.value.interval:
            networks.setdefault((named.key, fields[:-1]), []).append(fields[-1])
        else:
            yield ElementKey(named.key, fields)
    for (key, start), nets in networks.items():
        for net in disjoint(nets):
            yield ElementKey(key, (*start, net))


def member_of(key: ElementKey) -> MemberKey | None:
    """Return the member of an IP set that an element stands for; None if its set is none of these."""
    name = _NAMES.get(key.set)
    if name is None:
        return None
    address, protocol_port, rest = key.fields[0], ":".join(key.fields[1:3]), key.fields[3:]
    return MemberKey(name, ",".join([address, *([protocol_port] if protocol_port else []), *rest]))


def fields_of(member: str, texts: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Split for example ``10.96.0.1,tcp:80,10.244.1.5``; the second part is the only one with a protocol.

    A large cluster has thousands of members, and few protocols and ports: equal texts are one object in memory. Those
    in ``texts`` are taken from there.
    """
    parts = member.split(",")
    if texts:
        parts = [texts.get(part, part) for part in parts]
    if len(parts) > 1:
        protocol, _colon, port = parts[1].partition(":")
        parts[1:2] = [intern(protocol), intern(port)]
    return tuple(parts)


def disjoint(nets: Iterable[str]) -> list[str]:
    """Return the networks that no other one contains; two networks are disjoint, or one contains the other."""
    kept: list[str] = []
    for _address, _length, net in sorted(map(_bounds, nets)):
        if not kept or not contains(kept[-1] if "/" in kept[-1] else _full(kept[-1]), net.partition("/")[0]):
            kept.append(net)
    return kept


def _bounds(net: str) -> tuple[bytes, int, str]:
    address, _slash, length = (net if "/" in net else _full(net)).partition("/")
    return pack(address), int(length), net


def _full(address: str) -> str:
    return f"{address}/{full_prefix(6 if ':' in address else 4)}"
