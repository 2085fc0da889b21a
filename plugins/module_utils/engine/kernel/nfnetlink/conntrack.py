# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection tracking: list and delete UDP flows (ctnetlink, linux/netfilter/nfnetlink_conntrack.h).

With ``net.ipv4.vs.conntrack=1`` a flow through a virtual server has the virtual server as its original destination and
the real server as its reply source. A UDP flow does not end while its client keeps sending. So a flow whose real server
was removed must be deleted.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

from ...errors import KernelError, MissingError
from ...model.net import pack as pack_address
from ...model.net import unpack as unpack_address
from ..netlink import (
    ADDRESS_FAMILIES,
    ATTRIBUTE,
    NETLINK_NETFILTER,
    NLA_F_NESTED,
    NetlinkSocket,
    attribute,
    attributes,
)
from .protocol import HEADER_BYTES, NFNL_SUBSYS_CTNETLINK, request

UDP = 17

_GET, _DELETE = 1, 2  # IPCTNL_MSG_CT_*
_BE16 = Struct(">H")
_U32 = Struct("=I")
AddressPort = tuple[str, int]

_CTA_TUPLE_ORIG = 1
_CTA_TUPLE_REPLY = 2
_CTA_ID = 12
_CTA_ZONE = 18
_CTA_FILTER = 25  # since 5.8; older kernels ignore it and return every protocol

_CTA_TUPLE_IP = 1
_CTA_TUPLE_PROTO = 2
_CTA_IP_SOURCE = {4: 1, 6: 3}
_CTA_IP_DESTINATION = {4: 2, 6: 4}
_CTA_PROTO_NUM = 1
_CTA_PROTO_SRC_PORT = 2
_CTA_PROTO_DST_PORT = 3
_CTA_FILTER_ORIG_FLAGS = 1
_FILTER_PROTO_NUM = 1 << 3  # CTA_FILTER_F_CTA_PROTO_NUM

_MISSING = "connection tracking cannot be read: load the kernel module nf_conntrack_netlink"
_FORBIDDEN = "connection tracking may not be read: the capability CAP_NET_ADMIN is needed (run as root)"


class Flow(NamedTuple):
    """A UDP flow: its original destination, and the source of its replies. ``handle`` is for :func:`delete`."""

    family: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    reply_source: str
    reply_source_port: int
    handle: bytes


def udp_flows(family: int) -> list[Flow]:
    """Return all UDP flows of a family (4 or 6), of every zone.

    Raises:
        MissingError: no connection tracking, or no right to read it.
        KernelError: the conversation failed.
    """
    return [flow for part in reading_udp_flows(family) for flow in part]


def reading_udp_flows(family: int, to: Collection[AddressPort] | None = None) -> Generator[list[Flow], None, None]:
    """Read the UDP flows of a family in slices of one netlink packet, some hundred flows; yield each slice.

    Args:
        family: 4 or 6.
        to: original destinations; None for all. The kernel returns every UDP flow; skipping one costs a tenth of
            decoding it.

    Raises:
        MissingError: no connection tracking, or no right to read it.
        KernelError: the conversation failed, or an answer is malformed.
    """
    wanted = None if to is None else {pack_address(address) + _BE16.pack(port) for address, port in to}
    protocol = attribute(_CTA_TUPLE_PROTO | NLA_F_NESTED, attribute(_CTA_PROTO_NUM, bytes((UDP,))))
    payload = attribute(_CTA_TUPLE_ORIG | NLA_F_NESTED, protocol)
    payload += attribute(_CTA_FILTER | NLA_F_NESTED, attribute(_CTA_FILTER_ORIG_FLAGS, _U32.pack(_FILTER_PROTO_NUM)))
    with _connect() as socket:
        for entries in socket.dumping(_request(_GET, family, payload)):
            if entries:
                yield _flows(family, entries, wanted)


def delete(flows: Iterable[Flow]) -> int:
    """Delete flows; return how many the kernel still had.

    A new flow with the same addresses stays if it has another id.

    Raises:
        KernelError: a flow could not be deleted; all others were.
    """
    wanted = list(flows)
    with _connect() as socket:
        outcome = socket.request([_request(_DELETE, flow.family, flow.handle) for flow in wanted])
    for flow, code in zip(wanted, outcome):
        if code not in (0, errno.ENOENT):
            raise KernelError(
                f"UDP flow from {flow.source} port {flow.source_port} to {flow.destination} port"
                f" {flow.destination_port} cannot be deleted: {os.strerror(code)}"
            )
    return outcome.count(0)


@contextmanager
def _connect() -> Iterator[NetlinkSocket]:
    try:
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            yield socket
    except PermissionError:
        raise MissingError(_FORBIDDEN) from None
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):
            raise MissingError(_MISSING) from None
        raise KernelError(f"the conversation with the kernel's connection tracking failed: {error.strerror}") from error


def _flows(family: int, entries: Iterable[bytes], wanted: Collection[bytes] | None) -> list[Flow]:
    try:
        if wanted is not None:
            entries = [entry for entry in entries if _destination(family, entry) in wanted]
        return [flow for flow in (_flow(family, entry) for entry in entries) if flow is not None]
    except (ValueError, LookupError, struct.error) as error:
        raise KernelError(f"an entry of the kernel's connection tracking cannot be understood: {error!r}") from None


class _Layout(NamedTuple):
    """Offsets within an entry's first attribute, the original tuple, which is read without parsing the rest."""

    headers: tuple[
        tuple[int, bytes], ...
    ]  # offset and content of the attribute headers that an entry of this layout has
    address: slice
    port: slice


def _nested(size: int, kind: int) -> bytes:
    return ATTRIBUTE.pack(size, kind | NLA_F_NESTED)


_LAYOUTS = {
    4: _Layout(
        (
            (4, _nested(52, 1)),
            (8, _nested(20, 1)),
            (20, ATTRIBUTE.pack(8, 2)),
            (28, _nested(28, 2)),
            (48, ATTRIBUTE.pack(6, 3)),
        ),
        slice(24, 28),
        slice(52, 54),
    ),
    6: _Layout(
        (
            (4, _nested(76, 1)),
            (8, _nested(44, 1)),
            (32, ATTRIBUTE.pack(20, 4)),
            (52, _nested(28, 2)),
            (72, ATTRIBUTE.pack(6, 3)),
        ),
        slice(36, 52),
        slice(76, 78),
    ),
}


def _destination(family: int, entry: bytes) -> bytes:
    """Return the original destination of a flow: packed address and port."""
    layout = _LAYOUTS[family]
    for offset, header in layout.headers:
        if not entry.startswith(header, offset):
            break
    else:
        return entry[layout.address] + entry[layout.port]
    flow = _flow(family, entry)
    return b"" if flow is None else pack_address(flow.destination) + _BE16.pack(flow.destination_port)


def _request(command: int, family: int, payload: bytes) -> bytes:
    return request(NFNL_SUBSYS_CTNETLINK, command, ADDRESS_FAMILIES[family], payload)


def _flow(family: int, payload: bytes) -> Flow | None:
    fields = attributes(payload, HEADER_BYTES)
    original = attributes(fields[_CTA_TUPLE_ORIG])
    ports = attributes(original[_CTA_TUPLE_PROTO])
    if ports[_CTA_PROTO_NUM][0] != UDP:
        return None
    addresses = attributes(original[_CTA_TUPLE_IP])
    reply = attributes(fields[_CTA_TUPLE_REPLY])
    handle = attribute(_CTA_TUPLE_ORIG | NLA_F_NESTED, fields[_CTA_TUPLE_ORIG]) + attribute(_CTA_ID, fields[_CTA_ID])
    if _CTA_ZONE in fields:
        handle += attribute(_CTA_ZONE, fields[_CTA_ZONE])
    return Flow(
        family,
        unpack_address(addresses[_CTA_IP_SOURCE[family]]),
        _BE16.unpack(ports[_CTA_PROTO_SRC_PORT])[0],
        unpack_address(addresses[_CTA_IP_DESTINATION[family]]),
        _BE16.unpack(ports[_CTA_PROTO_DST_PORT])[0],
        unpack_address(attributes(reply[_CTA_TUPLE_IP])[_CTA_IP_SOURCE[family]]),
        _BE16.unpack(attributes(reply[_CTA_TUPLE_PROTO])[_CTA_PROTO_SRC_PORT])[0],
        handle,
    )
