# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use of all virtual servers now: counters from one netlink dump, connections from one read of ``/proc/net/ip_vs``.

The dump has no connections, and netlink gives these only by a request for each virtual server. Ten thousand virtual
servers are read every few seconds, so both readers decode by position, and know each key from the last reading.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from typing import NamedTuple

from ...model.ipvs import RealServerKey, VirtualServerKey
from ..decoding import decoding
from ..genetlink import HEADER_BYTES, GenericSocket
from . import dump, proc
from .attributes import Command, Service
from .codec import body, unpack_server
from .connection import connect
from .statistics import Traffic, server_traffic
from .table import read_connections

# The kernel writes STATS64 last: its header, then ten counters of 64 bits, each with a header of four bytes.
_WIDE = Struct("=HH" + "4xQ" * 10)
_LAST = slice(-4 - 10 * (4 + 8), None)  # its bytes in a payload
_TYPE_MASK = 0x3FFF  # without the flags of a nested attribute
_KEY = slice(HEADER_BYTES + 4, HEADER_BYTES + 4 + 44)  # AF, PROTOCOL, ADDR and PORT come first
# A real server's line ends with "%-10d %-10d": active and inactive connections.
_ACTIVE = slice(-21, -11)
_NONE_ACTIVE = "0         "
_REAL = "  -> "
_FEW = 64  # virtual servers
_READ_BY_A_REQUEST = 10  # virtual servers of the file that are read in the time of a request
_ESTIMATION = "/proc/sys/net/ipv4/vs/run_estimation"  # since Linux 6.2; "0": counters do not change


class RealServerUse(NamedTuple):
    """Weight of a real server, and the connections to it that the kernel remembers."""

    weight: int
    active: int
    inactive: int


class UsageReader:
    """Reads counters and active connections again and again."""

    def __init__(self) -> None:
        # Virtual server, bytes of its counters, and the counters, by the bytes of the attributes of its key
        self._counters: dict[bytes, tuple[VirtualServerKey, bytes, Traffic]] = {}
        self._shown: dict[str, VirtualServerKey] = {}  # by its line in the file
        self._addresses = proc.Addresses()

    def counters(self) -> dict[VirtualServerKey, Traffic]:
        """Return the counters of all virtual servers, from one dump; those without traffic are the same objects again.

        Where the kernel's table can be resized, a dump meanwhile may lack some.

        Raises:
            MissingError: no ip_vs, or no right to read it.
            KernelError: the answer cannot be decoded.
        """
        with connect() as socket, decoding(dump.TABLE):
            return self._decode(_dump(socket))

    def _decode(self, payloads: list[bytes]) -> dict[VirtualServerKey, Traffic]:
        if not payloads or not _is_wide(payloads[0]):
            return {unpack_server(fields)[0]: server_traffic(fields) for fields in map(body, payloads)}
        known, unpack, make = self._counters, _WIDE.unpack, Traffic._make
        latest: dict[bytes, tuple[VirtualServerKey, bytes, Traffic]] = {}
        counters: dict[VirtualServerKey, Traffic] = {}
        for payload in payloads:
            raw, wide = payload[_KEY], payload[_LAST]
            entry = known.get(raw)
            if entry is None:
                entry = unpack_server(body(payload))[0], wide, make(unpack(wide)[2:])
            elif entry[1] != wide:
                entry = entry[0], wide, make(unpack(wide)[2:])
            latest[raw] = entry
            counters[entry[0]] = entry[2]
        self._counters = latest
        return counters

    def active(self, of: Collection[VirtualServerKey] | None = None) -> dict[VirtualServerKey, int]:
        """Return the active connections of virtual servers that have some, at least of those in ``of`` (None: all).

        They come from one read of the file; for few virtual servers, a request for each is much cheaper. A caller that
        chooses them by their counters gets all where the kernel does not count (``net.ipv4.vs.run_estimation``).

        A virtual server of a firewall mark in both families counts in that of its real servers.

        Raises:
            KernelError: the file cannot be read or decoded.
        """
        found: dict[VirtualServerKey, int] = {}
        if of is not None and len(of) <= max(_FEW, len(self._counters) // _READ_BY_A_REQUEST) and _is_counting():
            for real, (active, _inactive) in read_connections(of).items():
                if active:
                    found[real.server] = found.get(real.server, 0) + active
            return found
        shown: dict[str, VirtualServerKey] = {}
        record = ""  # the line of the virtual server
        with connect(), decoding(f"{dump.TABLE} in {proc.PATH}"):
            for number, piece in enumerate(proc.pieces()):
                lines = piece.split("\n")
                for line in lines[0 if number else proc.HEADER_LINES :]:
                    text = line[_ACTIVE]
                    if text == _NONE_ACTIVE:
                        continue  # nearly all of a large table
                    if line.startswith(_REAL):
                        server = shown.get(record) or shown.setdefault(record, self._server(record))
                        key = _with_family(server, "[" in line)
                        found[key] = found.get(key, 0) + int(text)
                    elif line:
                        record = line
        self._shown = shown
        return found

    def _server(self, record: str) -> VirtualServerKey:
        known = self._shown.get(record)
        if known is not None:
            return known
        protocol, endpoint = record.split(None, 2)[:2]
        return proc.virtual_server(protocol, endpoint, self._addresses)


def real_server_use() -> dict[VirtualServerKey, dict[RealServerKey, RealServerUse]]:
    """Return weight and connections of all real servers by virtual server, from one read of the file.

    Raises:
        KernelError: the file cannot be read or decoded.
    """
    found: dict[VirtualServerKey, dict[RealServerKey, RealServerUse]] = {}
    records = proc.Records()
    with connect(), decoding(f"{dump.TABLE} in {proc.PATH}"):
        for piece in proc.pieces():
            for shown, address, port, _method, weight, active, inactive in records.real_servers(piece):
                server = _with_family(shown, ":" in address)
                use = RealServerUse(int(weight), int(active), int(inactive))
                found.setdefault(server, {})[RealServerKey(server, address, port)] = use
    return found


def _with_family(shown: VirtualServerKey, is_ipv6: bool) -> VirtualServerKey:
    """Return the key of a virtual server in the file, which lacks the family of a firewall mark."""
    return shown._replace(family=6 if is_ipv6 else 4) if shown.family == proc.UNKNOWN_FAMILY else shown


def _dump(socket: GenericSocket) -> list[bytes]:
    return socket.dump(socket.message(Command.GET_SERVICE))


def _is_counting() -> bool:
    try:
        with open(_ESTIMATION, "rb") as file:
            return file.read().strip() != b"0"
    except OSError:
        return True


def _is_wide(payload: bytes) -> bool:
    """Tell whether the counters are where this kernel's first entry must have them: compare with its attributes."""
    if len(payload) < _WIDE.size:
        return False
    length, kind, *numbers = _WIDE.unpack_from(payload, len(payload) - _WIDE.size)
    if length != _WIDE.size or kind & _TYPE_MASK != Service.STATS64:
        return False
    return tuple(numbers) == server_traffic(body(payload))
