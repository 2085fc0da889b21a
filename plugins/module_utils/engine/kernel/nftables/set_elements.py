# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elements of sets as attributes of the kernel, and back.

An element of a set with ``flags interval`` is a range in each field: a concatenation has the keys of both ends. A set
of one field has two elements for it, and the second is the first value behind the range.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from struct import Struct
from typing import Callable

from ...model.nftables import ElementKey, NftSet, SetKey
from ..netlink import attribute, attributes
from .expressions import elements
from .fields import PROTOCOLS, decimal
from .protocol import (
    DATA_VALUE,
    ELEM_CATCHALL,
    ELEM_INTERVAL_END,
    LIST_ELEM,
    SET_ELEM_FLAGS,
    SET_ELEM_KEY,
    SET_ELEM_KEY_END,
    SET_KEY_LEN,
    U32,
    nested,
)
from .sets import TYPES, FieldType, header_of

CATCHALL = ("*",)  # the element that matches every other key
_REMEMBERED = 1024  # values of a field, and types of sets
_new_key = tuple.__new__  # half the time of the named tuple's own constructor


@lru_cache(_REMEMBERED)
def element_encoder(value: NftSet) -> Callable[[tuple[str, ...]], bytes]:
    """Return :func:`encode_element` for the elements of sets of one type: it takes a fifth of the time.

    It is remembered by the type: to make it takes as long as some elements.
    """
    types = [TYPES.get(name) for name in value.types]
    if value.interval or not types or None in types:
        return lambda fields: encode_element(value, fields)
    packers = [_padded(type_, len(types) > 1) for type_ in types if type_]
    count = len(packers)
    whole = _element(bytes(header_of(value)[SET_KEY_LEN]))
    head = whole[: len(whole) - (header_of(value)[SET_KEY_LEN] + 3 & ~3)]
    tail = bytes(-header_of(value)[SET_KEY_LEN] & 3)

    def encode(fields: tuple[str, ...]) -> bytes:
        if len(fields) == count:
            try:
                return b"".join([head, *[pack(text) for pack, text in zip(packers, fields)], tail])
            except (ValueError, LookupError, OSError):
                pass  # not canonical, or the catch-all element
        return encode_element(value, fields)

    return encode


@cache
def _padded(type_: FieldType, concatenated: bool) -> Callable[[str], bytes]:
    """Return the packing of one field, which remembers values: protocols and ports are few."""
    pack, padding = type_.format.pack, type_.padding if concatenated else b""
    if type_.is_address:
        return pack
    return lru_cache(_REMEMBERED)(lambda text: pack(text) + padding)


def encode_element(value: NftSet, fields: tuple[str, ...]) -> bytes:
    """Return an element, as one or two members of the list of elements.

    Raises:
        ValueError: a field has another type than the set, or is not canonical.
    """
    if fields == CATCHALL:
        return _element(None, ELEM_CATCHALL)
    if len(fields) != len(value.types) or not value.types or any(name not in TYPES for name in value.types):
        raise ValueError(f"{' . '.join(fields)} does not fit into a set of type {' . '.join(value.types)}")
    types = [TYPES[name] for name in value.types]
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
    types = [TYPES[name] for name in value.types]
    size = sum(type_.size + len(type_.padding) for type_ in types) if len(types) > 1 else types[0].size
    lists = list(lists)
    plain = None if value.interval else _plain(types, size, lists)
    if plain is not None:
        return {_new_key(ElementKey, (key, texts)): "" for texts in plain}
    raw = [_read(item, size) for payload in lists for item in elements(payload)]
    decoded: dict[ElementKey, str] = {}
    if any(flags & ELEM_CATCHALL for _first, _last, flags in raw):
        decoded[ElementKey(key, CATCHALL)] = ""
        raw = [item for item in raw if not item[2] & ELEM_CATCHALL]
    if not value.interval:
        for first, _last, _flags in raw:
            texts = tuple([type_.format.unpack(part) for type_, part in zip(types, _split(types, first))])
            decoded[ElementKey(key, texts)] = ""
        return decoded
    for first, last in _ranges(raw, size) if len(types) == 1 else [item[:2] for item in raw]:
        parts = zip(types, _split(types, first), _split(types, last))
        decoded[ElementKey(key, tuple([_text(type_, low, high) for type_, low, high in parts]))] = ""
    return decoded


def _plain(types: list[FieldType], size: int, lists: Iterable[bytes]) -> list[tuple[str, ...]] | None:
    """Return the fields of elements that have a key and nothing else, as nearly all have; None if others are there."""
    head = _element(bytes(size), nest=attribute)[: -size - (-size & 3)]
    padded = [type_.size + (len(type_.padding) if len(types) > 1 else 0) for type_ in types]
    parts = "".join(f"{type_.size}s{width - type_.size}x" for type_, width in zip(types, padded))
    layout = Struct(f"{len(head)}s{parts}{-size & 3}x")
    unpackers = [
        type_.format.unpack if type_.is_address else lru_cache(_REMEMBERED)(type_.format.unpack) for type_ in types
    ]
    plain: list[tuple[str, ...]] = []
    for payload in lists:
        if len(payload) % layout.size:
            return None
        for start, *keys in layout.iter_unpack(payload):
            if start != head:
                return None
            plain.append(tuple([unpack(part) for unpack, part in zip(unpackers, keys)]))
    return plain


def _element(
    first: bytes | None,
    flags: int = 0,
    last: bytes | None = None,
    nest: Callable[[int, bytes], bytes] = nested,
) -> bytes:
    """Return an element with the keys of both ends; the kernel's own have no flag for nested attributes (``nest``)."""
    data = attribute(SET_ELEM_FLAGS, U32.pack(flags)) if flags else b""
    if first is not None:
        data += nest(SET_ELEM_KEY, attribute(DATA_VALUE, first))
    if last is not None:
        data += nest(SET_ELEM_KEY_END, attribute(DATA_VALUE, last))
    return nest(LIST_ELEM, data)


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


def _joined(types: list[FieldType], parts: list[bytes]) -> bytes:
    if len(types) == 1:
        return parts[0]
    return b"".join([part + type_.padding for type_, part in zip(types, parts)])


def _split(types: list[FieldType], key: bytes) -> list[bytes]:
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


def _ends(type_: FieldType, text: str) -> tuple[bytes, bytes]:
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


def _text(type_: FieldType, low: bytes, high: bytes) -> str:
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


def _pack_end(type_: FieldType, text: str) -> bytes:
    if type_.is_address:
        return type_.format.pack(text)
    number = decimal(text)
    if number >> 8 * type_.size:
        raise ValueError(f"{text} is out of range")
    return number.to_bytes(type_.size, "big")
