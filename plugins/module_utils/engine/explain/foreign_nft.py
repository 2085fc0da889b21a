# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of other programs' nftables tables, from the JSON of ``nft --json list ruleset``.

Statements that decide about a connection become those of :mod:`.nft_walk`; all others become :class:`.nft_walk.Unread`,
which never counts as a match nor as a mismatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..model.nft_trace import TABLE_PREFIX
from ..model.nftables import (
    Bits,
    ChainKey,
    DestinationNat,
    ElementKey,
    Hook,
    Masquerade,
    NftChain,
    NftSet,
    Reject,
    Rule,
    SetKey,
    TableKey,
    Verdict,
)
from .nft_walk import OneOf, Unread

_STATES = {"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64}
_NO_EFFECT = ("counter", "log", "limit", "quota", "xt", "notrack", "mangle", "set", "map")
_FAMILIES = ("ip", "ip6", "inet")


def foreign_tables(ruleset: Iterable[Mapping[str, Any]], known: Iterable[TableKey]) -> dict[str, dict[Any, Any]]:
    """Return ``nft_chain``, ``nft_set`` and ``nft_element`` of all tables but the known ones and those of traces."""
    skipped = set(known)
    hooks: dict[ChainKey, Hook | None] = {}
    rules: dict[ChainKey, list[Rule]] = {}
    items: dict[str, dict[Any, Any]] = {"nft_set": {}, "nft_element": {}}
    for entry in ruleset:
        for kind, fields in entry.items():
            if not isinstance(fields, Mapping) or fields.get("family") not in _FAMILIES:
                continue
            table = TableKey(fields["family"], fields.get("table", ""))
            if table in skipped or table.name.startswith(TABLE_PREFIX):
                continue
            if kind == "chain":
                hooks[ChainKey(table, fields["name"])] = _hook(fields)
            elif kind == "rule":
                rules.setdefault(ChainKey(table, fields["chain"]), []).append(_rule(table, fields))
            elif kind == "set":
                _add_set(items, table, fields)
    items["nft_chain"] = {key: NftChain(hook, tuple(rules.get(key, ()))) for key, hook in hooks.items()}
    return items


def _hook(fields: Mapping[str, Any]) -> Hook | None:
    if "hook" not in fields or not isinstance(fields.get("prio"), int):
        return None
    return Hook(fields.get("type", "filter"), fields["hook"], fields["prio"], fields.get("policy", "accept"))


def _add_set(items: dict[str, dict[Any, Any]], table: TableKey, fields: Mapping[str, Any]) -> None:
    key = SetKey(table, fields["name"])
    types = fields.get("type")
    listed = list(_values(fields.get("elem", []))) if isinstance(types, str) else None
    if listed is None or None in listed:
        items["nft_set"][key] = NftSet(("foreign",))
        return
    items["nft_set"][key] = NftSet((str(types),), True)
    items["nft_element"].update((ElementKey(key, (str(value),)), "") for value in listed)


def _values(elements: Any) -> Iterator[str | None]:
    """Yield the values of a set or of the right side of a comparison; None for a value that is not judged."""
    for element in elements if isinstance(elements, list) else [elements]:
        value = element.get("elem", element) if isinstance(element, dict) else element
        value = value.get("val", value) if isinstance(value, dict) else value
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            yield str(value)
        elif isinstance(value, dict) and "prefix" in value:
            yield f"{value['prefix'].get('addr')}/{value['prefix'].get('len')}"
        elif isinstance(value, dict) and "range" in value:
            yield "-".join(map(str, value["range"]))
        elif isinstance(value, dict) and "set" in value:
            yield from _values(value["set"])
        else:
            yield None


def _rule(table: TableKey, fields: Mapping[str, Any]) -> Rule:
    statements: list[Any] = []
    for statement in fields.get("expr", []):
        if isinstance(statement, Mapping):
            for name, value in statement.items():
                statements.extend(_statement(table, name, value))
    return Rule(tuple(statements), str(fields.get("comment", "")))


def _statement(table: TableKey, name: str, value: Any) -> Iterator[Any]:
    if name in ("accept", "drop", "return"):
        yield Verdict(name)
    elif name in ("jump", "goto") and isinstance(value, Mapping):
        yield Verdict(name, str(value.get("target", "")))
    elif name == "reject":
        yield Reject("port-unreachable")
    elif name == "masquerade":
        yield Masquerade()
    elif name == "match" and isinstance(value, Mapping):
        yield _match(table, value)
    elif name in ("dnat", "redirect") and isinstance(value, (Mapping, type(None))):
        yield _destination(name, value or {})
    elif name == "limit":
        yield Unread("limit")
    elif name not in _NO_EFFECT:
        yield Unread(name, ends=True)


def _destination(name: str, value: Mapping[str, Any]) -> Any:
    address, port = value.get("addr", ""), value.get("port", 0)
    if isinstance(address, str) and isinstance(port, int) and (address or name == "redirect"):
        return DestinationNat(address, port)
    return Unread(name, ends=True)


def _match(table: TableKey, value: Mapping[str, Any]) -> Any:
    field, operator = _field(value.get("left")), value.get("op")
    right = value.get("right")
    if field == "ct state":
        states = [_STATES.get(str(name), 0) for name in (right if isinstance(right, list) else _values(right))]
        if operator in ("in", "==", "!=") and all(states):
            return Bits("ct state", sum(states), operator == "!=")
        return Unread("ct state")
    if not field or operator not in ("==", "!=", "in", None):
        return Unread(field or "a match that is not known")
    if isinstance(right, str) and right.startswith("@"):
        from ..model.nftables import Lookup

        return Lookup((field,), right[1:], operator == "!=")
    values = list(_values(right))
    if None in values:
        return Unread(field)
    return OneOf(field, tuple(str(each) for each in values), operator == "!=")


def _field(left: Any) -> str:
    """Return a field's name as :mod:`.nft_walk` has it, "" if it is not judged."""
    if not isinstance(left, Mapping):
        return ""
    if "payload" in left and "protocol" in left["payload"]:
        return f"{left['payload']['protocol']} {left['payload']['field']}"
    if "meta" in left:
        key = left["meta"]["key"]
        return str(key) if key in ("iifname", "oifname") else f"meta {key}"
    if "ct" in left and left["ct"].get("key") == "state":
        return "ct state"
    if "fib" in left and left["fib"].get("result") == "type":
        flags = left["fib"].get("flags")
        flags = [flags] if isinstance(flags, str) else flags
        return f"fib {flags[0]} type" if flags and len(flags) == 1 else ""
    return ""
