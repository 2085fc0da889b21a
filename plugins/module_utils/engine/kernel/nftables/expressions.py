# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expressions of nftables' rules: one table of their attributes, read and written by it.

An :class:`Expression` is normal: an attribute with the kernel's default is left out. So an expression that the kernel
reports equals the one that was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Callable, NamedTuple

from ..netlink import ATTRIBUTE, attribute, attributes, string, string_attribute
from .protocol import (
    DATA_VALUE,
    DATA_VERDICT,
    EXPR_DATA,
    EXPR_NAME,
    I32,
    LIST_ELEM,
    U8,
    U32,
    VERDICT_CHAIN,
    VERDICT_CODE,
    nested,
)


class Expression(NamedTuple):
    """One expression: its name and its attributes, sorted by their names."""

    name: str
    attributes: tuple[tuple[str, Any], ...]


class VerdictData(NamedTuple):
    """Content of the verdict register: NF_ACCEPT, NFT_JUMP …, and the chain of a jump."""

    code: int
    chain: str = ""


class _Format(NamedTuple):
    """Conversion of an attribute: ``pack(number, value)`` returns it, ``unpack(payload)`` its value."""

    pack: Callable[[int, Any], bytes]
    unpack: Callable[[bytes], Any]


class _Attribute(NamedTuple):
    number: int
    format: _Format
    default: Any = None


def make(name: str, **values: Any) -> Expression:
    """Return an expression; its values are those of the table below."""
    defaults = _EXPRESSIONS[name]
    return Expression(name, tuple(sorted(pair for pair in values.items() if defaults[pair[0]].default != pair[1])))


def pack(expressions: Iterable[Expression]) -> bytes:
    """Return the content of NFTA_RULE_EXPRESSIONS."""
    return b"".join(nested(LIST_ELEM, _pack_one(expression)) for expression in expressions)


def unpack(raw: bytes) -> list[Expression]:
    """Return the expressions in NFTA_RULE_EXPRESSIONS.

    Raises:
        LookupError, ValueError, struct.error: an expression or an attribute that the table below lacks, or a malformed
            one.
    """
    return [_unpack_one(item) for item in elements(raw)]


def elements(raw: bytes) -> list[bytes]:
    """Return the payloads of a list of NFTA_LIST_ELEM.

    Raises:
        ValueError: a length points outside of ``raw``, or another attribute is in the list.
    """
    payloads = []
    start, end = 0, len(raw)
    while start < end:
        if end - start < ATTRIBUTE.size:
            raise ValueError(f"netlink attribute with {end - start} bytes left")
        size, kind = ATTRIBUTE.unpack_from(raw, start)
        if size < ATTRIBUTE.size or start + size > end or kind & 0x3FFF != LIST_ELEM:
            raise ValueError(f"netlink attribute {kind & 0x3FFF} of {size} bytes with {end - start} left")
        payloads.append(raw[start + ATTRIBUTE.size : start + size])
        start += size + 3 & ~3
    return payloads


def _pack_one(expression: Expression) -> bytes:
    known = _EXPRESSIONS[expression.name]
    data = b"".join(known[name].format.pack(known[name].number, value) for name, value in expression.attributes)
    return string_attribute(EXPR_NAME, expression.name) + nested(EXPR_DATA, data)


def _unpack_one(raw: bytes) -> Expression:
    fields = attributes(raw)
    name = string(fields[EXPR_NAME])
    data = attributes(fields.get(EXPR_DATA, b""))
    values = {}
    for key, known in _EXPRESSIONS[name].items():
        if known.number in data:
            values[key] = known.format.unpack(data.pop(known.number))
    if data:
        raise LookupError(f"expression {name} with attributes {sorted(data)}")
    return make(name, **values)


def _number(struct: Struct) -> _Format:
    return _Format(lambda kind, value: attribute(kind, struct.pack(value)), lambda raw: struct.unpack(raw)[0])


def _pack_data(kind: int, value: bytes | VerdictData) -> bytes:
    if isinstance(value, bytes):
        return nested(kind, attribute(DATA_VALUE, value))
    verdict = attribute(VERDICT_CODE, I32.pack(value.code))
    if value.chain:
        verdict += string_attribute(VERDICT_CHAIN, value.chain)
    return nested(kind, nested(DATA_VERDICT, verdict))


def _unpack_data(raw: bytes) -> bytes | VerdictData:
    given = attributes(raw)
    if list(given) == [DATA_VALUE]:
        return given[DATA_VALUE]
    if list(given) != [DATA_VERDICT]:
        raise LookupError(f"data of the types {sorted(given)}")
    verdict = attributes(given[DATA_VERDICT])
    (code,) = I32.unpack(verdict.pop(VERDICT_CODE))
    chain = string(verdict.pop(VERDICT_CHAIN, b""))
    if verdict:
        raise LookupError(f"verdict with attributes {sorted(verdict)}")
    return VerdictData(code, chain)


_BYTE, _WORD = _number(U8), _number(U32)
_TEXT = _Format(string_attribute, string)
_DATA = _Format(_pack_data, _unpack_data)


def _words(*names: str) -> dict[str, _Attribute]:
    """Return attributes of four bytes, numbered from 1."""
    return {name: _Attribute(number, _WORD) for number, name in enumerate(names, 1)}


_EXPRESSIONS: dict[str, dict[str, _Attribute]] = {
    "payload": _words("dreg", "base", "offset", "len"),
    "meta": _words("dreg", "key", "sreg"),
    "ct": {**_words("dreg", "key"), "direction": _Attribute(3, _BYTE), "sreg": _Attribute(4, _WORD)},
    "fib": _words("dreg", "result", "flags"),
    "bitwise": {
        **_words("sreg", "dreg", "len"),
        "mask": _Attribute(4, _DATA),
        "xor": _Attribute(5, _DATA),
        "op": _Attribute(6, _WORD, 0),  # since Linux 5.6
    },
    "cmp": {**_words("sreg", "op"), "data": _Attribute(3, _DATA)},
    "lookup": {"set": _Attribute(1, _TEXT), "sreg": _Attribute(2, _WORD), "flags": _Attribute(5, _WORD, 0)},
    "immediate": {"dreg": _Attribute(1, _WORD), "data": _Attribute(2, _DATA)},
    "masq": {"flags": _Attribute(1, _WORD, 0)},
    "nat": _words("type", "family", "addr_min", "addr_max", "proto_min", "proto_max", "flags"),
    "reject": {"type": _Attribute(1, _WORD), "code": _Attribute(2, _BYTE)},
    "numgen": {**_words("dreg", "modulus", "type"), "offset": _Attribute(4, _WORD, 0)},
}
