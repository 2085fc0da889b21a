# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets from the kernel itself (nfnetlink, linux/netfilter/ipset/ip_set.h), for the types that a service proxy has.

``ipset save`` looks every protocol up in a file: with a thousand members of type ``hash:ip,port`` it takes ten times as
long as this, twice a minute. Whatever is not known here, for example a set with timeouts, is left to it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from errno import ENOENT
from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from typing import Any

from ...model.ipset import IPSet, MemberKey
from ..netlink import NETLINK_NETFILTER, NetlinkSocket, attribute, attributes, message

_SAVE = 0x0608  # NFNL_SUBSYS_IPSET, IPSET_CMD_SAVE
_NFGENMSG_BYTES = 4
_PROTOCOL, _SETNAME, _TYPENAME, _FAMILY, _DATA, _ADT = 1, 2, 3, 5, 7, 8
_PROTOCOL_VERSION = 6  # the oldest that kernels speak; 7 adds indexes

_IP, _PORT, _PORT_TO, _PROTO = 1, 4, 5, 7
_INITVAL, _HASHSIZE, _MAXELEM, _BUCKETSIZE = 17, 18, 19, 21
_ELEMENTS, _REFERENCES, _MEMSIZE = 24, 25, 26
_IP2, _CIDR2 = 20, 21
_ADDRESS = {1: AF_INET, 2: AF_INET6}  # IPSET_ATTR_IPADDR_*

_FAMILIES = {2: "inet", 10: "inet6"}
_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
_SIZE = Struct("=H")
_U16 = Struct(">H")
_U32 = Struct(">I")
# What may be in a header, and in a member of each type: an attribute more is an option that is not known here.
_HEADER = {_HASHSIZE, _MAXELEM, _INITVAL, _BUCKETSIZE, _ELEMENTS, _REFERENCES, _MEMSIZE}
_RANGE = {_PORT, _PORT_TO, _ELEMENTS, _REFERENCES, _MEMSIZE}
_MEMBERS = {
    "hash:ip": {_IP},
    "hash:ip,port": {_IP, _PORT, _PROTO},
    "hash:ip,port,ip": {_IP, _PORT, _PROTO, _IP2},
    "hash:ip,port,net": {_IP, _PORT, _PROTO, _IP2, _CIDR2},
    "bitmap:port": {_PORT},
}


class UnfamiliarError(Exception):
    """There is something that only the tool can tell."""


def read(names: Collection[str]) -> dict[str, dict[Any, Any]]:
    """Return those of the named sets that exist, and their members, exactly as from ``ipset save``.

    Raises:
        UnfamiliarError: a set cannot be read here; the tool can, or can say why not.
    """
    sets: dict[Any, Any] = {}
    members: dict[Any, Any] = {}
    try:
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            for name in names:
                request = attribute(_PROTOCOL, bytes((_PROTOCOL_VERSION,))) + attribute(_SETNAME, name.encode() + b"\0")
                try:
                    payloads = socket.dump(message(_SAVE, 0, bytes((AF_INET, 0, 0, 0)) + request))
                except OSError as error:
                    if error.errno == ENOENT:
                        continue
                    raise
                _add(name, payloads, sets, members)
    except (OSError, KeyError, ValueError, IndexError, struct.error) as error:
        raise UnfamiliarError(str(error)) from error
    return {"set": sets, "member": members}


def _add(name: str, payloads: list[bytes], sets: dict[Any, Any], members: dict[Any, Any]) -> None:
    kind = ""
    make = tuple.__new__
    for payload in payloads:
        found = attributes(payload, _NFGENMSG_BYTES)
        if _TYPENAME in found:
            kind = found[_TYPENAME].rstrip(b"\0").decode("ascii")
            if kind not in _MEMBERS:
                raise UnfamiliarError(f"set {name} has type {kind}")
            sets[name] = _header(kind, found[_FAMILY][0], attributes(found[_DATA]))
        if _ADT in found:
            for text in _texts(kind, found[_ADT]):
                members[make(MemberKey, (name, text))] = ""
    if name not in sets:
        raise UnfamiliarError(f"set {name} has no header")


def _header(kind: str, family: int, data: dict[int, bytes]) -> IPSet:
    if kind == "bitmap:port":
        if not data.keys() <= _RANGE:
            raise UnfamiliarError(f"options {sorted(data)}")
        return IPSet(kind, (("range", f"{_U16.unpack(data[_PORT])[0]}-{_U16.unpack(data[_PORT_TO])[0]}"),))
    if not data.keys() <= _HEADER:
        raise UnfamiliarError(f"options {sorted(data)}")
    options = [
        ("family", _FAMILIES[family]),
        ("hashsize", str(_U32.unpack(data[_HASHSIZE])[0])),
        ("maxelem", str(_U32.unpack(data[_MAXELEM])[0])),
    ]
    if _BUCKETSIZE in data:  # since Linux 5.11
        options.append(("bucketsize", str(data[_BUCKETSIZE][0])))
        options.append(("initval", f"{_U32.unpack(data[_INITVAL])[0]:#010x}"))
    return IPSet(kind, tuple(options))


def _texts(kind: str, raw: bytes) -> Iterator[str]:
    """Yield the canonical text of each member in a message."""
    allowed = _MEMBERS[kind]
    offset, end = 0, len(raw)
    while end - offset >= 4:
        (size,) = _SIZE.unpack_from(raw, offset)
        if size < 4 or offset + size > end:
            raise ValueError(f"a member of {size} bytes with {end - offset} left")
        found = attributes(raw[offset + 4 : offset + size])
        offset += size + 3 & ~3
        if not found.keys() <= allowed:
            raise UnfamiliarError(f"member with {sorted(found)}")
        if kind == "bitmap:port":
            yield str(_U16.unpack(found[_PORT])[0])
            continue
        text = _address(found[_IP])
        if _PORT in allowed:
            text = f"{text},{_PROTOCOLS[found[_PROTO][0]]}:{_U16.unpack(found[_PORT])[0]}"
        if _IP2 in allowed:
            text = f"{text},{_address(found[_IP2])}"
        if _CIDR2 in found:
            length = found[_CIDR2][0]
            if length != (128 if ":" in text[text.rindex(",") :] else 32):
                text = f"{text}/{length}"
        yield text


def _address(nested: bytes) -> str:
    addresses = attributes(nested)
    if len(addresses) != 1:
        raise ValueError(f"a member with {len(addresses)} addresses in one place")
    kind, raw = addresses.popitem()
    return inet_ntop(_ADDRESS[kind], raw)
