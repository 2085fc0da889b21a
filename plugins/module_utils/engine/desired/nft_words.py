# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matches and targets of iptables, each with the statements of nftables that do the same.

The tables have exactly the words that :mod:`.rules` and :mod:`.service_vips` write. ``docs/explanation/nftables.md``
says for each why it is equal. Three matches have no counterpart of the same name:

``-m physdev ! --physdev-is-in``
    Not from a port of a bridge: unknown in family ``ip``, and left out. The match only delays a verdict. The next rule
    accepts the packets that fail it, since every external address is local on the node: bound to kube-ipvs0, led there
    by a route, or the node's own.
``-m ipvs --vproto --vaddr --vport``
    A request that IPVS has sent to a real server: ``ct original``. IPVS changes only the reply direction in connection
    tracking, with ``net.ipv4.vs.conntrack=1``, which the agent sets. ``-m ipvs`` matches no answers, so the original
    source must be the rule's source, too.
``--ctstate`` with ``DNAT``
    A bit of ``ct status``. Packets without an entry (invalid or untracked) match no ``ct status``, not even a negated
    one; an alternative matches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple

from ..model.net import full_prefix
from ..model.nftables import (
    Bits,
    Compare,
    DestinationNat,
    Lookup,
    Masquerade,
    Random,
    Reject,
    SetMark,
    Statement,
    Verdict,
)
from .nft_sets import named_set

_ALL_BITS = 0xFFFFFFFF
_WHOLE = 1 << 31  # the kernel counts a probability in parts of it
_IPVS_PROTOCOLS = {"6": "tcp", "17": "udp", "132": "sctp"}
_STATES = {"ESTABLISHED": 2, "RELATED": 4, "NEW": 8}
_WITHOUT_ENTRY = 1 | 64  # ct state invalid, untracked
_DNAT = 0x20  # of ct status
_ECHO = {"8": "icmp type", "128": "icmpv6 type"}
_REJECTS = {
    (4, "icmp-port-unreachable"): "port-unreachable",
    (6, "icmp6-port-unreachable"): "port-unreachable",
    (4, "tcp-reset"): "tcp reset",
    (6, "tcp-reset"): "tcp reset",
}
_VERDICTS = {"ACCEPT": "accept", "DROP": "drop", "RETURN": "return"}

Alternatives = tuple[tuple[Statement, ...], ...]  # they exclude each other: at most one of them matches a packet


class Draft:
    """A rule while its words are read."""

    def __init__(self, family: int, table: str) -> None:
        self.family = family
        self.table = table
        self.ip = "ip" if family == 4 else "ip6"
        self.protocol = ""
        self.source = ""
        self.comment = ""


Make = Callable[[Draft, Sequence[str], bool], Alternatives]


class Match(NamedTuple):
    """An option: the number of its values, the function that makes its statements, and its use with ``!``."""

    values: int
    make: Make
    negation: str = "never"  # or "allowed", "always"


def chain_name(table: str, chain: str) -> str:
    """Return a chain's name: kube-proxy's, without KUBE- and in lower case.

    The chains KUBE-NODE-PORT of two tables are in one table here; that of ``filter`` has another name.
    """
    if (table, chain) == ("filter", "KUBE-NODE-PORT"):
        return "health-check-node-port"
    return chain[len("KUBE-") :].lower()


def target(draft: Draft, words: Sequence[str]) -> Statement:
    """Return the statement for the words behind ``-j``.

    Raises:
        ValueError: an unknown target or option.
    """
    name, options = words[0] if words else "", tuple(words[1:])
    if not options and name in _VERDICTS:
        return Verdict(_VERDICTS[name])
    if not options and name.startswith("KUBE-"):
        return Verdict("jump", chain_name(draft.table, name))
    if name == "MASQUERADE" and options in ((), ("--random-fully",)):
        return Masquerade(bool(options))
    if name == "MARK" and options[:1] == ("--set-xmark",) and len(options) == 2:
        value, mask = _value_and_mask(options[1])
        return SetMark(~mask & _ALL_BITS, value)
    if name == "REJECT" and options[:1] == ("--reject-with",) and (draft.family, options[-1]) in _REJECTS:
        return Reject(_REJECTS[draft.family, options[-1]])
    if name == "DNAT" and options[:1] == ("--to-destination",) and len(options) == 2:
        address, _colon, port = options[1].rpartition(":")
        return DestinationNat(address, int(port))
    raise ValueError(f"a target that nftables has a form for, not {' '.join(words)!r}")


def _value_and_mask(text: str) -> tuple[int, int]:
    value, _slash, mask = text.partition("/")
    return int(value, 16), int(mask, 16)


def _address(field: str) -> Make:
    def make(draft: Draft, values: Sequence[str], negated: bool) -> Alternatives:
        address = values[0].removesuffix(f"/{full_prefix(draft.family)}")
        if field == "saddr" and not negated:
            draft.source = address
        return ((Compare(f"{draft.ip} {field}", address, negated),),)

    return make


def _link(field: str) -> Make:
    def make(_draft: Draft, values: Sequence[str], negated: bool) -> Alternatives:
        name = values[0]
        if "*" in name or '"' in name:
            raise ValueError("a link name without asterisks and quotation marks")
        return ((Compare(field, f"{name[:-1]}*" if name.endswith("+") else name, negated),),)

    return make


def _protocol(draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    draft.protocol = values[0]
    return ((Compare("meta l4proto", values[0]),),)


def _port(draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    if not draft.protocol:
        raise ValueError("-p before --dport")
    return ((Compare("th dport", values[0]),),)


def _comment(draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    draft.comment = values[0]
    return ((),)


def _set(draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    """Look up the fields of a set; a set of ports alone needs the protocol beside it, as ``bitmap:port`` has."""
    named = named_set(values[0])
    parts, directions = named.ipset_type.partition(":")[2].split(","), values[1].split(",")
    if len(parts) != len(directions) or not {*directions} <= {"src", "dst"} or named.key.table.family != draft.ip:
        raise ValueError(f"a set of the rule's family with {len(parts)} flags")
    fields: list[str] = []
    for part, direction in zip(parts, directions):
        if part == "port" and direction == "src":
            raise ValueError("dst for the port")
        if part == "port":
            fields.extend(("meta l4proto", "th dport") if len(parts) > 1 else ("th dport",))
        else:
            fields.append(f"{draft.ip} {direction[0]}addr")
    lookup = Lookup(tuple(fields), named.key.name)
    if parts == ["port"] and not draft.protocol:  # bitmap:port matches packets of two protocols
        return tuple((Compare("meta l4proto", protocol), lookup) for protocol in ("tcp", "udp"))
    if parts == ["port"] and draft.protocol not in ("tcp", "udp"):
        raise ValueError(f"tcp or udp for the set {values[0]}")
    return ((lookup,),)


def _address_type(direction: str) -> Make:
    def make(_draft: Draft, values: Sequence[str], negated: bool) -> Alternatives:
        if values[0] != "LOCAL":
            raise ValueError("the address type LOCAL")
        return ((Compare(f"fib {direction} type", "local", negated),),)

    return make


def _physdev(_draft: Draft, _values: Sequence[str], _negated: bool) -> Alternatives:
    return ((),)


def _mark(_draft: Draft, values: Sequence[str], negated: bool) -> Alternatives:
    value, mask = _value_and_mask(values[0])
    if value != mask or bin(mask).count("1") != 1:
        raise ValueError("a mark of one bit")
    return ((Bits("meta mark", mask, negated),),)


def _state(_draft: Draft, values: Sequence[str], negated: bool) -> Alternatives:
    names = values[0].split(",")
    mask = sum(_STATES[name] for name in names if name in _STATES)
    state = Bits("ct state", mask, negated)
    if all(name in _STATES for name in names):
        return ((state,),)
    if not negated or {*names} - {*_STATES} != {"DNAT"}:
        raise ValueError(f"states of {', '.join(_STATES)}, or a negation with DNAT")
    return ((Bits("ct state", _WITHOUT_ENTRY),), (state, Bits("ct status", _DNAT, negated)))


def _echo(_draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    if values[0] not in _ECHO:
        raise ValueError("the type of an echo request")
    return ((Compare(_ECHO[values[0]], "echo-request"),),)


def _ipvs_protocol(_draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    if values[0] not in _IPVS_PROTOCOLS:
        raise ValueError(f"a protocol of {', '.join(_IPVS_PROTOCOLS)}")
    return ((Compare("meta l4proto", _IPVS_PROTOCOLS[values[0]]),),)


def _ipvs_address(draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    if not draft.source:
        raise ValueError("-s before -m ipvs")
    source = Compare(f"ct original {draft.ip} saddr", draft.source)
    return ((source, Compare(f"ct original {draft.ip} daddr", values[0])),)


def _ipvs_port(_draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    return ((Compare("ct original proto-dst", values[0]),),)


def _random_mode(_draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    if values[0] != "random":
        raise ValueError("--mode random")
    return ((),)


def _probability(_draft: Draft, values: Sequence[str], _negated: bool) -> Alternatives:
    """Return one packet in N; iptables has the share in parts of 2**31."""
    modulus = round(1 / float(values[0]))
    if f"{round(_WHOLE / modulus) / _WHOLE:.11f}" != values[0]:
        raise ValueError("the probability of one in N")
    return ((Random(modulus),),)


# By the option alone, or by the name of its match and the option.
MATCHES = {
    "-s": Match(1, _address("saddr"), "allowed"),
    "-d": Match(1, _address("daddr"), "allowed"),
    "-i": Match(1, _link("iifname"), "allowed"),
    "-o": Match(1, _link("oifname"), "allowed"),
    "-p": Match(1, _protocol),
    "tcp --dport": Match(1, _port),
    "udp --dport": Match(1, _port),
    "sctp --dport": Match(1, _port),
    "comment --comment": Match(1, _comment),
    "set --match-set": Match(2, _set),
    "addrtype --src-type": Match(1, _address_type("saddr"), "allowed"),
    "addrtype --dst-type": Match(1, _address_type("daddr"), "allowed"),
    "physdev --physdev-is-in": Match(0, _physdev, "always"),
    "mark --mark": Match(1, _mark, "allowed"),
    "conntrack --ctstate": Match(1, _state, "allowed"),
    "icmp --icmp-type": Match(1, _echo),
    "icmp6 --icmpv6-type": Match(1, _echo),
    "ipvs --vproto": Match(1, _ipvs_protocol),
    "ipvs --vaddr": Match(1, _ipvs_address),
    "ipvs --vport": Match(1, _ipvs_port),
    "statistic --mode": Match(1, _random_mode),
    "statistic --probability": Match(1, _probability),
}
