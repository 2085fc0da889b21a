# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS as pyroute2 reads it, in the engine's model.

pyroute2 0.9.7 reads two fields wrong, which :func:`comparable` leaves out: the prefix length of an IPv6 virtual server
(read as an IPv4 address), and the port of a tunnel (read in the machine's byte order).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

from pyroute2 import IPVS, IPVSService
from pyroute2.netlink.generic.ipvs import ipvsmsg

from kubenode.engine.kernel.netlink import message
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey

_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_SCTP: "sctp"}
_METHODS = {0: "masquerade", 1: "local", 2: "tunnel", 3: "direct", 4: "bypass"}
_TUNNELS = {0: "ipip", 1: "gue", 2: "gre"}
_HASHED = 2

State = dict[str, dict[Any, Any]]


def decoded(payload: bytes, kind: str) -> dict[str, Any]:
    """Return pyroute2's values of an IPVS payload by attribute; ``kind`` is ``SERVICE`` or ``DEST``."""
    parsed = ipvsmsg(message(32, 0, payload))
    parsed.decode()
    return named(parsed, kind)


def named(parsed: Any, kind: str) -> dict[str, Any]:
    """Return the values of a message by attribute, without their prefix."""
    return {pair[0].rpartition("_ATTR_")[2]: pair[1] for pair in parsed.get(f"IPVS_CMD_ATTR_{kind}")["attrs"]}


def virtual_server(fields: dict[str, Any]) -> tuple[VirtualServerKey, VirtualServer]:
    """Return a virtual server; the prefix length of IPv6 is 0."""
    family = 6 if fields["AF"] == socket.AF_INET6 else 4
    if "FWMARK" in fields:
        key = VirtualServerKey("fwmark", "", fields["FWMARK"], family)
    else:
        key = VirtualServerKey(_PROTOCOLS[fields["PROTOCOL"]], fields["ADDR"], fields["PORT"], family)
    mask = 0 if family == 6 else int.from_bytes(socket.inet_aton(fields["NETMASK"]), "big").bit_count()
    flags = fields["FLAGS"]["flags"] & ~_HASHED
    return key, VirtualServer(fields["SCHED_NAME"], flags, fields["TIMEOUT"], mask, fields.get("PE_NAME", ""))


def real_server(server: VirtualServerKey, fields: dict[str, Any]) -> tuple[RealServerKey, RealServer]:
    """Return a real server of ``server``; the port of its tunnel is 0."""
    return RealServerKey(server, fields["ADDR"], fields["PORT"]), RealServer(
        fields["WEIGHT"],
        _METHODS[fields["FWD_METHOD"]],
        fields["U_THRESH"],
        fields["L_THRESH"],
        _TUNNELS[fields["TUN_TYPE"]],
        0,
        fields["TUN_FLAGS"],
    )


def read() -> State:
    """Return the table of the thread's network namespace."""
    servers, reals = {}, {}
    with IPVS() as ipvs:
        for entry in ipvs.service("dump"):
            key, value = virtual_server(named(entry, "SERVICE"))
            servers[key] = value
            listed: Iterable[Any] = ipvs.dest("dump", service=IPVSService.from_message(entry))
            reals.update(real_server(key, named(real, "DEST")) for real in listed)
    return {"virtual_server": servers, "real_server": reals}


def comparable(state: State) -> State:
    """Return a state without the fields that pyroute2 reads wrong."""
    return {
        "virtual_server": {
            key: value._replace(netmask=0) if key.family == 6 else value
            for key, value in state["virtual_server"].items()
        },
        "real_server": {key: value._replace(tunnel_port=0) for key, value in state["real_server"].items()},
    }
