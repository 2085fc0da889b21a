# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, rates and connections of virtual and real servers, decoded on request only."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from ...model.ipvs import RealServerKey, VirtualServerKey
from ..decoding import decoding
from ..netlink import attributes
from . import dump
from .attributes import Dest, Service, Stats
from .codec import U32, unpack_connections, unpack_real, unpack_server
from .connection import connect

_U64 = Struct("=Q")


class Traffic(NamedTuple):
    """Traffic since the counters were zeroed, and rates per second.

    The kernel estimates the rates every two seconds.
    """

    connections: int = 0
    packets_in: int = 0
    packets_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    connection_rate: int = 0
    packet_rate_in: int = 0
    packet_rate_out: int = 0
    byte_rate_in: int = 0
    byte_rate_out: int = 0


class RealServerTraffic(NamedTuple):
    """Traffic of a real server and the connections to it that the kernel remembers now."""

    traffic: Traffic
    active: int
    inactive: int
    persistent: int


def statistics(real_servers: bool = True) -> dict[str, dict[Any, Any]]:
    """Return ``{"virtual_server": {key: Traffic}, "real_server": {key: RealServerTraffic}}``.

    64-bit counters where the kernel has them (4.1 and newer), else 32-bit ones, which wrap.

    Args:
        real_servers: include real servers, at one request for each virtual server.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    servers: dict[VirtualServerKey, Traffic] = {}
    reals: dict[RealServerKey, RealServerTraffic] = {}
    with connect() as socket, decoding(dump.TABLE):
        for fields in dump.server_attributes(socket):
            servers[unpack_server(fields)[0]] = server_traffic(fields)
        if real_servers:
            for server in servers:
                for fields in dump.real_attributes(socket, server):
                    reals[unpack_real(server, fields)[0]] = RealServerTraffic(
                        _traffic(fields, Dest.STATS64, Dest.STATS), *unpack_connections(fields)
                    )
    return {"virtual_server": servers, "real_server": reals}


def server_traffic(fields: dict[int, bytes]) -> Traffic:
    """Return the counters in the attributes of a virtual server."""
    return _traffic(fields, Service.STATS64, Service.STATS)


def _traffic(fields: dict[int, bytes], wide: int, narrow: int) -> Traffic:
    """Decode nested counters; the length of each is its width."""
    raw = attributes(fields[wide] if wide in fields else fields[narrow])
    return Traffic(*(_number(raw[number]) for number in range(Stats.CONNS, Stats.OUTBPS + 1)))


def _number(raw: bytes) -> int:
    return int((_U64 if len(raw) == 8 else U32).unpack(raw)[0])
