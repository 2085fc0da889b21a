# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a set as ``ipset save`` prints it, from a task's options; see ipset(8)."""

from __future__ import annotations

from collections.abc import Mapping
from socket import AF_INET, AF_INET6, inet_ntop

from ..errors import InputError
from ..model.ipset import IPSet
from ..model.net import canonical, pack
from .common import integer

# Parts of the members of each type.
PARTS: dict[str, tuple[str, ...]] = {
    "bitmap:ip": ("ip",),
    "bitmap:ip,mac": ("ip", "mac"),
    "bitmap:port": ("number",),
    "hash:ip": ("ip",),
    "hash:ip,mac": ("ip", "mac"),
    "hash:ip,mark": ("ip", "mark"),
    "hash:ip,port": ("ip", "port"),
    "hash:ip,port,ip": ("ip", "port", "ip"),
    "hash:ip,port,net": ("ip", "port", "net"),
    "hash:mac": ("mac",),
    "hash:net": ("net",),
    "hash:net,iface": ("net", "iface"),
    "hash:net,net": ("net", "net"),
    "hash:net,port": ("net", "port"),
    "hash:net,port,net": ("net", "port", "net"),
    "list:set": ("set",),
}
_FLAGS = frozenset(("counters", "comment", "skbinfo", "forceadd"))
# The lowest and the highest value (the tool's limits).
LONGEST_TIMEOUT = 2147483
_NUMBERS = {
    "hashsize": (1, 0xFFFFFFFF),
    "maxelem": (0, 0xFFFFFFFF),
    "netmask": (1, 128),
    "timeout": (0, LONGEST_TIMEOUT),
    "bucketsize": (1, 255),
    "size": (0, 0xFFFFFFFF),
    "initval": (0, 0xFFFFFFFF),
    "markmask": (1, 0xFFFFFFFF),
}
_MOST_BITS = 64
_SMALLEST_LIST = 4  # IP_SET_LIST_MIN_SIZE: the kernel silently raises a smaller one
_COMMON = ("timeout", "counters", "comment", "skbinfo")
# The options of each method in the order of ``ipset save``, and their defaults.
_ORDER = {
    "hash": (
        "family",
        "markmask",
        "hashsize",
        "maxelem",
        "netmask",
        "bitmask",
        *_COMMON,
        "forceadd",
        "bucketsize",
        "initval",
    ),
    "bitmap": ("range", "netmask", *_COMMON),
    "list": ("size", *_COMMON),
}
_DEFAULTS = {"hash": {"family": "inet", "hashsize": "1024", "maxelem": "65536"}, "bitmap": {}, "list": {"size": "8"}}


def header(set_type: str, options: Mapping[str, object], subject: str = "set") -> IPSet:
    """Return the header of a set of this type.

    Args:
        set_type: for example ``hash:ip,port``.
        options: names and values as in ``ipset create``; flags such as ``counters`` are True, False or "".
        subject: the set's name in errors.

    Raises:
        InputError: an unknown type, an option that the type does not have, or an invalid value.
    """
    if set_type not in PARTS:
        raise InputError(subject, "type", set_type, "one of " + ", ".join(PARTS))
    method = set_type.partition(":")[0]
    allowed = [name for name in _ORDER[method] if _applies(name, set_type)]
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    for name in chosen:
        if name not in allowed:
            raise InputError(subject, "option", name, f"one of those of {set_type}: {', '.join(allowed)}")
    defaults: dict[str, object] = {name: value for name, value in _DEFAULTS[method].items() if name in allowed}
    if set_type == "hash:ip,mark":
        defaults["markmask"] = "0xffffffff"
    values = {**defaults, **chosen}
    if method == "bitmap" and "range" not in values:
        raise InputError(subject, "range", None, "the range of what the set can hold")
    six = values.get("family") == "inet6"
    spelled = []
    for name in allowed:
        if name in values:
            text = _spell(name, values[name], set_type, six, subject)
            if name != "netmask" or text != ("128" if six else "32"):
                spelled.append((name, text))
    return IPSet(set_type, tuple(spelled))


def _applies(name: str, set_type: str) -> bool:
    if name == "markmask":
        return set_type == "hash:ip,mark"
    if name == "family":
        return set_type != "hash:mac"
    if name in ("netmask", "bitmask"):
        return set_type in ("hash:ip", "hash:ip,port", "hash:net,net") or (
            name == "netmask" and set_type == "bitmap:ip"
        )
    return True


def _spell(name: str, value: object, set_type: str, six: bool, subject: str) -> str:
    if name in _FLAGS:
        if value not in (True, ""):
            raise InputError(subject, name, value, "true or false")
        return ""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python refuses to print very long ones
        raise InputError(subject, name, value, "a shorter number")
    text = str(value)
    if name in _NUMBERS:
        number = integer(text)
        low, high = _NUMBERS[name]
        if name == "netmask" and not six:
            high = 32
        if number is None or isinstance(value, bool) or not low <= number <= high:
            raise InputError(subject, name, value, f"a number between {low} and {high}")
        if name == "size":
            number = max(number, _SMALLEST_LIST)
        return f"{number:#010x}" if name in ("markmask", "initval") else str(number)
    if name == "family":
        if text not in ("inet", "inet6"):
            raise InputError(subject, name, value, "inet or inet6")
        return text
    if name == "range":
        spelled = _ports(text) if set_type == "bitmap:port" else _addresses(text)
        if not spelled:
            raise InputError(
                subject, name, value, "FROM-TO" + ("" if set_type == "bitmap:port" else " or NETWORK/PREFIX")
            )
        return spelled
    try:
        return canonical(text)
    except ValueError:
        raise InputError(subject, name, value, "a mask that looks like an address") from None


def _ports(text: str) -> str:
    low, dash, high = text.partition("-")
    first, last = integer(low), integer(high)
    if not dash or first is None or last is None or max(first, last) > 65535:
        return ""
    return f"{min(first, last)}-{max(first, last)}"


def _addresses(text: str) -> str:
    """Return ``FROM-TO`` of a range or network of IPv4 addresses (bitmaps have no others), or ""."""
    try:
        if "/" in text:
            base, _slash, length = text.partition("/")
            if not (length.isascii() and length.isdigit() and len(length) <= 2):  # a negative one would take all memory
                return ""
            host = (1 << (32 - int(length))) - 1
            low = int.from_bytes(pack(canonical(base)), "big") & ~host
            high = low | host
        else:
            low, high = (int.from_bytes(pack(canonical(part)), "big") for part in text.split("-"))
    except ValueError:
        return ""
    if max(low, high) >> 32:
        return ""
    return "-".join(inet_ntop(AF_INET, number.to_bytes(4, "big")) for number in sorted((low, high)))


def masked(address: str, mask: bytes) -> str:
    """Return an address with only the bits of ``mask``."""
    raw = pack(address)
    number = int.from_bytes(raw, "big") & int.from_bytes(mask, "big")
    return inet_ntop(AF_INET if len(raw) == 4 else AF_INET6, number.to_bytes(len(raw), "big"))
