# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables as the service proxy writes them: sets with elements, chains with rules of typed statements.

Only what stands in for kube-proxy's iptables rules and IP sets is here; the kernel knows far more expressions. A rule
that another program wrote is :class:`Foreign`. Words are those of ``nft(8)``.
"""

from __future__ import annotations

from typing import NamedTuple, Union

KINDS = ("nft_table", "nft_set", "nft_element", "nft_chain")  # of items, as model/kinds.py names them


class TableKey(NamedTuple):
    """One table: the address family (``ip`` or ``ip6``) and the name."""

    family: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.name}"


class SetKey(NamedTuple):
    """One named set of a table."""

    table: TableKey
    name: str

    def __str__(self) -> str:
        return f"{self.table} {self.name}"


class ElementKey(NamedTuple):
    """One element of a set: one text per field of the set's type.

    Addresses and networks are canonical (``10.96.0.1``, ``10.0.0.0/8``), protocols are names (``tcp``), ports are
    decimal. Example: ``("10.96.0.1", "tcp", "80")``. The elements of an interval set must not overlap. A field of an
    interval set that is no network is a range (``80-90``).
    """

    set: SetKey
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' . '.join(self.fields)} of set {self.set}"


class ChainKey(NamedTuple):
    """One chain of a table."""

    table: TableKey
    name: str

    def __str__(self) -> str:
        return f"{self.table} {self.name}"


class NftSet(NamedTuple):
    """Type of a set: the type of each field, and whether an element may be a network (``flags interval``).

    Field types: ``ipv4_addr``, ``ipv6_addr``, ``inet_proto``, ``inet_service``. A set of any other form, which another
    program made, has the one type ``foreign``; its elements are not listed.
    """

    types: tuple[str, ...]
    interval: bool = False


class Hook(NamedTuple):
    """Place of a base chain: type (``nat`` or ``filter``), hook (``prerouting`` …), numeric priority, policy."""

    type: str
    hook: str
    priority: int
    policy: str = "accept"


class NftChain(NamedTuple):
    """A chain: its hook, None for a regular chain, and its rules in order."""

    hook: Hook | None
    rules: tuple[Rule, ...]


class Compare(NamedTuple):
    """Compare one field with one value.

    Fields and the form of their values: ``ip saddr``, ``ip daddr``, ``ip6 saddr``, ``ip6 daddr`` (address, or network
    of more than one), ``meta l4proto`` (protocol name: ``tcp``, ``udp``, ``sctp``, ``icmp``, ``ipv6-icmp``),
    ``iifname``, ``oifname`` (link name; with ``*`` at its end, any name that begins so), ``th dport`` (port), ``icmp
    type``, ``icmpv6 type`` (``echo-request``), ``fib saddr type``, ``fib daddr type`` (``local``), ``ct original ip
    saddr``, ``ct original ip daddr``, ``ct original ip6 saddr``, ``ct original ip6 daddr`` (as ``ip saddr``), ``ct
    original proto-dst`` (port).
    """

    field: str
    value: str
    negated: bool = False


class Bits(NamedTuple):
    """Compare a field's bits: at least one of ``mask`` is set; negated: none is.

    Fields: ``meta mark`` (any mask), ``ct state`` (1 invalid, 2 established, 4 related, 8 new, 64 untracked),
    ``ct status`` (0x20 dnat).
    """

    field: str
    mask: int
    negated: bool = False


class Lookup(NamedTuple):
    """Look up the concatenation of fields in a named set of the same table."""

    fields: tuple[str, ...]
    set: str
    negated: bool = False


class SetMark(NamedTuple):
    """Set the packet's mark to ``(mark & keep) ^ toggle``; ``mark or 0x4000`` has keep 0xffffbfff and toggle 0x4000."""

    keep: int
    toggle: int


class Masquerade(NamedTuple):
    """Give the packet the source address of the link it leaves by."""

    fully_random: bool = False


class Reject(NamedTuple):
    """Refuse the packet: ``port-unreachable`` (an ICMP message of the table's family) or ``tcp reset``."""

    how: str


class DestinationNat(NamedTuple):
    """Send the connection to an address and port of the table's family."""

    address: str
    port: int


class Verdict(NamedTuple):
    """``accept``, ``drop``, ``return``, ``jump`` or ``goto``; the last two name a chain."""

    name: str
    chain: str = ""


class Random(NamedTuple):
    """Match one packet in ``modulus`` on average: ``numgen random mod N 0``."""

    modulus: int


class Foreign(NamedTuple):
    """Statements that none of the types above describes, as the hexadecimal bytes of the kernel's expression list."""

    expressions: str


Statement = Union[
    Compare, Bits, Lookup, SetMark, Masquerade, Reject, DestinationNat, Verdict, Random, Foreign
]  # Union: Python 3.9 evaluates it


class Rule(NamedTuple):
    """One rule: its statements in order, and its comment (at most 128 bytes, "" for none)."""

    statements: tuple[Statement, ...]
    comment: str = ""
