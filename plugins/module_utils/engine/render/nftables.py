# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render tables of nftables as ``nft list table`` prints them, in a form that ``nft -f`` loads again and again.

``nft -f`` sends a file as one transaction. The text first adds and deletes each table, so that loading it replaces
these tables, and no other one, at once. Sets, regular chains and elements are sorted, one element a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable

from ..errors import InputError
from ..model import ReadState
from ..model.net import pack
from ..model.nftables import (
    Bits,
    ChainKey,
    Compare,
    DestinationNat,
    ElementKey,
    Hook,
    Lookup,
    Masquerade,
    NftChain,
    NftSet,
    Random,
    Reject,
    Rule,
    SetKey,
    SetMark,
    Statement,
    TableKey,
    Verdict,
)

_TYPES = ("nat", "filter")
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
_PRIORITIES = {("prerouting", -100): "dstnat", ("postrouting", 100): "srcnat"}
_QUOTED = ("iifname", "oifname")
_BITS = {
    "ct state": {1: "invalid", 2: "established", 4: "related", 8: "new", 64: "untracked"},
    "ct status": {0x20: "dnat"},
}
_ECHO = {"icmp": "icmp type", "ipv6-icmp": "icmpv6 type"}
_WITH_PORTS = ("tcp", "udp", "sctp")
_ALL_BITS = 0xFFFFFFFF
_INDENT = ",\n\t\t\t     "  # as nft indents elements


def render(state: ReadState) -> str:
    """Return all tables; a state without tables of nftables is empty text.

    Raises:
        InputError: a rule with statements of another program, which have no text.
    """
    sets: dict[TableKey, list[SetKey]] = {}
    chains: dict[TableKey, list[ChainKey]] = {}
    members: dict[SetKey, list[ElementKey]] = {}
    for key in state.get("nft_set", {}):
        sets.setdefault(key.table, []).append(key)
    for key in state.get("nft_chain", {}):
        chains.setdefault(key.table, []).append(key)
    for key in state.get("nft_element", {}):
        members.setdefault(key.set, []).append(key)
    parts = []
    for table in sorted(state.get("nft_table", {})):
        blocks = [_set(key, state["nft_set"][key], members.get(key, ())) for key in sorted(sets.get(table, ()))]
        values = state.get("nft_chain", {})
        ordered = sorted(chains.get(table, ()), key=lambda key: (_order(values[key].hook), key.name))
        blocks.extend(_chain(key, values[key]) for key in ordered)
        body = "\n".join(blocks)
        parts.append(f"add table {table}\ndelete table {table}\ntable {table} {{\n{body}}}\n")
    return "".join(parts)


def _order(hook: Hook | None) -> tuple[int, int, int]:
    """Order base chains before the others, by type, hook and priority."""
    if hook is None:
        return len(_TYPES), 0, 0
    return _TYPES.index(hook.type), _HOOKS.index(hook.hook), hook.priority


def _set(key: SetKey, value: NftSet, members: Iterable[ElementKey]) -> str:
    lines = [f"\tset {key.name} {{", f"\t\ttype {' . '.join(value.types)}"]
    if value.interval:
        lines.append("\t\tflags interval")
    ordered = sorted(members, key=lambda member: tuple(map(_sortable, value.types, member.fields)))
    if ordered:
        lines.append(f"\t\telements = {{ {_INDENT.join(' . '.join(member.fields) for member in ordered)} }}")
    return "\n".join([*lines, "\t}\n"])


def _sortable(field_type: str, text: str) -> Any:
    if field_type == "inet_service":
        return int(text)
    if field_type in ("ipv4_addr", "ipv6_addr"):
        address, _slash, length = text.partition("/")
        return pack(address), length
    return text


def _chain(key: ChainKey, value: NftChain) -> str:
    lines = [f"\tchain {key.name} {{"]
    if value.hook is not None:
        kind, hook, number, policy = value.hook
        priority = "filter" if number == 0 else _PRIORITIES.get((hook, number), str(number))
        lines.append(f"\t\ttype {kind} hook {hook} priority {priority}; policy {policy};")
    lines.extend(f"\t\t{text}" for text in map(rule_text, value.rules))
    return "\n".join([*lines, "\t}\n"])


def rule_text(rule: Rule) -> str:
    """Return a rule as ``nft list`` prints it."""
    words = list(_statements(rule.statements))
    if rule.comment:
        words.append(f'comment "{rule.comment}"')
    return " ".join(words)


def _statements(statements: tuple[Statement, ...]) -> Iterator[str]:
    """Yield the statements; a protocol that the next statement implies is not spelled twice."""
    protocol = ""
    for at, statement in enumerate(statements):
        implied = _implied_protocol(statements, at)
        if implied:
            protocol = implied
            continue
        text = _TEXTS.get(type(statement))
        if text is None:
            raise InputError("nftables", "rule", statement, "statements that have a text")
        yield text(statement, protocol)


def _implied_protocol(statements: tuple[Statement, ...], at: int) -> str:
    """Return the protocol that a statement compares if ``nft`` adds that comparison here by itself, and else ""."""
    statement = statements[at]
    if not isinstance(statement, Compare) or statement.field != "meta l4proto" or statement.negated:
        return ""
    protocol = statement.value
    is_implied = at == 0 and protocol == "tcp" and statements[-1] == Reject("tcp reset")
    following = statements[at + 1] if at + 1 < len(statements) else None
    if isinstance(following, Lookup):
        is_implied |= protocol in _WITH_PORTS and "th dport" in following.fields
    elif isinstance(following, Compare):
        is_implied |= following.field == _ECHO.get(protocol)
        is_implied |= following.field == "th dport" and protocol in _WITH_PORTS
    return protocol if is_implied else ""


def _field(field: str, protocol: str) -> str:
    return f"{protocol} dport" if field == "th dport" and protocol else field


def _compare(statement: Compare, protocol: str) -> str:
    value = f'"{statement.value}"' if statement.field in _QUOTED else statement.value
    return f"{_field(statement.field, protocol)} {'!= ' if statement.negated else ''}{value}"


def _bits(statement: Bits, _protocol: str) -> str:
    names = _BITS.get(statement.field)
    if names is None:
        sign = "==" if statement.negated else "!="
        return f"{statement.field} & {statement.mask:#010x} {sign} 0x00000000"
    text = ",".join(name for bit, name in names.items() if statement.mask & bit)
    return f"{statement.field} {'! ' if statement.negated else ''}{text}"


def _lookup(statement: Lookup, protocol: str) -> str:
    fields = " . ".join(_field(field, protocol) for field in statement.fields)
    return f"{fields} {'!= ' if statement.negated else ''}@{statement.set}"


def _set_mark(statement: SetMark, _protocol: str) -> str:
    keep, toggle = statement
    start = "meta mark set meta mark"
    if keep == _ALL_BITS:
        return f"{start} ^ {toggle:#010x}"
    if keep == ~toggle & _ALL_BITS:
        return f"{start} | {toggle:#010x}"
    return f"{start} & {keep:#010x} ^ {toggle:#010x}"


def _destination(statement: DestinationNat, _protocol: str) -> str:
    address = f"[{statement.address}]" if ":" in statement.address else statement.address
    return f"dnat to {address}:{statement.port}"


_TEXTS: dict[type, Callable[[Any, str], str]] = {
    Compare: _compare,
    Bits: _bits,
    Lookup: _lookup,
    SetMark: _set_mark,
    DestinationNat: _destination,
    Masquerade: lambda statement, _protocol: "masquerade fully-random" if statement.fully_random else "masquerade",
    Reject: lambda statement, _protocol: "reject" + (" with tcp reset" if statement.how == "tcp reset" else ""),
    Random: lambda statement, _protocol: f"numgen random mod {statement.modulus} 0",
    Verdict: lambda statement, _protocol: " ".join(filter(None, statement)),
}
