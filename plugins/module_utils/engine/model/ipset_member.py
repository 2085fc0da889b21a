# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of sets as ``ipset save`` prints them, from the spellings that people use.

Only what one can know without asking the node: names of services and hosts, ICMP types, protocols beyond the usual ones and
ranges (which are several members) are left to ipset itself.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from ..errors import InputError
from .ipset import IPSet
from .ipset_header import PARTS, masked
from .net import canonical, network, pack
from .spelling import AskError, integer

_PROTOCOLS = {
    "tcp": "tcp",
    "udp": "udp",
    "sctp": "sctp",
    "udplite": "udplite",
    "6": "tcp",
    "17": "udp",
    "132": "sctp",
    "136": "udplite",
}
_HEX = frozenset("0123456789abcdefABCDEF")
# Options of a member in the order of ``ipset save``: the header's flag that each needs.
OPTIONS = {
    "timeout": "timeout",
    "nomatch": "",
    "wildcard": "",
    "packets": "counters",
    "bytes": "counters",
    "comment": "comment",
    "skbmark": "skbinfo",
    "skbprio": "skbinfo",
    "skbqueue": "skbinfo",
}
_BARE = ("nomatch", "wildcard")


class Member(NamedTuple):
    """A member's canonical text and its options, as ``ipset save`` prints them behind ``add NAME``."""

    member: str
    options: str


def canonical_member(header: IPSet, text: str, subject: str = "member") -> Member | None:
    """Return what ``ipset save`` prints for a member after ``ipset add``; None if only ipset itself can tell.

    Options that the header implies (its timeout, counters from 0) are there even if ``text`` has none.

    Args:
        header: the set's header, canonical (:func:`~.ipset_header.header`).
        text: the member and its options in the words of ``ipset add``.
        subject: how to call the set in errors.

    Raises:
        InputError: it cannot be a member of such a set.
    """
    member, _blank, options = text.strip().partition(" ")
    try:
        return Member(_element(header, member, subject), _options(header, options.strip(), subject))
    except AskError:
        return None


def same_options(have: str, want: str) -> bool:
    """Tell whether a member's options are as wanted, but for what the kernel counts: packets, bytes and the time that is left."""
    try:
        return have == want or steady(have) == steady(want)
    except ValueError:
        return False


def steady(options: str) -> list[tuple[str, str]]:
    """Return the options that only somebody's wish changes; of a timeout that it runs."""
    kept = []
    for name, value in pairs(options):
        if name == "timeout":
            if value != "0":
                kept.append((name, ""))
        elif name not in ("packets", "bytes"):
            kept.append((name, value))
    return sorted(kept)


def pairs(options: str) -> list[tuple[str, str]]:
    """Take options apart; a comment may have blanks in its quotes.

    Raises:
        ValueError: an option without its value.
    """
    found = []
    rest = options.strip()
    while rest:
        name, _blank, rest = rest.partition(" ")
        value = ""
        if name not in _BARE:
            rest = rest.lstrip(" ")
            if rest.startswith('"'):
                value, quote, rest = rest[1:].partition('"')
                if not quote:
                    raise ValueError(f"{name} has no closing quote")
            else:
                value, _blank, rest = rest.partition(" ")
                if not value:
                    raise ValueError(f"{name} has no value")
        found.append((name, value))
        rest = rest.lstrip(" ")
    return found


def _element(header: IPSet, text: str, subject: str) -> str:
    kinds = PARTS[header.type]
    parts = text.split(",", len(kinds) - 1)
    if len(parts) != len(kinds) and header.type != "bitmap:ip,mac":
        raise InputError(subject, "member", text, f"{header.type.partition(':')[2]}")
    spelled = []
    for kind, part in zip(kinds, parts):
        try:
            spelled.append(_SPELL[kind](header, part))
        except ValueError:
            raise InputError(subject, "member", text, f"{_EXPECTED[kind]} instead of {part!r}") from None
    return ",".join(spelled)


def _ip(header: IPSet, text: str) -> str:
    base, slash, _length = text.partition("/")
    address = _address(header, base)
    prefix = header.option("netmask")
    if slash and int(network(text).partition("/")[2]) < int(prefix or _full(header)):
        raise AskError
    if prefix:
        return network(f"{address}/{prefix}").partition("/")[0]
    mask = header.option("bitmask")
    return masked(address, pack(mask)) if mask else address


def _net(header: IPSet, text: str) -> str:
    base, slash, length = text.partition("/")
    address = _address(header, base)
    if header.option("netmask") or header.option("bitmask"):
        raise AskError
    if not slash:
        return address
    spelled = network(f"{address}/{length}")
    return address if length == _full(header) else spelled


def _address(header: IPSet, text: str) -> str:
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if "-" in text:
        for part in text.split("-"):
            _address(header, part)
        raise AskError
    if (":" in text) != (header.option("family") == "inet6"):
        raise ValueError("the other family")
    return canonical(text)


def _full(header: IPSet) -> str:
    return "128" if header.option("family") == "inet6" else "32"


def _port(header: IPSet, text: str) -> str:
    protocol, colon, port = text.rpartition(":")
    if not colon:
        protocol = "tcp"
    name = _PROTOCOLS.get(protocol.lower())
    if name is None:
        if not protocol.replace("-", "").isalnum():
            raise ValueError("no protocol")
        raise AskError
    return f"{name}:{_number(header, port)}"


def _number(_header: IPSet, text: str) -> str:
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
        if int(text) > 65535:
            raise ValueError("over 65535")
        return text
    if text[:1].isalnum() and text.isascii():
        raise AskError  # a range or the name of a service
    raise ValueError("no port")


def _mark(header: IPSet, text: str) -> str:
    number = integer(text)
    if number is None or number >> 32:
        raise ValueError("no mark")
    return f"{number & int(header.option('markmask', '0xffffffff'), 16):#010x}"


def _mac(_header: IPSet, text: str) -> str:
    parts = text.split(":")
    if len(parts) != 6 or not all(1 <= len(part) <= 2 and _HEX.issuperset(part) for part in parts):
        raise ValueError("no MAC address")
    return ":".join(part.upper().rjust(2, "0") for part in parts)


def _name(_header: IPSet, text: str) -> str:
    if not 1 <= len(text.encode()) <= 31:
        raise ValueError("no name")
    return text


_SPELL: dict[str, Callable[[IPSet, str], str]] = {
    "ip": _ip,
    "net": _net,
    "port": _port,
    "number": _number,
    "mark": _mark,
    "mac": _mac,
    "iface": _name,
    "set": _name,
}
_EXPECTED = {
    "ip": "an address of the set's family",
    "net": "an address or network of the set's family",
    "port": "a port, or protocol:port",
    "number": "a port",
    "mark": "a mark of 32 bits",
    "mac": "a MAC address",
    "iface": "the name of an interface",
    "set": "the name of a set",
}


def _options(header: IPSet, text: str, subject: str) -> str:
    has = {name for name, _value in header.options}
    if not text and has.isdisjoint(("timeout", "counters")):
        return ""
    try:
        given = dict(pairs(text))
    except ValueError as error:
        raise InputError(subject, "options", text, f"options of ipset add ({error})") from None
    for name in given:
        if name in ("before", "after") and header.type == "list:set":
            raise AskError
        if name not in OPTIONS or (name == "wildcard" and header.type != "hash:net,iface"):
            raise InputError(subject, "option", name, "one of " + ", ".join(OPTIONS))
        if OPTIONS[name] and OPTIONS[name] not in has:
            raise InputError(subject, "option", name, f"a set that is made with {OPTIONS[name]}")
        if name == "nomatch" and "net" not in header.type:
            raise InputError(subject, "option", name, "a set of a type with networks")
    if "timeout" in has:
        given.setdefault("timeout", header.option("timeout"))
    if "counters" in has:
        given.setdefault("packets", "0")
        given.setdefault("bytes", "0")
    spelled = [_option(name, given[name], subject) for name in OPTIONS if name in given]
    return " ".join(option for option in spelled if option)


def _option(name: str, value: str, subject: str) -> str:
    if name in _BARE:
        return name
    if name == "comment":
        return f'comment "{value}"' if value else ""
    if name in ("skbmark", "skbprio"):
        return _pair(name, value, subject)
    number = integer(value)
    if number is None:
        raise InputError(subject, name, value, "a number")
    return "" if name == "skbqueue" and number == 0 else f"{name} {number}"


def _pair(name: str, value: str, subject: str) -> str:
    """Spell ``skbmark 0xMARK[/0xMASK]`` and ``skbprio MAJOR:MINOR``, both hexadecimal."""
    sign = "/" if name == "skbmark" else ":"
    first, found, second = value.partition(sign)
    try:
        if name == "skbmark":
            if first[:2].lower() != "0x" or (found and second[:2].lower() != "0x"):
                raise ValueError("not hexadecimal")
            mark, mask = int(first, 16), int(second, 16) if found else 0xFFFFFFFF
            if not mark and not mask:
                return ""
            return f"skbmark {mark:#x}" + ("" if mask == 0xFFFFFFFF else f"/{mask:#x}")
        major, minor = int(first, 16), int(second, 16)
    except ValueError:
        raise InputError(subject, name, value, "0xMARK or 0xMARK/0xMASK" if name == "skbmark" else "MAJOR:MINOR") from None
    return f"skbprio {major:x}:{minor:x}" if major or minor else ""
