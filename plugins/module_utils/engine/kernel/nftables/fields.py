# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of packets and connections that rules compare: the expression that loads each, and the form of its values."""

from __future__ import annotations

from functools import partial
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Callable, Literal, NamedTuple

from .expressions import Expression, make
from .protocol import HOST32, U16

_PAYLOAD_NETWORK, _PAYLOAD_TRANSPORT = 1, 2
_META = {"mark": 3, "iifname": 6, "oifname": 7, "l4proto": 16}
_CT = {"state": 0, "status": 2, "proto_dst": 12, "src_ip": 19, "dst_ip": 20, "src_ip6": 21, "dst_ip6": 22}
_CT_ORIGINAL = 0
_FIB_SADDR, _FIB_DADDR, _FIB_ADDRTYPE = 1, 2, 3
_LINK_NAME_BYTES = 16

# Values by their names in nft(8); other numbers are decimal.
PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "dccp": 33, "gre": 47, "esp": 50, "ah": 51, "ipv6-icmp": 58, "sctp": 132,
    "udplite": 136,
}  # fmt: skip
_ADDRESS_TYPES = {
    "unspec": 0, "unicast": 1, "local": 2, "broadcast": 3, "anycast": 4, "multicast": 5, "blackhole": 6,
    "unreachable": 7, "prohibit": 8,
}  # fmt: skip
_ICMP_TYPES = {
    "echo-reply": 0, "destination-unreachable": 3, "source-quench": 4, "redirect": 5, "echo-request": 8,
    "router-advertisement": 9, "router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12,
    "timestamp-request": 13, "timestamp-reply": 14, "info-request": 15, "info-reply": 16, "address-mask-request": 17,
    "address-mask-reply": 18,
}  # fmt: skip
_ICMPV6_TYPES = {
    "destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4, "echo-request": 128,
    "echo-reply": 129, "mld-listener-query": 130, "mld-listener-report": 131, "mld-listener-done": 132,
    "nd-router-solicit": 133, "nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136,
    "nd-redirect": 137,
}  # fmt: skip


class Format(NamedTuple):
    """Conversion of a field's values.

    ``pack`` raises ValueError, LookupError, OSError or struct.error for a text that is no value.
    """

    pack: Callable[[str], bytes]
    unpack: Callable[[bytes], str]


class Field(NamedTuple):
    """A field: the expression that loads it into the first register, its bytes, and its values.

    ``is_network`` if a value may be a network. ``is_partial`` if a whole number of bytes can be loaded alone.
    """

    load: Expression
    size: int
    format: Format
    is_network: bool = False
    is_partial: bool = False


def decimal(text: str) -> int:
    """Return a number from its canonical decimal text.

    Raises:
        ValueError: it is not one.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10) or str(int(text)) != text:
        raise ValueError(f"{text!r} is not a decimal number")
    return int(text)


def names(numbers: dict[str, int], size: int, order: Literal["little", "big"] = "big") -> Format:
    """Return the format of numbers with names."""
    by_number = {number: name for name, number in numbers.items()}

    def pack(text: str) -> bytes:
        number = numbers[text] if text in numbers else decimal(text)
        if text not in numbers and number in by_number:
            raise ValueError(f"{text} is written as {by_number[number]}")
        if number >= 1 << 8 * size:
            raise ValueError(f"{text} is out of range")
        return number.to_bytes(size, order)

    def unpack(raw: bytes) -> str:
        number = int.from_bytes(raw, order)
        return by_number.get(number) or str(number)

    return Format(pack, unpack)


def _pack_link(text: str) -> bytes:
    """Pack a name; ``eth*`` is the beginning of names, which the kernel compares in its length."""
    begins = len(text) > 1 and text.endswith("*")
    raw = (text[:-1] if begins else text).encode("utf-8", "surrogateescape")
    if not 0 < len(raw) < _LINK_NAME_BYTES or b"\0" in raw:
        raise ValueError(f"{text!r} is not the name of a link")
    return raw if begins else raw.ljust(_LINK_NAME_BYTES, b"\0")


def _unpack_link(raw: bytes) -> str:
    begins = len(raw) < _LINK_NAME_BYTES
    name = (raw if begins else raw.rstrip(b"\0")).decode("utf-8", "surrogateescape")
    if not begins and len(name) > 1 and name.endswith("*"):
        raise ValueError("a whole name that ends in an asterisk looks like the beginning of names")
    return f"{name}*" if begins else name


def _address_format(family: int) -> Format:
    def pack(text: str) -> bytes:
        raw = inet_pton(family, text)
        if inet_ntop(family, raw) != text:
            raise ValueError(f"{text!r} is not a canonical address")
        return raw

    return Format(pack, partial(inet_ntop, family))


ADDRESS4, ADDRESS6 = _address_format(AF_INET), _address_format(AF_INET6)
PROTOCOL = names(PROTOCOLS, 1)
PORT = Format(lambda text: U16.pack(decimal(text)), lambda raw: str(U16.unpack(raw)[0]))
_LINK = Format(_pack_link, _unpack_link)


def _payload(base: int, offset: int, size: int) -> Expression:
    return make("payload", dreg=1, base=base, offset=offset, len=size)


def _meta(key: str) -> Expression:
    return make("meta", dreg=1, key=_META[key])


def _original(key: str) -> Expression:
    return make("ct", dreg=1, key=_CT[key], direction=_CT_ORIGINAL)


def _type_of(flags: int) -> Field:
    return Field(make("fib", dreg=1, result=_FIB_ADDRTYPE, flags=flags), 4, names(_ADDRESS_TYPES, 4, _native()))


def _native() -> Literal["little", "big"]:
    return "little" if HOST32.pack(1)[0] else "big"


_COMMON = {
    "meta l4proto": Field(_meta("l4proto"), 1, PROTOCOL),
    "iifname": Field(_meta("iifname"), _LINK_NAME_BYTES, _LINK),
    "oifname": Field(_meta("oifname"), _LINK_NAME_BYTES, _LINK),
    "th dport": Field(_payload(_PAYLOAD_TRANSPORT, 2, 2), 2, PORT),
    "fib saddr type": _type_of(_FIB_SADDR),
    "fib daddr type": _type_of(_FIB_DADDR),
    "ct original proto-dst": Field(_original("proto_dst"), 2, PORT),
}

# Fields of Compare and Lookup, by the table's family.
FIELDS: dict[str, dict[str, Field]] = {
    "ip": {
        **_COMMON,
        "ip saddr": Field(_payload(_PAYLOAD_NETWORK, 12, 4), 4, ADDRESS4, True, True),
        "ip daddr": Field(_payload(_PAYLOAD_NETWORK, 16, 4), 4, ADDRESS4, True, True),
        "icmp type": Field(_payload(_PAYLOAD_TRANSPORT, 0, 1), 1, names(_ICMP_TYPES, 1)),
        "ct original ip saddr": Field(_original("src_ip"), 4, ADDRESS4, True),
        "ct original ip daddr": Field(_original("dst_ip"), 4, ADDRESS4, True),
    },
    "ip6": {
        **_COMMON,
        "ip6 saddr": Field(_payload(_PAYLOAD_NETWORK, 8, 16), 16, ADDRESS6, True, True),
        "ip6 daddr": Field(_payload(_PAYLOAD_NETWORK, 24, 16), 16, ADDRESS6, True, True),
        "icmpv6 type": Field(_payload(_PAYLOAD_TRANSPORT, 0, 1), 1, names(_ICMPV6_TYPES, 1)),
        "ct original ip6 saddr": Field(_original("src_ip6"), 16, ADDRESS6, True),
        "ct original ip6 daddr": Field(_original("dst_ip6"), 16, ADDRESS6, True),
    },
}

# Fields of Bits, in every family.
BIT_FIELDS = {
    "meta mark": _meta("mark"),
    "ct state": make("ct", dreg=1, key=_CT["state"]),
    "ct status": make("ct", dreg=1, key=_CT["status"]),
}
SET_MARK = make("meta", key=_META["mark"], sreg=1)
