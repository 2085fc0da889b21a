# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Encode virtual and real servers as netlink attributes, and decode them. Pure functions, no socket.

A virtual server with a value always carries scheduler, flags, timeout and netmask, which the kernel requires. A real
server with a value carries thresholds and tunnel.
"""

from __future__ import annotations

from socket import inet_pton
from struct import Struct

from ...model.ipvs import (
    FORWARDING_METHODS,
    HASHED,
    PROTOCOLS,
    TUNNEL_TYPES,
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
)
from ...model.net import pack as pack_address
from ...model.net import unpack as unpack_address
from ..genetlink import HEADER_BYTES
from ..netlink import AF_INET, AF_INET6, NLA_F_NESTED, attribute, attributes
from .attributes import Dest, Service, Top
from .limits import MAXIMUM_NAME, MAXIMUM_TIMEOUT

U8 = Struct("=B")
U16 = Struct("=H")
U32 = Struct("=I")
_I32 = Struct("=i")
_BE16 = Struct(">H")
_BE32 = Struct(">I")
_FLAGS = Struct("=II")

_ALL_FLAGS = 0xFFFFFFFF & ~HASHED
_PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}
_METHOD_NUMBERS = {name: number for number, name in enumerate(FORWARDING_METHODS)}
_TUNNEL_NUMBERS = {name: number for number, name in enumerate(TUNNEL_TYPES)}
_METHOD_MASK = 0x7
_NETMASKS = {prefix: _BE32.pack(0xFFFFFFFF << (32 - prefix) & 0xFFFFFFFF) for prefix in range(33)}
_NESTED_SERVICE = Top.SERVICE | NLA_F_NESTED
_NESTED_DEST = Top.DEST | NLA_F_NESTED


def pack_server(key: VirtualServerKey, value: VirtualServer | None = None) -> bytes:
    """Return the attribute SERVICE: the key, and with ``value`` also the settings.

    Raises:
        struct.error, KeyError, OSError, TypeError, ValueError: a field does not fit (:func:`~.limits.unfit` says
        which).
    """
    number = AF_INET6 if key.family == 6 else AF_INET
    family = U16.pack(number)
    if key.protocol == "fwmark":
        parts = [attribute(Service.AF, family), attribute(Service.FWMARK, U32.pack(key.port))]
    else:
        parts = [
            attribute(Service.AF, family),
            attribute(Service.PROTOCOL, U16.pack(PROTOCOLS[key.protocol])),
            attribute(Service.ADDR, inet_pton(number, key.address)),
            attribute(Service.PORT, _BE16.pack(key.port)),
        ]
    if value is not None:
        if value.timeout > MAXIMUM_TIMEOUT:
            raise ValueError("timeout")
        parts += [
            attribute(Service.SCHED_NAME, _pack_name(value.scheduler)),
            attribute(Service.FLAGS, _FLAGS.pack(value.flags & ~HASHED, _ALL_FLAGS)),
            attribute(Service.TIMEOUT, U32.pack(value.timeout)),
            attribute(Service.NETMASK, _pack_netmask(key.family, value.netmask)),
        ]
        if value.pe_name:
            parts.append(attribute(Service.PE_NAME, _pack_name(value.pe_name)))
    return attribute(_NESTED_SERVICE, b"".join(parts))


def pack_real(key: RealServerKey, value: RealServer | None = None) -> bytes:
    """Return the attribute DEST, without its virtual server: the key, and with ``value`` also the settings.

    Raises:
        struct.error, KeyError, OSError, TypeError, ValueError: a field does not fit (:func:`~.limits.unfit` says
        which).
    """
    parts = [
        attribute(Dest.ADDR, pack_address(key.address)),
        attribute(Dest.PORT, _BE16.pack(key.port)),
        attribute(Dest.ADDR_FAMILY, U16.pack(AF_INET6 if ":" in key.address else AF_INET)),
    ]
    if value is not None:
        parts += [
            attribute(Dest.FWD_METHOD, U32.pack(_METHOD_NUMBERS[value.forward])),
            attribute(Dest.WEIGHT, _I32.pack(value.weight)),
            attribute(Dest.U_THRESH, U32.pack(value.upper_threshold)),
            attribute(Dest.L_THRESH, U32.pack(value.lower_threshold)),
            attribute(Dest.TUN_TYPE, U8.pack(_TUNNEL_NUMBERS[value.tunnel_type])),
            attribute(Dest.TUN_PORT, _BE16.pack(value.tunnel_port)),
            attribute(Dest.TUN_FLAGS, U16.pack(value.tunnel_flags)),
        ]
    return attribute(_NESTED_DEST, b"".join(parts))


def body(payload: bytes, start: int = HEADER_BYTES) -> dict[int, bytes]:
    """Return the attributes inside the one attribute of a dumped SERVICE, DEST or DAEMON."""
    return attributes(payload, start + 4)


def unpack_server(fields: dict[int, bytes]) -> tuple[VirtualServerKey, VirtualServer]:
    """Return a virtual server from its attributes. Of a netmask with holes, the leading ones count."""
    family = 6 if U16.unpack(fields[Service.AF])[0] == AF_INET6 else 4
    if Service.FWMARK in fields:
        key = VirtualServerKey("fwmark", "", U32.unpack(fields[Service.FWMARK])[0], family)
    else:
        number = U16.unpack(fields[Service.PROTOCOL])[0]
        key = VirtualServerKey(
            _PROTOCOL_NAMES.get(number) or str(number),
            _unpack_address(family, fields[Service.ADDR]),
            _BE16.unpack(fields[Service.PORT])[0],
            family,
        )
    return key, VirtualServer(
        _text(fields[Service.SCHED_NAME]),
        _FLAGS.unpack(fields[Service.FLAGS])[0] & _ALL_FLAGS,
        U32.unpack(fields[Service.TIMEOUT])[0],
        _unpack_netmask(family, fields[Service.NETMASK]),
        _text(fields.get(Service.PE_NAME, b"")),
    )


def unpack_real(server: VirtualServerKey, fields: dict[int, bytes]) -> tuple[RealServerKey, RealServer]:
    """Return a real server of ``server`` from its attributes; those that old kernels lack have defaults."""
    family = server.family
    if Dest.ADDR_FAMILY in fields:
        family = 6 if U16.unpack(fields[Dest.ADDR_FAMILY])[0] == AF_INET6 else 4
    key = RealServerKey(server, _unpack_address(family, fields[Dest.ADDR]), _BE16.unpack(fields[Dest.PORT])[0])
    method = U32.unpack(fields[Dest.FWD_METHOD])[0] & _METHOD_MASK
    kind = fields.get(Dest.TUN_TYPE, b"\0")[0]
    return key, RealServer(
        _I32.unpack(fields[Dest.WEIGHT])[0],
        FORWARDING_METHODS[method] if method < len(FORWARDING_METHODS) else str(method),
        U32.unpack(fields[Dest.U_THRESH])[0],
        U32.unpack(fields[Dest.L_THRESH])[0],
        TUNNEL_TYPES[kind] if kind < len(TUNNEL_TYPES) else str(kind),
        _BE16.unpack(fields.get(Dest.TUN_PORT, b"\0\0"))[0],
        U16.unpack(fields.get(Dest.TUN_FLAGS, b"\0\0"))[0],
    )


def unpack_connections(fields: dict[int, bytes]) -> tuple[int, int, int]:
    """Return a real server's active, inactive and persistent connections."""
    numbers = [U32.unpack(fields[number])[0] for number in (Dest.ACTIVE_CONNS, Dest.INACT_CONNS, Dest.PERSIST_CONNS)]
    return numbers[0], numbers[1], numbers[2]


def _pack_name(name: str) -> bytes:
    if len(name) > MAXIMUM_NAME:
        raise ValueError("name")
    return name.encode("ascii") + b"\0"


def _pack_netmask(family: int, prefix: int) -> bytes:
    return U32.pack(prefix) if family == 6 else _NETMASKS[prefix]


def _unpack_netmask(family: int, raw: bytes) -> int:
    if family == 6:
        return int(U32.unpack(raw)[0])
    holes = ~_BE32.unpack(raw)[0] & 0xFFFFFFFF
    return 32 - int(holes).bit_length()


def _unpack_address(family: int, raw: bytes) -> str:
    return unpack_address(raw if family == 6 else raw[:4])  # the kernel always gives 16 bytes


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii", "replace")
