# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements of rules as expressions of the kernel, and back.

:func:`decode` guesses statements from the form of the expressions and keeps them only if :func:`encode` returns the
same expressions. All other rules are one :class:`Foreign`. So no statement describes a rule that it would not write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ...model.nftables import (
    Bits,
    Compare,
    DestinationNat,
    Foreign,
    Lookup,
    Masquerade,
    Random,
    Reject,
    SetMark,
    Statement,
    Verdict,
)
from .expressions import Expression, VerdictData, make, pack, unpack
from .fields import BIT_FIELDS, FIELDS, SET_MARK, Field
from .protocol import FAMILIES, HOST32, REGISTER_BYTES, REGISTERS, U16, register

_EQUAL, _UNEQUAL = 0, 1  # NFT_CMP_*
_NEGATED_LOOKUP = 1  # NFT_LOOKUP_F_INV
_VERDICTS = {"drop": 0, "accept": 1, "jump": -3, "goto": -4, "return": -5}
_WITH_CHAIN = ("jump", "goto")
_FULLY_RANDOM = 0x10  # NF_NAT_RANGE_PROTO_RANDOM_FULLY
_DNAT, _ADDRESS_AND_PORT = 1, 0x3  # NFT_NAT_DNAT; NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED
_SECOND = register(4)  # NFT_REG_2, behind an address of either family
_RANDOM = 1  # NFT_NG_RANDOM
_REJECT = {
    "ip": {"port-unreachable": make("reject", type=0, code=3), "tcp reset": make("reject", type=1)},
    "ip6": {"port-unreachable": make("reject", type=0, code=4), "tcp reset": make("reject", type=1)},
}
_MALFORMED = (LookupError, TypeError, ValueError, OSError, struct.error)


def encode(family: str, statements: Iterable[Statement]) -> bytes:
    """Return the content of NFTA_RULE_EXPRESSIONS of a rule in a table of a family (``ip`` or ``ip6``).

    Raises:
        ValueError: a statement has a field or a value that the family lacks, or that is not canonical.
    """
    parts = []
    for statement in statements:
        if isinstance(statement, Foreign):
            parts.append(bytes.fromhex(statement.expressions))
        else:
            try:
                parts.append(pack(_ENCODERS[statement.__class__](family, statement)))
            except _MALFORMED as error:
                raise ValueError(f"{statement} cannot be written in a table of family {family}: {error}") from None
    return b"".join(parts)


def decode(family: str, raw: bytes) -> tuple[Statement, ...]:
    """Return the statements of a rule: the inverse of :func:`encode`, for any bytes."""
    try:
        expressions = unpack(raw)
        statements = _guess(family, expressions)
        if [one for each in statements for one in _ENCODERS[each.__class__](family, each)] == expressions:
            return statements
    except _MALFORMED:
        pass
    return (Foreign(raw.hex()),)


# Encoders: a statement to its expressions.


def _compare(family: str, statement: Compare) -> list[Expression]:
    field = FIELDS[family][statement.field]
    address, slash, length = statement.value.partition("/") if field.is_network else (statement.value, "", "")
    raw = field.format.pack(address)
    operator = _UNEQUAL if statement.negated else _EQUAL
    if not slash:
        return [field.load, _cmp(operator, raw)]
    bits = int(length)
    if str(bits) != length or not 0 <= bits < 8 * field.size:
        raise ValueError("expected an address, or a network with a shorter prefix")
    mask = _mask(bits, field.size)
    if any(byte & ~kept for byte, kept in zip(raw, mask)):
        raise ValueError("the network has host bits")
    whole = bits // 8
    if bits % 8 == 0 and whole:
        return [_partial(field, whole), _cmp(operator, raw[:whole])]
    return [field.load, _bitwise(mask, bytes(field.size)), _cmp(operator, raw)]


def _bits(_family: str, statement: Bits) -> list[Expression]:
    operator = _EQUAL if statement.negated else _UNEQUAL
    return [
        BIT_FIELDS[statement.field],
        _bitwise(HOST32.pack(statement.mask), bytes(HOST32.size)),
        _cmp(operator, bytes(HOST32.size)),
    ]


def _lookup(family: str, statement: Lookup) -> list[Expression]:
    expressions = []
    word = 0
    for name in statement.fields:
        field = FIELDS[family][name]
        expressions.append(_into(field.load, register(word)))
        word += -(-field.size // REGISTER_BYTES)
    if not 0 < word <= REGISTERS or not statement.set:
        raise ValueError("expected a set, and fields that fit into the registers")
    flags = _NEGATED_LOOKUP if statement.negated else 0
    return [*expressions, make("lookup", set=statement.set, sreg=1, flags=flags)]


def _set_mark(_family: str, statement: SetMark) -> list[Expression]:
    return [
        BIT_FIELDS["meta mark"],
        _bitwise(HOST32.pack(statement.keep), HOST32.pack(statement.toggle)),
        SET_MARK,
    ]


def _masquerade(_family: str, statement: Masquerade) -> list[Expression]:
    return [make("masq", flags=_FULLY_RANDOM if statement.fully_random else 0)]


def _reject(family: str, statement: Reject) -> list[Expression]:
    return [_REJECT[family][statement.how]]


def _destination_nat(family: str, statement: DestinationNat) -> list[Expression]:
    address = FIELDS[family][f"{family} daddr"].format.pack(statement.address)
    nat = make(
        "nat", type=_DNAT, family=FAMILIES[family], addr_min=1, addr_max=1, proto_min=_SECOND, proto_max=_SECOND,
        flags=_ADDRESS_AND_PORT,
    )  # fmt: skip
    return [
        make("immediate", dreg=1, data=address),
        make("immediate", dreg=_SECOND, data=U16.pack(statement.port)),
        nat,
    ]


def _verdict(_family: str, statement: Verdict) -> list[Expression]:
    if bool(statement.chain) != (statement.name in _WITH_CHAIN):
        raise ValueError("expected a chain for jump and goto only")
    return [make("immediate", dreg=0, data=VerdictData(_VERDICTS[statement.name], statement.chain))]


def _random(_family: str, statement: Random) -> list[Expression]:
    if not 0 < statement.modulus < 1 << 32:
        raise ValueError("expected a modulus from 1 to 4294967295")
    return [
        make("numgen", dreg=1, modulus=statement.modulus, type=_RANDOM),
        _cmp(_EQUAL, bytes(HOST32.size)),
    ]


_ENCODERS: dict[type, Callable[[str, Any], list[Expression]]] = {
    Compare: _compare,
    Bits: _bits,
    Lookup: _lookup,
    SetMark: _set_mark,
    Masquerade: _masquerade,
    Reject: _reject,
    DestinationNat: _destination_nat,
    Verdict: _verdict,
    Random: _random,
}


def _cmp(operator: int, data: bytes) -> Expression:
    return make("cmp", sreg=1, op=operator, data=data)


def _bitwise(mask: bytes, toggle: bytes) -> Expression:
    return make("bitwise", sreg=1, dreg=1, len=len(mask), mask=mask, xor=toggle)


def _mask(bits: int, size: int) -> bytes:
    return ((1 << 8 * size) - (1 << 8 * size - bits)).to_bytes(size, "big")


def _into(load: Expression, number: int) -> Expression:
    return make(load.name, **{**dict(load.attributes), "dreg": number})


def _partial(field: Field, size: int) -> Expression:
    """Return the load of a field's first bytes, where its expression can do that."""
    return make(field.load.name, **{**dict(field.load.attributes), "len": size}) if field.is_partial else field.load


# Decoders: guess the next statement from its expressions. Its remaining attributes are compared by decode().


def _guess(family: str, expressions: Sequence[Expression]) -> tuple[Statement, ...]:
    statements: list[Statement] = []
    start = 0
    while start < len(expressions):
        size, statement = _guess_one(family, expressions[start : start + REGISTERS + 1])
        statements.append(statement)
        start += size
    return tuple(statements)


def _guess_one(family: str, expressions: Sequence[Expression]) -> tuple[int, Statement]:
    """Return how many expressions the first statement has, and the statement.

    Raises:
        LookupError, TypeError, ValueError, struct.error: no statement has this form.
    """
    first = expressions[0]
    values = dict(first.attributes)
    if first.name == "masq":
        return 1, Masquerade(bool(values.get("flags")))
    if first.name == "reject":
        return 1, Reject(_key_of(_REJECT[family], first))
    if first.name == "numgen":
        return 2, Random(values["modulus"])
    if first.name == "immediate":
        if isinstance(values["data"], VerdictData):
            return 1, Verdict(_key_of(_VERDICTS, values["data"].code), values["data"].chain)
        address = FIELDS[family][f"{family} daddr"].format.unpack(values["data"])
        return 3, DestinationNat(address, *U16.unpack(_data(expressions[1], "data")))
    return _guess_load(family, expressions)


def _guess_load(family: str, expressions: Sequence[Expression]) -> tuple[int, Statement]:
    first, second = expressions[:2]
    if second.name == "cmp":
        return 2, _guess_compare(family, first, _data(second, "data"), second)
    if second.name == "bitwise":
        mask, third = _data(second, "mask"), expressions[2]
        if third.name == "meta":
            return 3, SetMark(*HOST32.unpack(mask), *HOST32.unpack(_data(second, "xor")))
        if first in BIT_FIELDS.values():
            negated = _value(third, "op") == _EQUAL
            return 3, Bits(_key_of(BIT_FIELDS, first), HOST32.unpack(mask)[0], negated)
        return 3, _guess_compare(
            family, first, _data(third, "data"), third, bin(int.from_bytes(mask, "big")).count("1")
        )
    size = [expression.name for expression in expressions].index("lookup")
    fields = tuple(_field_of(family, expression)[0] for expression in expressions[:size])
    lookup = dict(expressions[size].attributes)
    return size + 1, Lookup(fields, lookup["set"], bool(lookup.get("flags")))


def _guess_compare(family: str, load: Expression, data: bytes, cmp: Expression, bits: int | None = None) -> Statement:
    """Return the comparison of a loaded field, with a network of ``bits`` if its other bits are masked."""
    name, field = _field_of(family, load)
    if bits is None and field.is_network and len(data) < field.size:
        bits = 8 * len(data)
    value = field.format.unpack(data if bits is None else data.ljust(field.size, b"\0"))
    return Compare(name, value if bits is None else f"{value}/{bits}", _value(cmp, "op") == _UNEQUAL)


def _field_of(family: str, load: Expression) -> tuple[str, Field]:
    """Return the field that an expression loads, into any register and perhaps its first bytes only."""
    for name, field in FIELDS[family].items():
        size = dict(load.attributes).get("len", 0)
        if _into(load, 1) == (_partial(field, size) if 0 < size < field.size else field.load):
            return name, field
    raise LookupError(f"no field is loaded by {load}")


def _value(expression: Expression, name: str) -> Any:
    return dict(expression.attributes)[name]


def _data(expression: Expression, name: str) -> bytes:
    value = _value(expression, name)
    if not isinstance(value, bytes):
        raise TypeError(f"{name} of {expression.name} is {value}")
    return value


def _key_of(table: dict[str, Any], value: Any) -> str:
    for key, entry in table.items():
        if entry == value:
            return key
    raise LookupError(f"{value} has no name")
