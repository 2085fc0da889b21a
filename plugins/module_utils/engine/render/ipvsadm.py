# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render virtual servers as ``ipvsadm -Sn`` prints them."""

from __future__ import annotations

from ..model import ReadState
from ..model.ipvs import (
    ONE_PACKET,
    PERSISTENT,
    SCHED1,
    SCHED2,
    SCHED3,
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
    endpoint,
)
from .order import real_order, server_order

_SERVICE = {"tcp": "-t", "udp": "-u", "sctp": "--sctp-service", "fwmark": "-f"}
_FORWARD = {"masquerade": "-m", "direct": "-g", "tunnel": "-i", "local": "-g", "bypass": "-g"}
_FLAG_NAMES = {
    "sh": {SCHED1: "sh-fallback", SCHED2: "sh-port", SCHED3: "flag-3"},
    "mh": {SCHED1: "mh-fallback", SCHED2: "mh-port", SCHED3: "flag-3"},
}
_FLAGS = {SCHED1: "flag-1", SCHED2: "flag-2", SCHED3: "flag-3"}


def render(state: ReadState) -> str:
    """Return the virtual servers and real servers of a state, sorted."""
    reals: dict[VirtualServerKey, list[tuple[RealServerKey, RealServer]]] = {}
    for key, value in state.get("real_server", {}).items():
        reals.setdefault(key.server, []).append((key, value))
    lines = []
    servers = state.get("virtual_server", {})
    for key in sorted(servers, key=server_order):
        name = _name(key)
        lines.append(f"-A {name} {_options(key, servers[key])}")
        real_servers = reals.get(key, [])
        if len(real_servers) > 1:
            real_servers.sort(key=lambda item: real_order(item[0]))
        for (_server, address, port), real in real_servers:
            where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            lines.append(f"-a {name} -r {where} {_real(real)}")
    return "\n".join([*lines, ""])


def _name(key: VirtualServerKey) -> str:
    if key.protocol == "fwmark":
        return f"-f {key.port}" + (" -6" if key.family == 6 else "")
    return f"{_SERVICE[key.protocol]} {endpoint(key.address, key.port)}"


def _options(key: VirtualServerKey, value: VirtualServer) -> str:
    parts = [f"-s {value.scheduler}"]
    if value.flags & PERSISTENT:
        parts.append(f"-p {value.timeout}")
        if key.family == 4 and value.netmask != 32:
            mask = (0xFFFFFFFF << (32 - value.netmask)) & 0xFFFFFFFF
            parts.append("-M " + ".".join(str(mask >> shift & 255) for shift in (24, 16, 8, 0)))
        elif key.family == 6 and value.netmask != 128:
            parts.append(f"-M {value.netmask}")
    if value.pe_name:
        parts.append(f"--pe {value.pe_name}")
    if value.flags & ONE_PACKET:
        parts.append("-o")
    names = _FLAG_NAMES.get(value.scheduler, _FLAGS)
    flags = [names[bit] for bit in (SCHED1, SCHED2, SCHED3) if value.flags & bit]
    if flags:
        parts.append("-b " + ",".join(flags))
    return " ".join(parts)


def _real(value: RealServer) -> str:
    # ipvsadm saves no thresholds
    return f"{_FORWARD[value.forward]} -w {value.weight}"
