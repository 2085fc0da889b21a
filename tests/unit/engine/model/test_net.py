# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and networks as kube-proxy reads them, compared with a second reading by Python's ipaddress."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.kube_proxy.sloppy import parse_cidr, parse_ip

from kubenode.engine.errors import MOST_SHOWN, InputError, shown
from kubenode.engine.model.net import LONGEST_ADDRESS, canonical, lenient, lenient_network, network, unmapped

FOUR = st.ip_addresses(v=4).map(str)
SIX = st.ip_addresses(v=6).map(str)
PADDED_FOUR = st.tuples(FOUR, st.integers(1, 10)).map(
    lambda pair: ".".join(part.zfill(pair[1]) for part in pair[0].split("."))
)
PADDED_SIX = st.tuples(st.ip_addresses(v=6), st.integers(1, 7)).map(
    lambda pair: ":".join(part.zfill(pair[1]) for part in pair[0].exploded.split(":"))
)
MAPPED = (FOUR | PADDED_FOUR).map(lambda ip: f"::ffff:{ip}")
ANY = FOUR | SIX | PADDED_FOUR | PADDED_SIX | MAPPED


@given(ANY)
def test_lenient_address_is_what_kube_proxy_reads(text: str) -> None:
    result, plain = lenient(text)
    assert result == parse_ip(text)
    assert canonical(result) == result
    assert lenient(result) == (result, True)
    if plain:
        assert result == canonical(text)


@given(ANY, st.integers(0, 128), st.integers(0, 4))
def test_lenient_network_is_what_kube_proxy_reads(text: str, length: int, zeros: int) -> None:
    bits = length if ":" in text else length % 33
    if bits < 96 and ":" in text and ":" not in parse_ip(text):
        bits = 96 + bits % 33  # a mapped address needs a prefix of 96 or longer
    cidr = f"{text}/{'0' * zeros}{bits}"
    result, plain = lenient_network(cidr)
    assert result == parse_cidr(cidr)
    assert network(result) == result
    assert lenient_network(result) == (result, True)
    if plain:
        assert result == network(cidr)


@given(st.text(max_size=60) | st.from_regex(r"[0-9a-f:./ ]{0,60}", fullmatch=True))
@example("1..2.3")
@example("0x10.0.0.1")
@example("::ffff:1.2.3.4\0")
@example("\u066010.0.0.1")
@example("0" * 5000)
@example("10.0.0.0/" + "9" * 5000)
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    for read in (lenient, lenient_network):
        try:
            result, _plain = read(text)
        except ValueError:
            continue
        assert len(text) <= LONGEST_ADDRESS
        assert (network if "/" in result else canonical)(result) == result


@pytest.mark.parametrize(
    ("cidr", "wanted"),
    [
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
        ("::ffff:10.0.0.0/95", "::fffe:0:0/95"),
        ("::ffff:10.0.0.0/64", "::/64"),
    ],
)
def test_network_is_ipv4_if_all_its_addresses_are_mapped(cidr: str, wanted: str) -> None:
    assert lenient_network(cidr)[0] == wanted


@pytest.mark.parametrize("address", ["::ffff:1", "::ffff:0:1.2.3.4", "64:ff9b::1.2.3.4", "::1.2.3.4", "ffff::1"])
def test_unmapped_leaves_other_addresses_alone(address: str) -> None:
    assert unmapped(canonical(address)) == canonical(address)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_shown_value_is_short_and_short_ones_are_whole(value: object) -> None:
    text = shown(value)
    assert len(text) <= 10 * MOST_SHOWN + 40  # a message shows at most this many characters; one may take ten in repr
    if len(repr(value)) <= MOST_SHOWN and "[[[[" not in repr(value).replace("{", "["):
        assert text == repr(value) or "..." in text


HUGE = {
    "integer": 10**5000,
    "negative": -(10**5000),
    "list": [10**5000],
    "mapping": {"a": 10**5000},
    "text": "x" * 10**6,
    "texts": [["x" * 10**6] * 10**4],
}


@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE.keys())
def test_shown_value_of_any_size_is_short(value: object) -> None:
    assert len(str(InputError("Service a/b", "spec", value, "less"))) < 2 * MOST_SHOWN
