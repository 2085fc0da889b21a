# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matches of iptables rules, judged for one packet: they match, do not match, or cannot be judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Callable, NamedTuple

from ..model.ipvs import PROTOCOLS
from ..model.net import contains, family, network
from ..syntax.common import AskError
from ..syntax.iptables_rule import words
from .flow import Packet
from .view import NodeView

_NUMBERS = {str(number): name for name, number in PROTOCOLS.items()}
_FLAGS = {"-s": "source", "-d": "destination", "-i": "in", "-o": "out", "-p": "protocol"}


class Match(NamedTuple):
    """One option of a rule: the module ("" for none), the option, its values, and whether it is negated."""

    module: str
    option: str
    values: tuple[str, ...]
    is_negated: bool


class ParsedRule(NamedTuple):
    """A rule: its matches, the target ("" for none) with its options, and whether it is a goto."""

    matches: tuple[Match, ...]
    target: str
    options: tuple[str, ...]
    is_goto: bool


class Judgement(NamedTuple):
    """Answer for one packet: True, False, or None for both. ``doubt`` names the word that cannot be judged, else ""."""

    matches: bool | None
    doubt: str = ""


@lru_cache(maxsize=4096)
def parsed(text: str) -> ParsedRule:
    """Split a rule in the spelling of ``iptables-save``; a broken one gets a match that cannot be judged."""
    try:
        listed = words(text)
    except AskError:
        return ParsedRule((Match("", text, (), False),), "", (), False)
    matches: list[Match] = []
    module, negated, at = "", False, 0
    while at < len(listed):
        word = listed[at]
        at += 1
        if word in ("-j", "-g"):
            return ParsedRule(tuple(matches), "".join(listed[at : at + 1]), tuple(listed[at + 1 :]), word == "-g")
        if word == "!":
            negated = True
        elif word == "-m":
            module = "".join(listed[at : at + 1])
            matches.append(Match(module, "", (), False))
            at += 1
        else:
            end = at + 1 if word == "--comment" else at
            while end < len(listed) and word != "--comment" and not listed[end].startswith("-") and listed[end] != "!":
                end += 1
            matches.append(Match("" if word in _FLAGS else module, word, tuple(listed[at:end]), negated))
            at, negated = end, False
    return ParsedRule(tuple(matches), "", (), False)


def judge(view: NodeView, packet: Packet, rule: ParsedRule) -> Judgement:
    """Judge a whole rule: False as soon as one match is false, so that an unknown one does not matter."""
    unsure: list[str] = []
    is_chance = False
    for match in rule.matches:
        if not match.option:
            if match.module not in _MODULES:
                unsure.append(f"-m {match.module}")
            continue
        function = MATCHES.get((match.module, match.option)) or MATCHES.get(("", match.option))
        try:
            answer = function(view, packet, match.values) if function else None
        except (IndexError, ValueError):  # not the form that iptables-save prints
            answer = None
        if function is None or answer is None:
            if match.module in _CHANCE:
                is_chance = True
            else:
                unsure.append(" ".join(filter(None, (match.module and f"-m {match.module}", match.option))))
        elif answer is match.is_negated:
            return Judgement(False)
    if unsure:
        return Judgement(None, ", ".join(dict.fromkeys(unsure)))
    return Judgement(None) if is_chance else Judgement(True)


Function = Callable[[NodeView, Packet, Sequence[str]], "bool | None"]


def _net(text: str, address: str) -> bool | None:
    try:
        return family(text) == family(address) and contains(network(text), address)
    except ValueError:
        return None


def _source(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _net(values[0], packet.source)


def _destination(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _net(values[0], packet.destination)


def link_matches(pattern: str, name: str, wildcard: str = "+") -> bool:
    """Compare the name of a link with a pattern that may end with a wildcard."""
    return name.startswith(pattern[:-1]) if pattern.endswith(wildcard) else name == pattern


def _in_link(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return link_matches(values[0], packet.in_link)


def _out_link(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return link_matches(values[0], packet.out_link)


def _protocol(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return values[0] == "all" or _NUMBERS.get(values[0], values[0]) == packet.protocol


def _in_range(text: str, port: int) -> bool | None:
    first, colon, last = text.partition(":")
    if not re.fullmatch(r"\d*:?\d*", text):
        return None
    return int(first or 0) <= port <= int(last or 65535) if colon else int(first) == port


def _destination_port(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _in_range(values[0], packet.port)


def _source_port(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _in_range(values[0], packet.source_port)


def _ports(text: str, port: int) -> bool | None:
    answers = [_in_range(part, port) for part in text.split(",")]
    return True if True in answers else None if None in answers else False


def _destination_ports(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _ports(values[0], packet.port)


def _source_ports(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _ports(values[0], packet.source_port)


def _either_port(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _ports(values[0], packet.port) or _ports(values[0], packet.source_port)


def _tcp_flags(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    compared, wanted = ({*text.split(",")} for text in values)
    present = {"SYN", "ACK"} if packet.is_reply else {"SYN"}
    wanted = set() if wanted == {"NONE"} else wanted
    return (present & compared) == wanted


def _comment(_view: NodeView, _packet: Packet, _values: Sequence[str]) -> bool | None:
    return True


def _mark(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    value, _slash, mask = values[0].partition("/")
    return packet.mark & int(mask or "0xffffffff", 16) == int(value, 0)


def _state(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    names = values[0].split(",")
    return packet.state in names or ("DNAT" in names and packet.is_dnat) or ("SNAT" in names and False)


def _address_type(view: NodeView, kind: str, address: str) -> bool | None:
    route = view.route(address)
    present = "local" if route is not None and route.is_local else route.kind if route is not None else "unreachable"
    return kind.lower() == present


def _source_type(view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _address_type(view, values[0], packet.source)


def _destination_type(view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return _address_type(view, values[0], packet.destination)


def _is_in(_view: NodeView, packet: Packet, _values: Sequence[str]) -> bool | None:
    return packet.from_bridge


def _ipvs_protocol(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return packet.virtual is not None and str(PROTOCOLS[packet.virtual.protocol]) == values[0]


def _ipvs_address(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return packet.virtual is not None and _net(values[0], packet.virtual.address)


def _ipvs_port(_view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    return packet.virtual is not None and str(packet.virtual.port) == values[0]


def _is_ipvs(_view: NodeView, packet: Packet, _values: Sequence[str]) -> bool | None:
    return packet.virtual is not None


def _set(view: NodeView, packet: Packet, values: Sequence[str]) -> bool | None:
    if len(values) != 2:
        return None
    return in_set(view, packet, values[0], values[1].split(","))


def in_set(view: NodeView, packet: Packet, name: str, directions: Sequence[str]) -> bool | None:
    """Tell whether a set has the packet; None for types of sets that are not judged."""
    kind = view.set_type(name)
    parts = kind.partition(":")[2].split(",")
    if not kind or not {*parts} <= {"ip", "port", "net"} or len(parts) > len(directions):
        return None
    fields = []
    for part, direction in zip(parts, directions):
        is_source = direction == "src"
        port = packet.source_port if is_source else packet.port
        address = packet.source if is_source else packet.destination
        fields.append((f"{packet.protocol}:{port}" if len(parts) > 1 else str(port)) if part == "port" else address)
    if view.has_member(name, ",".join(fields)):
        return True
    if "net" not in parts:
        # "timeout 60" and the like follow the member's text in its value, so an exact member was found above
        return False
    return any(_same_fields(member.split(","), fields, parts) for member in view.members(name))


def _same_fields(member: Sequence[str], fields: Sequence[str], parts: Sequence[str]) -> bool:
    return len(member) == len(fields) and all(
        _net(one, other) if part == "net" else one == other for one, other, part in zip(member, fields, parts)
    )


_CHANCE = frozenset(("statistic", "limit"))
_MODULES = frozenset(
    (*_CHANCE, "tcp", "udp", "sctp", "multiport", "comment", "set", "mark", "conntrack", "state", "addrtype", "physdev")
    + ("ipvs", "icmp", "icmp6")
)
MATCHES: dict[tuple[str, str], Function] = {
    ("", "-s"): _source,
    ("", "-d"): _destination,
    ("", "-i"): _in_link,
    ("", "-o"): _out_link,
    ("", "-p"): _protocol,
    **{(protocol, "--dport"): _destination_port for protocol in PROTOCOLS},
    **{(protocol, "--sport"): _source_port for protocol in PROTOCOLS},
    ("tcp", "--tcp-flags"): _tcp_flags,
    ("multiport", "--dports"): _destination_ports,
    ("multiport", "--sports"): _source_ports,
    ("multiport", "--ports"): _either_port,
    ("comment", "--comment"): _comment,
    ("set", "--match-set"): _set,
    ("mark", "--mark"): _mark,
    ("conntrack", "--ctstate"): _state,
    ("state", "--state"): _state,
    ("addrtype", "--src-type"): _source_type,
    ("addrtype", "--dst-type"): _destination_type,
    ("physdev", "--physdev-is-in"): _is_in,
    ("ipvs", "--vproto"): _ipvs_protocol,
    ("ipvs", "--vaddr"): _ipvs_address,
    ("ipvs", "--vport"): _ipvs_port,
    ("ipvs", "--ipvs"): _is_ipvs,
}
