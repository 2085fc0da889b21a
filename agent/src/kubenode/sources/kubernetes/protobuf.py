# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decoder of protobuf messages into the values that the same object has in Kubernetes' JSON.

The table of a message names the fields that are decoded. All other fields are skipped, first of all managedFields.
Time and memory are linear in the size of the data, and messages nest only as deeply as the tables.

The wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types; Kubernetes has no groups (3 and 4)
_TEXT, _MESSAGES, _MESSAGE, _TEXTS, _MAP, _SHARED, _NAME, _RAW, _CONVERTED = range(9)  # kinds of _BYTES
_INT, _BOOL = range(2)  # kinds of _VARINT
_LONGEST_VARINT = 63  # bits before its last byte
# Different values of one shared message, and bytes of each: the conditions of endpoints have 27 values of six bytes.
_MOST_SHARED, _LONGEST_SHARED = 1000, 256

Field = tuple[int, tuple[str, int, Any]]  # tag; name in JSON, kind, details


class ProtobufError(ValueError):
    """Malformed protobuf: it is cut off, or has an invalid length, number, wire type or time."""


class Message(NamedTuple):
    """Table of a message.

    ``fields`` maps a field's tag (eight times its number, plus its wire type) to its name, kind and details.
    ``defaults`` are the fields that JSON has even if the message lacks them.
    """

    fields: dict[int, tuple[str, int, Any]]
    defaults: dict[str, Any]


def message(*fields: Field, **defaults: Any) -> Message:
    """Return the table of a message with these fields."""
    return Message(dict(fields), defaults)


# Go's JSON omits an empty text, 0 and false of a field with `omitempty`. With ``keep`` the field has no `omitempty`, or
# is a pointer.


def text(number: int, name: str, *, keep: bool = False) -> Field:
    """Return a field with a text."""
    return 8 * number + _BYTES, (name, _TEXT, keep)


def shared_text(number: int, name: str) -> Field:
    """Return a field with a text that few values recur in, such as a node's name: equal texts share memory."""
    return 8 * number + _BYTES, (name, _NAME, None)


def texts(number: int, name: str) -> Field:
    """Return a repeated field with texts."""
    return 8 * number + _BYTES, (name, _TEXTS, None)


def text_map(number: int, name: str) -> Field:
    """Return a field with a map of texts to texts."""
    return 8 * number + _BYTES, (name, _MAP, message(text(1, "key", keep=True), text(2, "value", keep=True)))


def raw(number: int, name: str) -> Field:
    """Return a field with bytes."""
    return 8 * number + _BYTES, (name, _RAW, None)


def nested(number: int, name: str, table: Message) -> Field:
    """Return a field with a message."""
    return 8 * number + _BYTES, (name, _MESSAGE, table)


def repeated(number: int, name: str, table: Message) -> Field:
    """Return a repeated field with messages."""
    return 8 * number + _BYTES, (name, _MESSAGES, table)


def shared(number: int, name: str, table: Message) -> Field:
    """Return a field with a message of few different values: equal values are one object, decoded once."""
    return 8 * number + _BYTES, (name, _SHARED, (table, {}))


def converted(number: int, name: str, table: Message, convert: Callable[[dict[str, Any]], Any]) -> Field:
    """Return a field with a message that is one value in JSON; ``convert`` returns None to omit it."""
    return 8 * number + _BYTES, (name, _CONVERTED, (table, convert))


def integer(number: int, name: str, bits: int = 32, *, keep: bool = False) -> Field:
    """Return a field with a signed integer."""
    return 8 * number + _VARINT, (name, _INT, (1 << bits, keep))


def boolean(number: int, name: str, *, keep: bool = False) -> Field:
    """Return a field with true or false."""
    return 8 * number + _VARINT, (name, _BOOL, keep)


def decode(data: bytes, table: Message) -> dict[str, Any]:
    """Return the fields of a message.

    Raises:
        ProtobufError: the data is malformed.
    """
    try:
        return _decode(data, 0, len(data), table)
    except IndexError:
        raise ProtobufError("the message is cut off") from None


def _decode(data: bytes, at: int, end: int, table: Message) -> dict[str, Any]:
    """Return the fields of the message between two positions: the hot loop, inline for the frequent kinds."""
    fields, defaults = table
    values = defaults.copy()
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        field = fields.get(tag)
        wire = tag & 7
        if wire == _BYTES:
            size = data[at]
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1)
            start = at
            at += size
            if at > end:
                raise ProtobufError("a field is longer than its message")
            if field is None:
                continue
            name, kind, details = field
            if kind == _TEXT:
                if size or details:
                    values[name] = data[start:at].decode("utf-8", "replace")
            elif kind == _MESSAGES:
                items = values.get(name)
                if items is None:
                    values[name] = items = []
                items.append(_decode(data, start, at, details))
            elif kind == _MESSAGE:
                values[name] = _decode(data, start, at, details)
            else:
                _add(values, field, data[start:at])
        elif wire == _VARINT:
            number, at = _varint(data, at)
            if field is not None:
                _add_number(values, field, number)
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        else:
            raise ProtobufError(f"a field has wire type {wire}, expected 0, 1, 2 or 5")
    if at != end:
        raise ProtobufError("a field is longer than its message")
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > _LONGEST_VARINT:
            raise ProtobufError("a number is longer than ten bytes")


def _add(values: dict[str, Any], field: tuple[str, int, Any], value: bytes) -> None:
    """Add a field of one of the less frequent kinds."""
    name, kind, details = field
    if kind == _TEXTS:
        items = values.get(name)
        if items is None:
            values[name] = items = []
        items.append(value.decode("utf-8", "replace"))
    elif kind == _MAP:
        entry = _decode(value, 0, len(value), details)
        values.setdefault(name, {})[entry.get("key", "")] = entry.get("value", "")
    elif kind == _NAME:
        values[name] = intern(value.decode("utf-8", "replace"))
    elif kind == _SHARED:
        table, known = details
        shared_value = known.get(value)
        if shared_value is None:
            shared_value = _decode(value, 0, len(value), table)
            if len(known) >= _MOST_SHARED:
                known.clear()
            if len(value) <= _LONGEST_SHARED:
                known[value] = shared_value
        values[name] = shared_value
    elif kind == _RAW:
        values[name] = value
    else:
        table, convert = details
        made = convert(_decode(value, 0, len(value), table))
        if made is not None:
            values[name] = made


def _add_number(values: dict[str, Any], field: tuple[str, int, Any], number: int) -> None:
    name, kind, details = field
    if kind == _BOOL:
        if number or details:
            values[name] = number != 0
        return
    modulus, keep = details
    number %= modulus
    if number or keep:
        values[name] = number if 2 * number < modulus else number - modulus
