# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets and their elements as attributes of the kernel, and back.

An element of a set with ``flags interval`` is a range in each field: a concatenation has the keys of both ends. A set
of one field has two elements for it, and the second is the first value behind the range.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from ...model.nftables import ElementKey, NftSet, SetKey
from ..netlink import attribute, attributes, string_attribute
from .expressions import elements
from .fields import ADDRESS4, ADDRESS6, PORT, PROTOCOL, PROTOCOLS, Format, decimal
from .protocol import (
    DATA_VALUE,
    ELEM_CATCHALL,
    ELEM_INTERVAL_END,
    HOST32,
    LIST_ELEM,
    REGISTER_BYTES,
    SET_CONCAT,
    SET_DESC,
    SET_DESC_CONCAT,
    SET_ELEM_FLAGS,
    SET_ELEM_KEY,
    SET_ELEM_KEY_END,
    SET_FIELD_LEN,
    SET_FLAGS,
    SET_ID,
    SET_INTERVAL,
    SET_KEY_LEN,
    SET_KEY_TYPE,
    SET_NAME,
    SET_TABLE,
    SET_USERDATA,
    U32,
    nested,
)

FOREIGN = NftSet(("foreign",))  # a set of another form; its elements are not read
CATCHALL = ("*",)  # the element that matches every other key
_TYPE_BITS = 6
_MOST_FIELDS = 5  # as many types fit into the number of the key's type
_KEY_BYTEORDER, _CONCATENATED, _BIG_ENDIAN = 0, 0, 2  # libnftables' note for itself: NFTNL_UDATA_SET_KEYBYTEORDER


class _Type(NamedTuple):
    """Type of a field: its number in libnftables, its bytes, its values, and whether they may be networks."""

    number: int
    size: int
    format: Format
    is_address: bool = False

    @property
    def padding(self) -> bytes:
        return bytes(-self.size % REGISTER_BYTES)


_TYPES = {
    "ipv4_addr": _Type(7, 4, ADDRESS4, True),
    "ipv6_addr": _Type(8, 16, ADDRESS6, True),
    "inet_proto": _Type(12, 1, PROTOCOL),
    "inet_service": _Type(13, 2, PORT),
}
_TYPE_NAMES = {type_.number: name for name, type_ in _TYPES.items()}


def encode_set(key: SetKey, value: NftSet, number: int) -> bytes:
    """Return the attributes that create a set; ``number`` identifies it within the transaction.

    Raises:
        ValueError: a type that no set of a service proxy has, or too many of them.
    """
    header = _header(value)
    payload = string_attribute(SET_TABLE, key.table.name) + string_attribute(SET_NAME, key.name)
    payload += b"".join(attribute(kind, U32.pack(word)) for kind, word in header.items())
    payload += attribute(SET_ID, U32.pack(number))
    if header[SET_FLAGS] & SET_CONCAT:
        lengths = (U32.pack(_TYPES[name].size) for name in value.types)
        fields = (nested(LIST_ELEM, attribute(SET_FIELD_LEN, length)) for length in lengths)
        payload += nested(SET_DESC, nested(SET_DESC_CONCAT, b"".join(fields)))
    order = _CONCATENATED if len(value.types) > 1 else _BIG_ENDIAN
    return payload + attribute(SET_USERDATA, bytes((_KEY_BYTEORDER, HOST32.size)) + HOST32.pack(order))


def decode_set(fields: dict[int, bytes]) -> NftSet:
    """Return a set from the attributes that the kernel reports: FOREIGN if encode_set() would not create it.

    Raises:
        LookupError, struct.error: an attribute is missing or cut off.
    """
    numbers = {kind: U32.unpack(fields.get(kind, bytes(4)))[0] for kind in (SET_FLAGS, SET_KEY_TYPE, SET_KEY_LEN)}
    types: list[str] = []
    rest = numbers[SET_KEY_TYPE]
    while rest:
        types.insert(0, _TYPE_NAMES.get(rest & (1 << _TYPE_BITS) - 1, ""))
        rest >>= _TYPE_BITS
    value = NftSet(tuple(types), bool(numbers[SET_FLAGS] & SET_INTERVAL))
    limits = attributes(fields.get(SET_DESC, b"")).keys() - {SET_DESC_CONCAT}
    try:
        return value if _header(value) == numbers and not limits else FOREIGN
    except ValueError:
        return FOREIGN


def encode_element(value: NftSet, fields: tuple[str, ...]) -> bytes:
    """Return an element, as one or two members of the list of elements.

    Raises:
        ValueError: a field has another type than the set, or is not canonical.
    """
    if fields == CATCHALL:
        return _element(None, ELEM_CATCHALL)
    if len(fields) != len(value.types) or not value.types or any(name not in _TYPES for name in value.types):
        raise ValueError(f"{' . '.join(fields)} does not fit into a set of type {' . '.join(value.types)}")
    types = [_TYPES[name] for name in value.types]
    try:
        if not value.interval:
            return _element(_joined(types, [type_.format.pack(text) for type_, text in zip(types, fields)]))
        ends = [_ends(type_, text) for type_, text in zip(types, fields)]
    except (ValueError, LookupError, OSError) as error:
        raise ValueError(f"{' . '.join(fields)} cannot be an element: {error}") from None
    first, last = _joined(types, [low for low, _high in ends]), _joined(types, [high for _low, high in ends])
    if len(types) > 1:
        return _element(first, 0, last)
    behind = int.from_bytes(last, "big") + 1
    if behind >> 8 * len(last):
        return _element(first)
    return _element(first) + _element(behind.to_bytes(len(last), "big"), ELEM_INTERVAL_END)


def decode_elements(key: SetKey, value: NftSet, lists: Iterable[bytes]) -> dict[ElementKey, str]:
    """Return the elements in the payloads of NFTA_SET_ELEM_LIST_ELEMENTS of one set.

    Raises:
        LookupError, ValueError, struct.error: a list is malformed, or a key has another size than the set's type.
    """
    types = [_TYPES[name] for name in value.types]
    size = sum(type_.size + len(type_.padding) for type_ in types) if len(types) > 1 else types[0].size
    raw = [_read(item, size) for payload in lists for item in elements(payload)]
    decoded: dict[ElementKey, str] = {}
    if any(flags & ELEM_CATCHALL for _first, _last, flags in raw):
        decoded[ElementKey(key, CATCHALL)] = ""
        raw = [item for item in raw if not item[2] & ELEM_CATCHALL]
    make = tuple.__new__
    if not value.interval:
        for first, _last, _flags in raw:
            texts = tuple([type_.format.unpack(part) for type_, part in zip(types, _split(types, first))])
            decoded[make(ElementKey, (key, texts))] = ""
        return decoded
    for first, last in _ranges(raw, size) if len(types) == 1 else [item[:2] for item in raw]:
        parts = zip(types, _split(types, first), _split(types, last))
        decoded[ElementKey(key, tuple([_text(type_, low, high) for type_, low, high in parts]))] = ""
    return decoded


def _header(value: NftSet) -> dict[int, int]:
    """Return flags, key type and key length of a set.

    Raises:
        ValueError: a type is unknown, or there are none or too many.
    """
    if not 0 < len(value.types) <= _MOST_FIELDS or any(name not in _TYPES for name in value.types):
        raise ValueError(f"a set of type {' . '.join(value.types)} cannot be written")
    types = [_TYPES[name] for name in value.types]
    concatenated = len(types) > 1
    return {
        SET_FLAGS: (SET_INTERVAL | SET_CONCAT if concatenated else SET_INTERVAL) if value.interval else 0,
        SET_KEY_TYPE: reduce(lambda number, type_: number << _TYPE_BITS | type_.number, types, 0),
        SET_KEY_LEN: sum(type_.size + len(type_.padding) for type_ in types) if concatenated else types[0].size,
    }


def _element(first: bytes | None, flags: int = 0, last: bytes | None = None) -> bytes:
    data = attribute(SET_ELEM_FLAGS, U32.pack(flags)) if flags else b""
    if first is not None:
        data += nested(SET_ELEM_KEY, attribute(DATA_VALUE, first))
    if last is not None:
        data += nested(SET_ELEM_KEY_END, attribute(DATA_VALUE, last))
    return nested(LIST_ELEM, data)


def _read(item: bytes, size: int) -> tuple[bytes, bytes, int]:
    """Return the first key, the last key and the flags of an element."""
    fields = attributes(item)
    (flags,) = U32.unpack(fields[SET_ELEM_FLAGS]) if SET_ELEM_FLAGS in fields else (0,)
    if flags & ELEM_CATCHALL:
        return b"", b"", flags
    first = attributes(fields[SET_ELEM_KEY])[DATA_VALUE]
    last = attributes(fields[SET_ELEM_KEY_END])[DATA_VALUE] if SET_ELEM_KEY_END in fields else first
    if len(first) != size or len(last) != size:
        raise ValueError(f"key of {len(first)} and {len(last)} bytes, expected {size}")
    return first, last, flags


def _joined(types: list[_Type], parts: list[bytes]) -> bytes:
    if len(types) == 1:
        return parts[0]
    return b"".join([part + type_.padding for type_, part in zip(types, parts)])


def _split(types: list[_Type], key: bytes) -> list[bytes]:
    """Return the fields of a key."""
    parts, start = [], 0
    for type_ in types:
        parts.append(key[start : start + type_.size])
        start += type_.size + len(type_.padding)
    return parts


def _ranges(raw: Iterable[tuple[bytes, bytes, int]], size: int) -> list[tuple[bytes, bytes]]:
    """Return first and last value of each range in a set of one field; a range without an end goes up to the last."""
    ranges: list[tuple[bytes, bytes]] = []
    begun: bytes | None = None
    for key, _last, flags in sorted(raw, key=lambda item: (item[0], not item[2] & ELEM_INTERVAL_END)):
        if begun is not None and key > begun:
            ranges.append((begun, (int.from_bytes(key, "big") - 1).to_bytes(size, "big")))
            begun = None
        if not flags & ELEM_INTERVAL_END:
            begun = key
    if begun is not None:
        ranges.append((begun, b"\xff" * size))
    return ranges


def _ends(type_: _Type, text: str) -> tuple[bytes, bytes]:
    """Return both ends of the range that a text describes.

    Raises:
        ValueError, LookupError, OSError: it is no canonical value, network or range of the type.
    """
    address, slash, length = text.partition("/")
    low, hyphen, high = ("", "", "") if text in PROTOCOLS else text.partition("-")
    if slash and type_.is_address:
        first = type_.format.pack(address)
        hosts = (1 << max(8 * type_.size - decimal(length), 0)) - 1
        ends = first, (int.from_bytes(first, "big") | hosts).to_bytes(type_.size, "big")
    elif hyphen:
        ends = _pack_end(type_, low), _pack_end(type_, high)
    else:
        ends = (type_.format.pack(text),) * 2
    if ends[0] > ends[1] or _text(type_, *ends) != text:
        raise ValueError(f"{text} is not canonical")
    return ends


def _text(type_: _Type, low: bytes, high: bytes) -> str:
    """Return a value, a network or a range."""
    if low == high:
        return type_.format.unpack(low)
    first, last = int.from_bytes(low, "big"), int.from_bytes(high, "big")
    bits = (first ^ last).bit_length()
    hosts = (1 << bits) - 1
    if type_.is_address and first & hosts == 0 and last & hosts == hosts:
        return f"{type_.format.unpack(low)}/{8 * type_.size - bits}"
    if type_.is_address:
        return f"{type_.format.unpack(low)}-{type_.format.unpack(high)}"
    return f"{first}-{last}"


def _pack_end(type_: _Type, text: str) -> bytes:
    if type_.is_address:
        return type_.format.pack(text)
    number = decimal(text)
    if number >> 8 * type_.size:
        raise ValueError(f"{text} is out of range")
    return number.to_bytes(type_.size, "big")
