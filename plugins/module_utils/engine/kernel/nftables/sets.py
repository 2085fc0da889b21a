# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets without their elements as attributes of the kernel, and back."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from ...model.nftables import NftSet, SetKey
from ..netlink import attribute, attributes, string_attribute
from .fields import ADDRESS4, ADDRESS6, PORT, PROTOCOL, Format
from .protocol import (
    HOST32,
    LIST_ELEM,
    REGISTER_BYTES,
    SET_CONCAT,
    SET_DESC,
    SET_DESC_CONCAT,
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
_TYPE_BITS = 6
_MOST_FIELDS = 5  # as many types fit into the number of the key's type
_KEY_BYTEORDER, _CONCATENATED, _BIG_ENDIAN = 0, 0, 2  # libnftables' note for itself: NFTNL_UDATA_SET_KEYBYTEORDER


class FieldType(NamedTuple):
    """Type of a field: its number in libnftables, its bytes, its values, and whether they may be networks."""

    number: int
    size: int
    format: Format
    is_address: bool = False

    @property
    def padding(self) -> bytes:
        """Bytes behind the value in a concatenation."""
        return bytes(-self.size % REGISTER_BYTES)


TYPES = {
    "ipv4_addr": FieldType(7, 4, ADDRESS4, True),
    "ipv6_addr": FieldType(8, 16, ADDRESS6, True),
    "inet_proto": FieldType(12, 1, PROTOCOL),
    "inet_service": FieldType(13, 2, PORT),
}
_TYPE_NAMES = {type_.number: name for name, type_ in TYPES.items()}


def encode_set(key: SetKey, value: NftSet, number: int) -> bytes:
    """Return the attributes that create a set; ``number`` identifies it within the transaction.

    Raises:
        ValueError: a type that no set of a service proxy has, or too many of them.
    """
    header = header_of(value)
    payload = string_attribute(SET_TABLE, key.table.name) + string_attribute(SET_NAME, key.name)
    payload += b"".join(attribute(kind, U32.pack(word)) for kind, word in header.items())
    payload += attribute(SET_ID, U32.pack(number))
    if header[SET_FLAGS] & SET_CONCAT:
        lengths = (U32.pack(TYPES[name].size) for name in value.types)
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
        return value if header_of(value) == numbers and not limits else FOREIGN
    except ValueError:
        return FOREIGN


def header_of(value: NftSet) -> dict[int, int]:
    """Return flags, key type and key length of a set.

    Raises:
        ValueError: a type is unknown, or there are none or too many.
    """
    if not 0 < len(value.types) <= _MOST_FIELDS or any(name not in TYPES for name in value.types):
        raise ValueError(f"a set of type {' . '.join(value.types)} cannot be written")
    types = [TYPES[name] for name in value.types]
    concatenated = len(types) > 1
    return {
        SET_FLAGS: (SET_INTERVAL | SET_CONCAT if concatenated else SET_INTERVAL) if value.interval else 0,
        SET_KEY_TYPE: reduce(lambda number, type_: number << _TYPE_BITS | type_.number, types, 0),
        SET_KEY_LEN: sum(type_.size + len(type_.padding) for type_ in types) if concatenated else types[0].size,
    }
