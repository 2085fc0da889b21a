# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of sets as ``ipset save`` prints them, from other spellings.

Spellings that depend on the node are left to ipset: names of services and hosts, ICMP types, rare protocols, and ranges
(which are several members).
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InputError
from ..model.ipset import IPSet
from ..model.member_options import OPTIONS, WITHOUT_VALUE, pairs
from ..model.net import canonical, network, pack
from .common import AskError, integer
from .ipset_header import LONGEST_TIMEOUT, PARTS, masked

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
_MOST = {"timeout": LONGEST_TIMEOUT, "packets": (1 << 64) - 1, "bytes": (1 << 64) - 1, "skbqueue": 65535}
_LONGEST_COMMENT = 255  # IPSET_MAX_COMMENT_SIZE
_WITH_ZERO_NETS = ("hash:net,iface", "hash:net,port,net")


class Member(NamedTuple):
    """A member's canonical text and its options, as ``ipset save`` prints them after ``add NAME``."""

    member: str
    options: str


class Speller:
    """Speller for the members of one set.

    Args:
        header: the set's header, canonical (:func:`~.ipset_header.header`).
        subject: the set's name in errors.
    """

    def __init__(self, header: IPSet, subject: str = "member") -> None:
        self.header = header
        self.subject = subject
        self._kinds = PARTS[header.type]
        self._six = header.option("family") == "inet6"
        self._full = "128" if self._six else "32"
        self._netmask = header.option("netmask")
        self._bitmask = header.option("bitmask")
        self._markmask = int(header.option("markmask", "0xffffffff"), 16)
        self._range = _range(header)
        self._has = {name for name, _value in header.options}
        self._spell = [getattr(self, f"_{kind}") for kind in self._kinds]
        self._implied = self._options("")

    def __call__(self, text: str) -> Member | None:
        """Return a member as ``ipset save`` prints it after ``ipset add``; None if only ipset knows.

        ``text`` is the member with its options as in ``ipset add``. The result also has the options that the header
        implies (its timeout, counters from 0).

        Raises:
            InputError: the set cannot have such a member.
        """
        member, _blank, options = text.strip().partition(" ")
        try:
            return Member(self._element(member), self._options(options.strip()) if options else self._implied)
        except AskError:
            return None

    def _element(self, text: str) -> str:
        parts = text.split(",", len(self._kinds) - 1)
        if len(parts) != len(self._kinds) and self.header.type != "bitmap:ip,mac":
            raise InputError(self.subject, "member", text, self.header.type.partition(":")[2])
        spelled = []
        for index, part in enumerate(parts):
            try:
                spelled.append(self._spell[index](part))
            except ValueError:
                expected = f"{_EXPECTED[self._kinds[index]]} instead of {part!r}"
                raise InputError(self.subject, "member", text, expected) from None
        return ",".join(spelled)

    def _ip(self, text: str) -> str:
        base, slash, _length = text.partition("/")
        address = self._address(base)
        if slash and int(network(text).partition("/")[2]) < int(self._netmask or self._full):
            raise AskError
        if self._range and not self._range[0] <= int.from_bytes(pack(address), "big") <= self._range[1]:
            self._refuse(text, f"an address within {self.header.option('range')}")
        if self._netmask:
            address = network(f"{address}/{self._netmask}").partition("/")[0]
        elif self._bitmask:
            address = masked(address, pack(self._bitmask))
        if address in ("0.0.0.0", "::") and self.header.type == "hash:ip":
            self._refuse(text, "another address: hash:ip cannot hold that one")
        return address

    def _refuse(self, text: str, expected: str) -> None:
        raise InputError(self.subject, "member", text, expected)

    def _net(self, text: str) -> str:
        base, slash, length = text.partition("/")
        address = self._address(base)
        if self._netmask or self._bitmask:
            raise AskError
        if not slash:
            return address
        spelled = network(f"{address}/{length}")
        if length == "0" and self.header.type not in _WITH_ZERO_NETS:
            self._refuse(text, f"a prefix length of at least 1: {self.header.type} cannot hold /0 (two halves can)")
        return address if length == self._full else spelled

    def _address(self, text: str) -> str:
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        if "-" in text:
            for part in text.split("-"):
                self._address(part)
            raise AskError
        if (":" in text) != self._six:
            raise ValueError("the other family")
        return canonical(text)

    def _port(self, text: str) -> str:
        protocol, colon, port = text.rpartition(":")
        if not colon:
            protocol = "tcp"
        name = _PROTOCOLS.get(protocol.lower())
        if name is None:
            if not protocol.replace("-", "").isalnum():
                raise ValueError("no protocol")
            raise AskError
        return f"{name}:{self._number(port)}"

    def _number(self, text: str) -> str:
        if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
            if int(text) > 65535:
                raise ValueError("over 65535")
            if self._range and not self._range[0] <= int(text) <= self._range[1]:
                self._refuse(text, f"a port within {self.header.option('range')}")
            return text
        if text[:1].isalnum() and text.isascii():
            raise AskError  # a range or the name of a service
        raise ValueError("no port")

    def _mark(self, text: str) -> str:
        number = integer(text)
        if number is None or number >> 32:
            raise ValueError("no mark")
        return f"{number & self._markmask:#010x}"

    def _mac(self, text: str) -> str:
        parts = text.split(":")
        if len(parts) != 6 or not all(1 <= len(part) <= 2 and _HEX.issuperset(part) for part in parts):
            raise ValueError("no MAC address")
        spelled = ":".join(part.upper().rjust(2, "0") for part in parts)
        if spelled == "00:00:00:00:00:00" and self.header.type == "hash:mac":
            self._refuse(text, "another address: hash:mac cannot hold that one")
        return spelled

    def _set(self, text: str, longest: int = 31) -> str:
        if not 1 <= len(text.encode("utf-8", "surrogateescape")) <= longest:
            raise ValueError("no name")
        return text

    def _iface(self, text: str) -> str:
        bridge = "physdev:" if text.startswith("physdev:") else ""
        return bridge + self._set(text[len(bridge) :], 15)

    def _options(self, text: str) -> str:
        try:
            given = dict(pairs(text))
        except ValueError as error:
            raise InputError(self.subject, "options", text, f"options of ipset add ({error})") from None
        for name in given:
            if name not in OPTIONS or (name == "wildcard" and self.header.type != "hash:net,iface"):
                raise InputError(self.subject, "option", name, "one of " + ", ".join(OPTIONS))
            if OPTIONS[name] and OPTIONS[name] not in self._has:
                raise InputError(self.subject, "option", name, f"a set that is made with {OPTIONS[name]}")
            if name == "nomatch" and "net" not in self.header.type:
                raise InputError(self.subject, "option", name, "a set of a type with networks")
        if "timeout" in self._has:
            given.setdefault("timeout", self.header.option("timeout"))
        if "counters" in self._has:
            given.setdefault("packets", "0")
            given.setdefault("bytes", "0")
        spelled = [_option(name, given[name], self.subject) for name in OPTIONS if name in given]
        return " ".join(option for option in spelled if option)


def _range(header: IPSet) -> tuple[int, int] | None:
    """Return the lowest and the highest port or address of a bitmap as numbers."""
    low, dash, high = header.option("range").partition("-")
    if not dash:
        return None
    if header.type == "bitmap:port":
        return int(low), int(high)
    return int.from_bytes(pack(low), "big"), int.from_bytes(pack(high), "big")


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


def _option(name: str, value: str, subject: str) -> str:
    if name in WITHOUT_VALUE:
        return name
    if name == "comment":
        try:
            size = len(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # JSON allows lone surrogates, which no tool can receive
            raise InputError(subject, name, ascii(value[:20]), "text that UTF-8 can say") from None
        if size > _LONGEST_COMMENT:
            raise InputError(subject, name, f"{value[:20]}…", f"at most {_LONGEST_COMMENT} bytes")
        return f'comment "{value}"' if value else ""
    if name in ("skbmark", "skbprio"):
        return _pair(name, value, subject)
    number = integer(value)
    if number is None or number > _MOST[name]:
        raise InputError(subject, name, value, f"a number of at most {_MOST[name]}")
    return "" if name == "skbqueue" and number == 0 else f"{name} {number}"


def _pair(name: str, value: str, subject: str) -> str:
    """Spell ``skbmark 0xMARK[/0xMASK]`` and ``skbprio MAJOR:MINOR``, both hexadecimal."""
    sign = "/" if name == "skbmark" else ":"
    first, separator, second = value.partition(sign)
    try:
        if name == "skbmark":
            if first[:2].lower() != "0x" or (separator and second[:2].lower() != "0x"):
                raise ValueError("not hexadecimal")
            mark, mask = int(first, 16), int(second, 16) if separator else 0xFFFFFFFF
            if not mark and not mask:
                return ""
            return f"skbmark {mark:#x}" + ("" if mask == 0xFFFFFFFF else f"/{mask:#x}")
        major, minor = int(first, 16), int(second, 16)
    except ValueError:
        raise InputError(
            subject, name, value, "0xMARK or 0xMARK/0xMASK" if name == "skbmark" else "MAJOR:MINOR"
        ) from None
    return f"skbprio {major:x}:{minor:x}" if major or minor else ""
