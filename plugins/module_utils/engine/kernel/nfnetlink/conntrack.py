# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection tracking: listing UDP flows and forgetting some (ctnetlink, linux/netfilter/nfnetlink_conntrack.h).

With ``net.ipv4.vs.conntrack=1`` a flow through a virtual server has the virtual server as its original destination and the
real server as its reply source. A UDP flow never ends by itself while its client keeps sending, so one whose real server went
away must be forgotten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

from ..errors import KernelError, MissingError
from ..model.net import unpack as unpack_address
from .netlink import NETLINK_NETFILTER, NLA_F_NESTED, NetlinkSocket, attribute, attributes, message

UDP = 17

_GET = 0x0101  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_DELETE = 0x0102
_NFGENMSG_BYTES = 4
_FAMILIES = {4: 2, 6: 10}
_BE16 = Struct(">H")
_U32 = Struct("=I")

_CTA_TUPLE_ORIG = 1
_CTA_TUPLE_REPLY = 2
_CTA_ID = 12
_CTA_ZONE = 18
_CTA_FILTER = 25  # since 5.8; older kernels pass over it and give every protocol

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
_FORBIDDEN = "connection tracking may not be read: the right CAP_NET_ADMIN is needed (run as root)"


class Flow(NamedTuple):
    """A UDP flow: where its client sent to, and who answers it. ``handle`` is for :func:`delete`."""

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
    """
    protocol = attribute(_CTA_TUPLE_PROTO | NLA_F_NESTED, attribute(_CTA_PROTO_NUM, bytes((UDP,))))
    payload = attribute(_CTA_TUPLE_ORIG | NLA_F_NESTED, protocol)
    payload += attribute(_CTA_FILTER | NLA_F_NESTED, attribute(_CTA_FILTER_ORIG_FLAGS, _U32.pack(_FILTER_PROTO_NUM)))
    with _connect() as socket:
        entries = socket.dump(message(_GET, 0, _header(family) + payload))
    return [flow for flow in (_flow(family, entry) for entry in entries) if flow is not None]


def delete(flows: Iterable[Flow]) -> int:
    """Make the kernel forget flows; return how many it still had.

    A flow that was replaced by another with the same addresses is left alone, if the kernel gave that another id.

    Raises:
        KernelError: one could not be deleted; all others were.
    """
    wanted = list(flows)
    with _connect() as socket:
        outcome = socket.request([message(_DELETE, 0, _header(flow.family) + flow.handle) for flow in wanted])
    for flow, code in zip(wanted, outcome):
        if code not in (0, errno.ENOENT):
            raise KernelError(
                f"UDP flow from {flow.source} port {flow.source_port} to {flow.destination} port {flow.destination_port}"
                f" cannot be deleted: {os.strerror(code)}"
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


def _header(family: int) -> bytes:
    return bytes((_FAMILIES[family], 0, 0, 0))


def _flow(family: int, payload: bytes) -> Flow | None:
    found = attributes(payload, _NFGENMSG_BYTES)
    original = attributes(found[_CTA_TUPLE_ORIG])
    ports = attributes(original[_CTA_TUPLE_PROTO])
    if ports[_CTA_PROTO_NUM][0] != UDP:
        return None
    addresses = attributes(original[_CTA_TUPLE_IP])
    reply = attributes(found[_CTA_TUPLE_REPLY])
    handle = attribute(_CTA_TUPLE_ORIG | NLA_F_NESTED, found[_CTA_TUPLE_ORIG]) + attribute(_CTA_ID, found[_CTA_ID])
    if _CTA_ZONE in found:
        handle += attribute(_CTA_ZONE, found[_CTA_ZONE])
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
