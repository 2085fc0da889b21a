# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets and elements as attributes of the kernel: recorded bytes, round trips by property, and hostile bytes."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nftables import addresses, networks

from kubenode.engine.kernel.netlink import attribute, attributes
from kubenode.engine.kernel.nftables.expressions import elements
from kubenode.engine.kernel.nftables.set_elements import CATCHALL, decode_elements, element_encoder, encode_element
from kubenode.engine.kernel.nftables.sets import FOREIGN, decode_set, encode_set
from kubenode.engine.model.nftables import ElementKey, NftSet, SetKey, TableKey

KEY = SetKey(TableKey("ip", "t"), "s")
SERVICE = NftSet(("ipv4_addr", "inet_proto", "inet_service"))
TYPES = ("ipv4_addr", "ipv6_addr", "inet_proto", "inet_service")
SETS = st.builds(NftSet, st.lists(st.sampled_from(TYPES), min_size=1, max_size=4).map(tuple), st.booleans())


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def values(type_: str, interval: bool) -> st.SearchStrategy[str]:
    if type_.startswith("ipv"):
        family = "ip6" if type_ == "ipv6_addr" else "ip"
        return addresses(family) | networks(family) if interval else addresses(family)
    most = 255 if type_ == "inet_proto" else 65535
    plain = (
        st.sampled_from(("tcp", "udp", "sctp", "ipv6-icmp", "200")) if most == 255 else st.integers(0, most).map(str)
    )
    ends = st.tuples(st.integers(0, most), st.integers(0, most)).filter(lambda pair: pair[0] < pair[1])
    return plain | ends.map(lambda pair: f"{pair[0]}-{pair[1]}") if interval else plain


MEMBERS = SETS.flatmap(
    lambda value: st.tuples(st.just(value), st.tuples(*(values(type_, value.interval) for type_ in value.types)))
)


def found(value: NftSet, raw: bytes) -> list[tuple[str, ...]]:
    return [key.fields for key in decode_elements(KEY, value, [raw])]


@given(SETS)
def test_decoding_a_set_undoes_encoding(value: NftSet) -> None:
    assert decode_set(attributes(encode_set(KEY, value, 1))) == value


@given(MEMBERS)
def test_decoding_an_element_undoes_encoding(case: tuple[NftSet, tuple[str, ...]]) -> None:
    value, fields = case
    assert found(value, encode_element(value, fields)) == [fields]


@given(SETS.flatmap(lambda value: st.tuples(st.just(value), st.lists(MEMBERS.map(lambda case: case[1]), max_size=5))))
def test_encoder_of_a_set_equals_encoding_of_each(case: tuple[NftSet, list[tuple[str, ...]]]) -> None:
    """Also for fields of other types, and for the catch-all element."""
    value, many = case
    encode = element_encoder(value)
    for fields in [*many, *many, CATCHALL]:
        try:
            expected: bytes | str = encode_element(value, fields)
        except ValueError as error:
            expected = str(error)
        try:
            encoded: bytes | str = encode(fields)
        except ValueError as error:
            encoded = str(error)
        assert encoded == expected


@pytest.mark.parametrize("position", [0, 1, 2, 3, None])
def test_keys_alone_and_with_other_attributes_are_read(position: int | None) -> None:
    """The kernel reports most elements as a key alone, and without the flag of nested attributes."""
    lists = []
    for index in range(4):
        raw = socket.inet_aton(f"10.0.0.{index}") + bytes((6, 0, 0, 0)) + struct.pack(">Hxx", 80)
        flags = attribute(3, number(0)) if index == position else b""
        lists.append(attribute(1, attribute(1, attribute(1, raw)) + flags))
    wanted = [(f"10.0.0.{index}", "tcp", "80") for index in range(4)]
    assert found(SERVICE, b"".join(lists)) == wanted
    assert [key.fields for key in decode_elements(KEY, SERVICE, lists)] == wanted


@given(SETS, st.lists(st.binary(max_size=200), max_size=3))
def test_hostile_elements_raise_documented_errors(value: NftSet, lists: list[bytes]) -> None:
    try:
        decode_elements(KEY, value, lists)
    except (LookupError, ValueError, struct.error):
        pass


@given(MEMBERS, st.integers(0, 1000), st.integers(0, 255))
def test_changed_byte_is_read_or_refused(case: tuple[NftSet, tuple[str, ...]], position: int, byte: int) -> None:
    raw = bytearray(encode_element(*case))
    raw[position % len(raw)] = byte
    try:
        decode_elements(KEY, case[0], [bytes(raw)])
    except (LookupError, ValueError, struct.error):
        pass


def test_set_is_written_as_libnftables_does() -> None:
    fields = attributes(encode_set(KEY, SERVICE, 7))
    assert (fields[4], fields[5], fields[10]) == (number(0x730D), number(12), number(7))
    assert 9 not in fields
    four = NftSet(("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), True)
    fields = attributes(encode_set(KEY, four, 8))
    assert (fields[3], fields[4], fields[5]) == (number(0x84), number(0x1CC347), number(16))
    lengths = [attributes(item)[1] for item in elements(attributes(fields[9])[2])]
    assert lengths == [number(4), number(1), number(2), number(4)]


@pytest.mark.parametrize(
    "fields",
    [
        {3: number(0x8), 4: number(7), 5: number(4)},  # a map
        {3: number(0x10), 4: number(7), 5: number(4)},  # with timeouts
        {4: number(9), 5: number(6)},  # ether_addr
        {4: number(7), 5: number(16)},
        {4: number(7), 5: number(4), 9: attribute(1, number(100))},  # of limited size
        {4: number(0xFFFFFFFF), 5: number(4)},
        {},
    ],
)
def test_set_of_another_form_is_foreign(fields: dict[int, bytes]) -> None:
    assert decode_set(fields) == FOREIGN


def test_ranges_of_one_field_are_pairs_of_elements() -> None:
    value = NftSet(("ipv4_addr",), True)
    wanted = [("0.0.0.0/8",), ("10.0.0.0/8",), ("11.0.0.0/8",), ("192.0.2.1",), ("255.0.0.0/8",)]
    packed = [encode_element(value, fields) for fields in wanted]
    assert [len(elements(raw)) for raw in packed] == [2, 2, 2, 2, 1]
    assert found(value, b"".join(reversed(packed))) == wanted


def test_unequal_ends_that_are_no_network_are_a_range() -> None:
    value = NftSet(("ipv4_addr", "inet_service"), True)
    fields = ("10.0.0.1-10.0.0.5", "80-90")
    assert found(value, encode_element(value, fields)) == [fields]


def test_catchall_element_is_read_and_written() -> None:
    assert found(SERVICE, encode_element(SERVICE, CATCHALL)) == [CATCHALL]
    assert ElementKey(KEY, CATCHALL) in decode_elements(KEY, SERVICE, [encode_element(SERVICE, CATCHALL)])


@pytest.mark.parametrize("key", [b"", bytes(11), bytes(13)])
def test_key_of_another_size_is_an_error(key: bytes) -> None:
    with pytest.raises(ValueError, match="expected 12"):
        found(SERVICE, attribute(1, attribute(1, attribute(1, key))))


@pytest.mark.parametrize("raw", [bytes(4), attribute(1, b"")[:3], attribute(2, b""), attribute(1, b"")])
def test_list_without_elements_is_an_error(raw: bytes) -> None:
    with pytest.raises((LookupError, ValueError)):
        found(SERVICE, raw)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (SERVICE, ("10.0.0.1", "tcp")),
        (SERVICE, ("fd00::1", "tcp", "80")),
        (SERVICE, ("10.0.0.0/8", "tcp", "80")),
        (SERVICE, ("10.0.0.1", "6", "80")),
        (SERVICE, ("10.0.0.1", "256", "80")),
        (SERVICE, ("10.0.0.1", "tcp", "http")),
        (NftSet(("ipv4_addr",), True), ("10.0.0.1/8",)),
        (NftSet(("ipv4_addr",), True), ("10.0.0.1/32",)),
        (NftSet(("ipv4_addr",), True), ("10.0.0.0/33",)),
        (NftSet(("ipv4_addr",), True), ("10.0.0.0/",)),
        (NftSet(("inet_service",), True), ("90-80",)),
        (NftSet(("inet_service",), True), ("80-65536",)),
        (NftSet(("inet_proto",), True), ("tcp-udp",)),
        (FOREIGN, ("a",)),
        (NftSet(()), ()),
    ],
    ids=str,
)
def test_element_that_is_not_canonical_is_an_error(value: NftSet, fields: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"cannot be an element|does not fit"):
        encode_element(value, fields)


@pytest.mark.parametrize("types", [(), ("foreign",), ("ipv4_addr",) * 6])
def test_set_of_unknown_types_is_an_error(types: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        encode_set(KEY, NftSet(types), 1)
