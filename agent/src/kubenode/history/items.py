# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Items of a node as JSON, with a strict decoder.

The agent's user can write the files, and root reads them. So the decoder makes only values of the types in the tables
below, with the types of their fields, in canonical form, printable and of bounded length.
"""

from __future__ import annotations

import json
from typing import Any, Callable, NamedTuple

from ..engine.model import nftables as nft
from ..engine.model.ipset import IPSet, MemberKey
from ..engine.model.iptables import WHERE, ChainKey, JumpKey, RulePosition
from ..engine.model.ipvs import (
    FORWARDING_METHODS,
    PROTOCOLS,
    TUNNEL_TYPES,
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
)
from ..engine.model.link import AddressKey, Link, Route, RouteKey
from ..engine.model.net import canonical, network

_LONGEST = 65536  # characters of a text: the longest rule has a few hundred
_MOST = 65536  # elements of a list: a chain has some ten rules

Decoder = Callable[[Any], Any]

# Text of a value. `json.dumps` makes an encoder for each call, which takes longer than a record.
to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class DecodeError(ValueError):
    """A file has a value that no release writes."""


class Item(NamedTuple):
    """One item, or its removal: then ``value`` is None."""

    kind: str
    key: Any
    value: Any


def text(raw: Any) -> str:
    """Return a text; refuse one that is long, or could change a terminal."""
    if type(raw) is not str or len(raw) > _LONGEST or not raw.isprintable():
        raise DecodeError("expected a printable text")
    return raw


def number(raw: Any) -> int:
    """Return an integer of 54 bits, which JSON readers keep exact."""
    if type(raw) is not int or not -(1 << 53) <= raw <= 1 << 53:
        raise DecodeError("expected an integer")
    return raw


def _unsigned(raw: Any) -> int:
    if type(raw) is not int or not 0 <= raw < 1 << 32:
        raise DecodeError("expected an integer of 32 bits")
    return raw


def _flag(raw: Any) -> bool:
    if type(raw) is not bool:
        raise DecodeError("expected true or false")
    return raw


def _one_of(*values: Any) -> Decoder:
    def decode(raw: Any) -> Any:
        for value in values:
            if type(raw) is type(value) and raw == value:
                return value
        raise DecodeError(f"expected one of {values}")

    return decode


def many(one: Decoder, most: int = _MOST) -> Callable[[Any], tuple[Any, ...]]:
    """Return the decoder of a list of bounded length."""

    def decode(raw: Any) -> tuple[Any, ...]:
        if type(raw) is not list or len(raw) > most:
            raise DecodeError("expected a list")
        return tuple(map(one, raw))

    return decode


def record(make: Callable[..., Any], *fields: Decoder) -> Decoder:
    """Return the decoder of a named tuple, which is a list of its fields."""

    def decode(raw: Any) -> Any:
        if type(raw) is not list or len(raw) != len(fields):
            raise DecodeError(f"expected a list of {len(fields)}")
        return make(*[field(value) for field, value in zip(fields, raw)])

    return decode


def optional(one: Decoder) -> Decoder:
    """Return the decoder of a value that may be null."""
    return lambda raw: None if raw is None else one(raw)


def _address(raw: Any) -> str:
    if canonical(raw) != raw:
        raise DecodeError("expected a canonical address")
    return text(raw)


def _network(raw: Any) -> str:
    if network(text(raw)) != raw:
        raise DecodeError("expected a canonical network")
    return text(raw)


def _address_or_none(raw: Any) -> str:
    return "" if raw == "" else _address(raw)


def _server(protocol: str, address: str, port: int, family: int) -> VirtualServerKey:
    if (protocol == "fwmark") != (address == "") or (address and (":" in address) != (family == 6)):
        raise DecodeError("expected an address of the family, or a mark")
    return VirtualServerKey(protocol, address, port, family)


_FAMILY = _one_of(4, 6)
_TABLE = record(nft.TableKey, _one_of("ip", "ip6"), text)
_SET = record(nft.SetKey, _TABLE, text)
_CHAIN = record(ChainKey, _FAMILY, text, text)
SERVER = record(_server, _one_of(*PROTOCOLS, "fwmark"), _address_or_none, _unsigned, _FAMILY)
_STATEMENTS: dict[str, Decoder] = {
    "Compare": record(nft.Compare, text, text, _flag),
    "Bits": record(nft.Bits, text, _unsigned, _flag),
    "Lookup": record(nft.Lookup, many(text), text, _flag),
    "SetMark": record(nft.SetMark, _unsigned, _unsigned),
    "Masquerade": record(nft.Masquerade, _flag),
    "Reject": record(nft.Reject, text),
    "DestinationNat": record(nft.DestinationNat, _address, _unsigned),
    "Verdict": record(nft.Verdict, text, text),
    "Random": record(nft.Random, _unsigned),
    "Foreign": record(nft.Foreign, text),
}


def _statement(raw: Any) -> nft.Statement:
    if type(raw) is not list or not raw or type(raw[0]) is not str or raw[0] not in _STATEMENTS:
        raise DecodeError("expected a statement of nftables")
    statement: nft.Statement = _STATEMENTS[raw[0]](raw[1:])
    return statement


_HOOK = record(nft.Hook, text, text, number, text)
_RULE = record(nft.Rule, many(_statement), text)

# Kind -> decoders of its key and of its value. Only these kinds are part of a service proxy's desired state.
KINDS: dict[str, tuple[Decoder, Decoder]] = {
    "sysctl": (text, text),
    "link": (text, record(Link, text, _flag)),
    "set": (text, record(IPSet, text, many(record(lambda *pair: pair, text, text)), many(text))),
    "member": (record(MemberKey, text, text), text),
    "chain": (_CHAIN, many(text)),
    "jump": (record(JumpKey, _FAMILY, text, text, text), record(RulePosition, _one_of(*WHERE), _unsigned)),
    "nft_table": (_TABLE, _unsigned),
    "nft_set": (_SET, record(nft.NftSet, many(text), _flag)),
    "nft_element": (record(nft.ElementKey, _SET, many(text)), text),
    "nft_chain": (record(nft.ChainKey, _TABLE, text), record(nft.NftChain, optional(_HOOK), many(_RULE))),
    "virtual_server": (SERVER, record(VirtualServer, text, _unsigned, _unsigned, _unsigned, text)),
    "real_server": (
        record(RealServerKey, SERVER, _address, _unsigned),
        record(
            RealServer, _unsigned, _one_of(*FORWARDING_METHODS), _unsigned, _unsigned, _one_of(*TUNNEL_TYPES),
            _unsigned, _unsigned,
        ),
    ),
    "address": (record(AddressKey, text, _address, _unsigned), _one_of(True)),
    "route": (record(RouteKey, text, _network), record(Route, _unsigned, _unsigned)),
}  # fmt: skip


def encode(kind: str, key: Any, value: Any) -> list[Any]:
    """Return an item as JSON values; named tuples are lists, and statements of nftables begin with their type."""
    if kind == "nft_chain" and value is not None:
        rules = [[[[type(each).__name__, *each] for each in rule.statements], rule.comment] for rule in value.rules]
        value = [value.hook, rules]
    return [kind, key, value]


def decode(raw: Any) -> Item:
    """Return the item that :func:`encode` spelled.

    Raises:
        ValueError: no release writes this.
    """
    if type(raw) is not list or len(raw) != 3 or type(raw[0]) is not str or raw[0] not in KINDS:
        raise DecodeError("expected kind, key and value of an item")
    key, value = KINDS[raw[0]]
    return Item(raw[0], key(raw[1]), None if raw[2] is None else value(raw[2]))


def decode_key(kind: Any, raw: Any) -> Any:
    """Return the key of an item.

    Raises:
        ValueError: no release writes this.
    """
    if type(kind) is not str or kind not in KINDS:
        raise DecodeError("expected a kind of item")
    return KINDS[kind][0](raw)
