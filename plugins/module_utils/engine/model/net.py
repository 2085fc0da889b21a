# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and networks as canonical text, the way the kernel's tools print them.

Uses the C library instead of :mod:`ipaddress`: it is ten times faster, and a large cluster has a hundred thousand
addresses.
"""

from __future__ import annotations

import re
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

from ..errors import shown

EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}  # the network of all addresses
# characters; an IPv6 address with an embedded IPv4 address has 45, the rest allows leading zeros
LONGEST_ADDRESS = 100
# prefix of the canonical text of IPv4-mapped addresses; addresses without a dot may have it, too
MAPPED = "::ffff:"
_MAPPED_BITS = 96
_PADDING = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


def family(address: str) -> int:
    """Return 4 or 6, by the spelling of ``address`` alone."""
    return 6 if ":" in address else 4


def canonical(address: object) -> str:
    """Return the canonical text of an IPv4 or IPv6 address.

    Raises:
        ValueError: ``address`` is not one (leading zeros, zones and prefixes included).
    """
    if not isinstance(address, str) or len(address) > LONGEST_ADDRESS:
        raise ValueError(f"{shown(address)} is not an IP address")
    try:
        if ":" in address:
            return inet_ntop(AF_INET6, inet_pton(AF_INET6, address))
        return inet_ntop(AF_INET, inet_pton(AF_INET, address))
    except (OSError, UnicodeEncodeError):
        raise ValueError(f"{address!r} is not an IP address") from None


def unmapped(address: str) -> str:
    """Return the IPv4 address in a canonical IPv4-mapped one, and any other address unchanged.

    Go's net.IP has the same text for both.
    """
    return address[len(MAPPED) :] if address.startswith(MAPPED) and "." in address else address


def lenient(address: object) -> tuple[str, bool]:
    """Return an address as kube-proxy reads it, canonical, and whether it was spelled plainly.

    Two spellings are not plain: numbers with leading zeros, which count as decimal, and IPv4-mapped addresses, which
    count as IPv4 (kubernetes: ParseIPSloppy).

    Raises:
        ValueError: not an address in this sense either.
    """
    try:
        text, plain = canonical(address), True
    except ValueError:
        if not isinstance(address, str) or len(address) > LONGEST_ADDRESS:
            raise
        text, plain = canonical(_PADDING.sub("", address)), False
    inner = unmapped(text)
    return inner, plain and inner == text


def lenient_network(cidr: str) -> tuple[str, bool]:
    """Return a network as kube-proxy reads it (kubernetes: ParseCIDRSloppy), and whether it is spelled plainly.

    The network has the form that :func:`network` returns.

    Raises:
        ValueError: not an address with a prefix length.
    """
    try:
        text, plain = network(cidr), True
    except ValueError:
        if len(cidr) > LONGEST_ADDRESS:
            raise
        text, plain = network(_PADDING.sub("", cidr)), False
    base, _slash, length = text.partition("/")
    if "/" not in cidr:
        raise ValueError(f"{cidr!r} has no prefix length")
    inner = unmapped(base)
    if inner == base or int(length) < _MAPPED_BITS:
        return text, plain
    return f"{inner}/{int(length) - _MAPPED_BITS}", False


def pack(address: str) -> bytes:
    """Return the 4 or 16 bytes of an address, in network order."""
    return inet_pton(AF_INET6 if ":" in address else AF_INET, address)


def unpack(raw: bytes) -> str:
    """Return the canonical text of 4 or 16 bytes."""
    return inet_ntop(AF_INET if len(raw) == 4 else AF_INET6, raw)


def full_prefix(fam: int) -> int:
    """Return the prefix length of a single address: 32 or 128."""
    return 128 if fam == 6 else 32


def network(cidr: str, strict: bool = False) -> str:
    """Return ``cidr`` canonical, with its host bits cleared and always with a prefix length.

    Raises:
        ValueError: not an address with a prefix length; or, if ``strict``, host bits are set.
    """
    if len(cidr) > LONGEST_ADDRESS:
        raise ValueError(f"{shown(cidr)} is not a network")
    address, slash, length = cidr.partition("/")
    try:
        raw = pack(address)
    except (OSError, UnicodeEncodeError):
        raise ValueError(f"{address!r} is not an IP address") from None
    bits = len(raw) * 8
    if slash and not (
        len(length) <= 3 and length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    ):
        raise ValueError(f"{cidr!r} has no valid prefix length")
    prefix = int(length) if slash else bits
    if prefix > bits:
        raise ValueError(f"{cidr!r} has a prefix length over {bits}")
    number = int.from_bytes(raw, "big")
    masked = number >> (bits - prefix) << (bits - prefix)
    if strict and masked != number:
        raise ValueError(f"{cidr!r} has host bits set")
    return f"{unpack(masked.to_bytes(len(raw), 'big'))}/{prefix}"


def contains(net: str, address: str) -> bool:
    """Tell whether the canonical network ``net`` contains ``address``; different families never do."""
    base, _slash, length = net.partition("/")
    raw, other = pack(base), pack(address)
    if len(raw) != len(other):
        return False
    shift = len(raw) * 8 - int(length)
    return int.from_bytes(raw, "big") >> shift == int.from_bytes(other, "big") >> shift


def overlap(one: str, other: str) -> bool:
    """Tell whether two canonical networks have an address in common."""
    return contains(one, other.partition("/")[0]) or contains(other, one.partition("/")[0])
