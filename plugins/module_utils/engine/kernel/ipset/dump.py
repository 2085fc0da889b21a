# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read sets by nfnetlink, without starting a process: those of the types that a service proxy has.

``ipset save`` looks every protocol up in a file. With a thousand members of type ``hash:ip,port`` it takes ten times as
long as this, twice a minute. Other sets, for example with timeouts, are left to the tool.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Generator, Iterator
from errno import ENOENT
from socket import inet_ntop
from struct import Struct
from typing import Any

from ...model.ipset import IPSet, MemberKey
from ..fingerprint import Fingerprint
from ..netlink import AF_INET, AF_INET6, NETLINK_NETFILTER, NetlinkSocket, attributes, string_attribute
from ..nfnetlink.protocol import HEADER_BYTES
from .protocol import (
    ATTR_ADT,
    ATTR_BUCKETSIZE,
    ATTR_CIDR2,
    ATTR_DATA,
    ATTR_ELEMENTS,
    ATTR_FAMILY,
    ATTR_HASHSIZE,
    ATTR_INITVAL,
    ATTR_IP,
    ATTR_IP2,
    ATTR_IPADDR,
    ATTR_MAXELEM,
    ATTR_MEMSIZE,
    ATTR_PORT,
    ATTR_PORT_TO,
    ATTR_PROTO,
    ATTR_REFERENCES,
    ATTR_SETNAME,
    ATTR_TYPENAME,
    CMD_SAVE,
    PROTOCOLS,
    request,
)

_ADDRESS_FAMILIES = {number: family for family, number in ATTR_IPADDR.items()}
_FAMILY_NAMES = {AF_INET: "inet", AF_INET6: "inet6"}
_PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}
_SIZE = Struct("=H")
_U16 = Struct(">H")
_U32 = Struct(">I")
# Known attributes of a header, and of a member of each type. Any other attribute is an option that only the tool reads.
_HEADER = {ATTR_HASHSIZE, ATTR_MAXELEM, ATTR_INITVAL, ATTR_BUCKETSIZE, ATTR_ELEMENTS, ATTR_REFERENCES, ATTR_MEMSIZE}
_RANGE = {ATTR_PORT, ATTR_PORT_TO, ATTR_ELEMENTS, ATTR_REFERENCES, ATTR_MEMSIZE}
_MEMBERS = {
    "hash:ip": {ATTR_IP},
    "hash:ip,port": {ATTR_IP, ATTR_PORT, ATTR_PROTO},
    "hash:ip,port,ip": {ATTR_IP, ATTR_PORT, ATTR_PROTO, ATTR_IP2},
    "hash:ip,port,net": {ATTR_IP, ATTR_PORT, ATTR_PROTO, ATTR_IP2, ATTR_CIDR2},
    "bitmap:port": {ATTR_PORT},
}


class UnfamiliarError(Exception):
    """Only the tool can read this set."""


def read(names: Collection[str], use: Callable[[bytes], None] | None = None) -> dict[str, dict[Any, Any]]:
    """Return those of the named sets that exist, and their members, exactly as from ``ipset save``.

    ``use`` gets what the kernel sends.

    Raises:
        UnfamiliarError: a set cannot be read here; the tool can, or can say why not.
    """
    sets: dict[Any, Any] = {}
    members: dict[Any, Any] = {}
    try:
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            for name in names:
                payloads = _payloads(socket, name)
                if use is not None:
                    use(b"".join(payloads))
                if payloads:
                    _add(name, payloads, sets, members)
    except (OSError, KeyError, ValueError, IndexError, struct.error) as error:
        raise UnfamiliarError(str(error)) from error
    return {"set": sets, "member": members}


def reading_fingerprint(names: Collection[str]) -> Generator[None, None, bytes | None]:
    """Return a hash of all that the kernel shows of the named sets, a set in a slice; None if it cannot be read.

    It is that of :func:`read` of one name after the other. Each has its own socket, since the second dump of a socket
    comes in larger packets.
    """
    fingerprint = Fingerprint()
    try:
        for name in names:
            with NetlinkSocket(NETLINK_NETFILTER) as socket:
                fingerprint.add(b"".join(_payloads(socket, name)))
            yield
    except OSError:
        return None
    fingerprint.end()
    return fingerprint.value


def _payloads(socket: NetlinkSocket, name: str) -> list[bytes]:
    """Return the kernel's messages about a set; none if it is absent."""
    try:
        return socket.dump(request(CMD_SAVE, string_attribute(ATTR_SETNAME, name)))
    except OSError as error:
        if error.errno == ENOENT:
            return []
        raise


def _add(name: str, payloads: list[bytes], sets: dict[Any, Any], members: dict[Any, Any]) -> None:
    kind = ""
    make = tuple.__new__
    for payload in payloads:
        fields = attributes(payload, HEADER_BYTES)
        if ATTR_TYPENAME in fields:
            kind = fields[ATTR_TYPENAME].rstrip(b"\0").decode("ascii")
            if kind not in _MEMBERS:
                raise UnfamiliarError(f"set {name} has type {kind}")
            sets[name] = _header(kind, fields[ATTR_FAMILY][0], attributes(fields[ATTR_DATA]))
        if ATTR_ADT in fields:
            for text in _texts(kind, fields[ATTR_ADT]):
                members[make(MemberKey, (name, text))] = ""
    if name not in sets:
        raise UnfamiliarError(f"set {name} has no header")


def _header(kind: str, family: int, data: dict[int, bytes]) -> IPSet:
    if kind == "bitmap:port":
        if not data.keys() <= _RANGE:
            raise UnfamiliarError(f"options {sorted(data)}")
        return IPSet(kind, (("range", f"{_U16.unpack(data[ATTR_PORT])[0]}-{_U16.unpack(data[ATTR_PORT_TO])[0]}"),))
    if not data.keys() <= _HEADER:
        raise UnfamiliarError(f"options {sorted(data)}")
    options = [
        ("family", _FAMILY_NAMES[family]),
        ("hashsize", str(_U32.unpack(data[ATTR_HASHSIZE])[0])),
        ("maxelem", str(_U32.unpack(data[ATTR_MAXELEM])[0])),
    ]
    if ATTR_BUCKETSIZE in data:  # since Linux 5.11
        options.append(("bucketsize", str(data[ATTR_BUCKETSIZE][0])))
        options.append(("initval", f"{_U32.unpack(data[ATTR_INITVAL])[0]:#010x}"))
    return IPSet(kind, tuple(options))


def _texts(kind: str, raw: bytes) -> Iterator[str]:
    """Yield the canonical text of each member in a message."""
    allowed = _MEMBERS[kind]
    offset, end = 0, len(raw)
    while end - offset >= 4:
        (size,) = _SIZE.unpack_from(raw, offset)
        if size < 4 or offset + size > end:
            raise ValueError(f"a member of {size} bytes with {end - offset} left")
        fields = attributes(raw[offset + 4 : offset + size])
        offset += size + 3 & ~3
        if not fields.keys() <= allowed:
            raise UnfamiliarError(f"member with {sorted(fields)}")
        if kind == "bitmap:port":
            yield str(_U16.unpack(fields[ATTR_PORT])[0])
            continue
        text = _address(fields[ATTR_IP])
        if ATTR_PORT in allowed:
            text = f"{text},{_PROTOCOL_NAMES[fields[ATTR_PROTO][0]]}:{_U16.unpack(fields[ATTR_PORT])[0]}"
        if ATTR_IP2 in allowed:
            text = f"{text},{_address(fields[ATTR_IP2])}"
        if ATTR_CIDR2 in fields:
            length = fields[ATTR_CIDR2][0]
            if length != (128 if ":" in text[text.rindex(",") :] else 32):
                text = f"{text}/{length}"
        yield text


def _address(nested: bytes) -> str:
    addresses = attributes(nested)
    if len(addresses) != 1:
        raise ValueError(f"a member with {len(addresses)} addresses in one place")
    kind, raw = addresses.popitem()
    return inet_ntop(_ADDRESS_FAMILIES[kind], raw)
