# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow packets through chains of nftables, with every matching rule as a decision.

The statements are those of :mod:`..model.nftables`, and :class:`OneOf` and :class:`Unread` for rules of other programs.
A rule with a statement that cannot be judged is followed both ways: the outcomes then carry a doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ..model.net import contains, family, full_prefix, pack
from ..model.nftables import (
    Bits,
    ChainKey,
    Compare,
    DestinationNat,
    Lookup,
    Masquerade,
    NftChain,
    Random,
    Reject,
    Rule,
    SetKey,
    SetMark,
    TableKey,
    Verdict,
)
from .flow import Decision, Outcome, Packet
from .iptables_match import link_matches
from .iptables_walk import distinct
from .view import NodeView

_STATES = {"INVALID": 1, "ESTABLISHED": 2, "RELATED": 4, "NEW": 8, "UNTRACKED": 64}
_DNAT = 0x20
_FAMILY = {4: "ip", 6: "ip6"}
_DEEPEST = 16
_DIGITS = 20  # of a number of 64 bits
_ENDS = {"accept": "accepts it", "drop": "drops it", "return": "ends the chain"}


class OneOf(NamedTuple):
    """Compare one field with several values: addresses, networks, names, or ranges of numbers (``80-90``)."""

    field: str
    values: tuple[str, ...]
    negated: bool = False


class Unread(NamedTuple):
    """Statement of another program's rule that is not judged; ``ends`` if it may end the packet's way."""

    text: str
    ends: bool = False


def hooked(view: NodeView, hook: str, fam: int) -> list[tuple[int, ChainKey, NftChain]]:
    """Return the base chains of a hook that see packets of a family: priority, key, chain."""
    found = []
    for key, chain in view.nft_chains().items():
        if chain.hook is not None and chain.hook.hook == hook and key.table.family in (_FAMILY[fam], "inet"):
            found.append((chain.hook.priority, key, chain))
    return sorted(found, key=lambda item: item[0])


def walk(view: NodeView, key: ChainKey, chain: NftChain, start: Outcome) -> list[Outcome]:
    """Follow a packet through a base chain (see :func:`.iptables_walk.walk`)."""
    policy = chain.hook.policy if chain.hook is not None else "accept"
    finished = []
    for outcome in _follow(view, key, start, ()):
        if outcome.verdict:
            finished.append(outcome)
        elif policy == "drop":
            text = f"no rule of chain {key} of nftables accepts it, and the chain's policy is drop"
            decision = Decision(str(key), text, "nft_chain", key)
            finished.append(outcome._replace(verdict="drop", decisions=(*outcome.decisions, decision)))
        else:
            finished.append(outcome._replace(verdict="accept"))
    return distinct(finished)


def _follow(view: NodeView, key: ChainKey, start: Outcome, callers: tuple[ChainKey, ...]) -> list[Outcome]:
    """Return the outcomes at the end of a chain, which ``callers`` have jumped to."""
    chain = view.nft_chains().get(key)
    live, ended = [start], list[Outcome]()
    for number, rule in enumerate(chain.rules if chain is not None else (), 1):
        following: list[Outcome] = []
        for outcome in live:
            answer, doubt = _judge(view, outcome.packet, rule, key.table)
            if doubt:
                doubts = (*outcome.doubts, f"rule {number} of chain {key} of nftables has {doubt}")
                outcome = outcome._replace(doubts=doubts)
            if answer is not True:
                following.append(outcome)
            if answer is not False:
                for taken in _effects(view, _Place(key, number, rule, callers), outcome):
                    (ended if taken.verdict else following).append(taken)
        live = distinct(following)
        if not live:
            break
    return distinct(live + [each._replace(verdict="") if each.verdict == "return" else each for each in ended])


class _Place:
    """A rule's place, for decisions about it."""

    def __init__(self, key: ChainKey, number: int, rule: Rule, callers: tuple[ChainKey, ...]) -> None:
        self.key = key
        self.number = number
        self.rule = rule
        self.callers = callers

    def decision(self, effect: str) -> Decision:
        words = f" ({self.rule.comment})" if self.rule.comment else ""
        text = f"rule {self.number} of chain {self.key} of nftables {effect}{words}"
        return Decision(str(self.key), text, "nft_rule", (self.key, self.number, self.rule))


def _judge(view: NodeView, packet: Packet, rule: Rule, table: TableKey) -> tuple[bool | None, str]:
    """Return whether a rule's matches all match, None for both; and the statement that cannot be judged, if any."""
    doubts: list[str] = []
    is_chance = False
    for statement in rule.statements:
        if isinstance(statement, Random):
            is_chance = is_chance or statement.modulus > 1
            continue
        if not isinstance(statement, (Compare, Bits, Lookup, OneOf, Unread)):
            if statement.__class__.__name__ == "Foreign":
                doubts.append("statements that cannot be read")
            continue
        answer = _match(view, packet, statement, table)
        if answer is None:
            doubts.append(_shown(statement))
        elif not answer:
            return False, ""
    if doubts:
        return None, ", ".join(doubts)
    return (None, "") if is_chance else (True, "")


def _shown(statement: Any) -> str:
    return str(statement.text if isinstance(statement, Unread) else getattr(statement, "field", statement))


def _match(view: NodeView, packet: Packet, statement: Any, table: TableKey) -> bool | None:
    if isinstance(statement, Unread):
        return None
    if isinstance(statement, Bits):
        present = _bits(statement.field, packet)
        if present is None:
            # packets without an entry in connection tracking have no status: no comparison matches
            return False
        return bool(present & statement.mask) is not statement.negated
    if isinstance(statement, Lookup):
        fields = [_value(view, packet, field) for field in statement.fields]
        if None in fields:
            return None
        found = _in_set(view, SetKey(table, statement.set), [str(field) for field in fields])
        return None if found is None else found is not statement.negated
    present_value = _value(view, packet, statement.field)
    if present_value is None:
        return None
    values = statement.values if isinstance(statement, OneOf) else (statement.value,)
    same = _any(_same(statement.field, value, present_value) for value in values)
    return None if same is None else same is not statement.negated


def _bits(field: str, packet: Packet) -> int | None:
    if field == "meta mark":
        return packet.mark
    if field == "ct state":
        return _STATES[packet.state]
    return None if packet.state in ("UNTRACKED", "INVALID") else _DNAT if packet.is_dnat else 0


_FIELDS: Mapping[str, Callable[[Packet], str]] = {
    "meta l4proto": lambda packet: packet.protocol,
    "meta nfproto": lambda packet: "ipv4" if packet.family == 4 else "ipv6",
    "iifname": lambda packet: packet.in_link,
    "oifname": lambda packet: packet.out_link,
    "th dport": lambda packet: str(packet.port),
    "th sport": lambda packet: str(packet.source_port),
    "icmp type": lambda packet: "",
    "icmpv6 type": lambda packet: "",
    "ct state": lambda packet: packet.state.lower(),
    "ct original proto-dst": lambda packet: str(packet.original[2]),
}
# Fields of the packet's own family and protocol, without their names.
_OWN_FIELDS: Mapping[str, Callable[[Packet], str]] = {
    "saddr": lambda packet: packet.source,
    "daddr": lambda packet: packet.destination,
    "protocol": lambda packet: packet.protocol,
    "dport": lambda packet: str(packet.port),
    "sport": lambda packet: str(packet.source_port),
    "original saddr": lambda packet: packet.original[0],
    "original daddr": lambda packet: packet.original[1],
}


def _value(view: NodeView, packet: Packet, field: str) -> str | None:
    """Return a field of the packet, "" if it has none of this kind, None if the field is not judged."""
    read = _FIELDS.get(field)
    if read is not None:
        return read(packet)
    fam = _FAMILY[packet.family]
    if field.startswith((f"{fam} ", f"ct original {fam} ", f"{packet.protocol} ")):
        own = _OWN_FIELDS.get(field.removeprefix("ct ").replace(f"{fam} ", "").replace(f"{packet.protocol} ", ""))
        if own is not None:
            return own(packet)
    if field in ("fib saddr type", "fib daddr type"):
        route = view.route(packet.source if field == "fib saddr type" else packet.destination)
        return route.kind if route is not None else "unreachable"
    words = field.split()
    if words[0] in ("ip", "ip6", "tcp", "udp", "sctp", "icmp", "icmpv6") and words[0] not in (fam, packet.protocol):
        return ""  # a field of another protocol: the comparison fails
    return None


def _same(field: str, value: str, present: str) -> bool | None:
    if present == "":
        return False
    if field.endswith("addr"):
        return _address_matches(value, present)
    if field in ("iifname", "oifname"):
        return link_matches(value, present, "*")
    return value == present or _in_range(value, present)


def _address_matches(value: str, present: str) -> bool | None:
    """Compare an address with an address, a network or a range; None if the text is none of these."""
    first, dash, last = value.partition("-")
    try:
        if family(value) != family(present):
            return False
        if dash:
            return pack(first) <= pack(present) <= pack(last)
        return contains(value if "/" in value else f"{value}/{full_prefix(family(value))}", present)
    except (OSError, ValueError):
        return None


def _any(answers: Iterable[bool | None]) -> bool | None:
    """Return True if one is, else None if one is, else False."""
    listed = [*answers]
    return True if True in listed else None if None in listed else False


def _in_set(view: NodeView, key: SetKey, fields: Sequence[str]) -> bool | None:
    header = view.items.get("nft_set", {}).get(key)
    if header is None or header.types == ("foreign",):
        return None
    if view.has_element(key, tuple(fields)):
        return True
    if not header.interval:
        return False
    return _any(
        _all(_element_matches(one, other) for one, other in zip(element, fields)) for element in view.elements(key)
    )


def _all(answers: Iterable[bool | None]) -> bool | None:
    listed = [*answers]
    return False if False in listed else None if None in listed else True


def _element_matches(value: str, present: str) -> bool | None:
    if value == present:
        return True
    if "." in present or ":" in present:
        return _address_matches(value, present)
    return _in_range(value, present)


def _in_range(value: str, present: str) -> bool:
    first, _dash, last = value.partition("-")
    numbers = (first, last, present)
    return all(each.isdecimal() and len(each) < _DIGITS for each in numbers) and int(first) <= int(present) <= int(last)


def _effects(view: NodeView, place: _Place, outcome: Outcome) -> list[Outcome]:
    """Return the outcomes of a matching rule; the verdict "" means that the next rule is judged."""
    for statement in place.rule.statements:
        if isinstance(statement, SetMark):
            mark = (outcome.packet.mark & statement.keep) ^ statement.toggle
            decision = place.decision(f"sets the mark to {mark:#x}")
            outcome = outcome._replace(
                packet=outcome.packet._replace(mark=mark), decisions=(*outcome.decisions, decision)
            )
        elif isinstance(statement, Unread) and statement.ends:
            decision = place.decision(f"has {statement.text}, which cannot be judged")
            ended = outcome._replace(verdict="unknown", decisions=(*outcome.decisions, decision))
            return [outcome, ended]
        elif statement.__class__.__name__ == "Foreign":
            decision = place.decision("has statements that cannot be read")
            ended = outcome._replace(verdict="unknown", decisions=(*outcome.decisions, decision))
            return [outcome, ended]
        else:
            last = _last(view, place, statement, outcome)
            if last is not None:
                return last
    return [outcome]


def _last(view: NodeView, place: _Place, statement: Any, outcome: Outcome) -> list[Outcome] | None:
    """Return the outcomes of a statement that ends the rule; None for any other statement."""

    def ended(verdict: str, effect: str, packet: Packet | None = None) -> list[Outcome]:
        decisions = (*outcome.decisions, place.decision(effect))
        return [Outcome(packet or outcome.packet, verdict, decisions, outcome.doubts)]

    packet = outcome.packet
    if isinstance(statement, Masquerade):
        return ended("accept", "masquerades it", packet._replace(translation="link"))
    if isinstance(statement, Reject):
        return ended("reject", "refuses it")
    if isinstance(statement, DestinationNat):
        address = statement.address or packet.destination
        changed = packet._replace(destination=address, port=statement.port or packet.port, is_dnat=True)
        return ended("accept", f"sends it to {address}:{changed.port}", changed)
    if not isinstance(statement, Verdict):
        return None
    if statement.name in _ENDS:
        return ended(statement.name, _ENDS[statement.name])
    called = ChainKey(place.key.table, statement.chain)
    if len(place.callers) >= _DEEPEST or called in (place.key, *place.callers):
        return ended("unknown", "jumps too deep, or in a circle")
    entered = outcome._replace(decisions=(*outcome.decisions, place.decision(f"leads to chain {statement.chain}")))
    outcomes = _follow(view, called, entered, (*place.callers, place.key))
    if statement.name == "goto":
        return [each._replace(verdict=each.verdict or "return") for each in outcomes]
    return outcomes
