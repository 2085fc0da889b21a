# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read IPVS by netlink: one dump for all virtual servers, and one for the real servers of each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from errno import ESRCH
from struct import Struct

from ...model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from ...model.net import pack
from .. import finished
from ..decoding import decoding
from ..genetlink import GenericSocket
from ..presence import exists
from .attributes import Command, Service
from .codec import U32, body, pack_server, unpack_real, unpack_server

_A_SLICE = 512
_MARK = Struct("=HH")  # length and type of an attribute
# header, nesting, family, protocol, an address of 16 bytes and a port, each with a head of four bytes and padding
_KEY_BYTES = 4 + 4 + 8 + 8 + 20 + 8
_RESIZES = "/proc/sys/net/ipv4/vs/svc_lfactor"  # since Linux 7
_ATTEMPTS = 5
TABLE = "the kernel's IPVS table"

Servers = dict[VirtualServerKey, VirtualServer]
Reals = dict[RealServerKey, RealServer]


def server_attributes(socket: GenericSocket) -> list[dict[int, bytes]]:
    """Return the attributes of all virtual servers."""
    payloads = socket.dump(socket.message(Command.GET_SERVICE))
    with decoding(TABLE):
        return [body(payload) for payload in payloads]


def real_attributes(socket: GenericSocket, server: VirtualServerKey) -> list[dict[int, bytes]]:
    """Return the attributes of all real servers of a virtual server; none if it is absent."""
    try:
        payloads = socket.dump(socket.message(Command.GET_DEST, 0, pack_server(server)))
    except OSError as error:
        if error.errno == ESRCH:
            return []
        raise
    with decoding(TABLE):
        return [body(payload) for payload in payloads]


def servers(socket: GenericSocket) -> Servers:
    """Return all virtual servers."""
    return finished(reading_servers(socket))


def reading_servers(
    socket: GenericSocket, use: Callable[[Sequence[bytes]], None] | None = None
) -> Generator[None, None, Servers]:
    """Do as :func:`servers`, in slices; all servers are of the moment of the first. ``use`` gets the payloads, too.

    Where the table can be resized, a dump meanwhile may lack servers. So it is repeated until two show the same ones.
    """
    payloads = socket.dump(socket.message(Command.GET_SERVICE))
    for _attempt in range(_ATTEMPTS if _resizes() else 0):
        before, payloads = payloads, socket.dump(socket.message(Command.GET_SERVICE))
        if same_servers(before, payloads):
            break
    if use is not None:
        use(payloads)
    servers_read: Servers = {}
    for start in range(0, len(payloads), _A_SLICE):
        with decoding(TABLE):
            servers_read.update(unpack_server(body(payload)) for payload in payloads[start : start + _A_SLICE])
        yield
    return servers_read


def servers_of(socket: GenericSocket, key: VirtualServerKey) -> Servers:
    """Return the virtual servers of an address, and those of firewall marks, from one dump; others are not decoded.

    A payload that has the address's bytes by chance is decoded, too, so the result may have more.
    """
    address, mark = pack(key.address), _MARK.pack(_MARK.size + U32.size, Service.FWMARK)
    found: Servers = {}
    for _attempt in range(2 if _resizes() else 1):
        payloads = socket.dump(socket.message(Command.GET_SERVICE))
        with decoding(TABLE):
            found.update(unpack_server(body(payload)) for payload in payloads if address in payload or mark in payload)
        if key in found:  # a dump while the table is resized may lack servers
            break
    return found


def _resizes() -> bool:
    return exists(_RESIZES, TABLE)


def same_servers(before: Sequence[bytes], after: Sequence[bytes]) -> bool:
    """Tell whether two dumps have the same virtual servers.

    Dumps of a large table are decoded only if they begin differently: with another key, order or scheduler.
    """
    starts = [[payload[:_KEY_BYTES] for payload in payloads] for payloads in (before, after)]
    return starts[0] == starts[1] or _keys(before) == _keys(after)


def _keys(payloads: Iterable[bytes]) -> set[VirtualServerKey]:
    with decoding(TABLE):
        return {unpack_server(body(payload))[0] for payload in payloads}


def reals(socket: GenericSocket, of: Iterable[VirtualServerKey]) -> Reals:
    """Return all real servers of these virtual servers."""
    with decoding(TABLE):
        return dict(unpack_real(server, fields) for server in of for fields in real_attributes(socket, server))
