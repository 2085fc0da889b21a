# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of IPVS: explain an errno in words.

The meaning depends on the command (net/netfilter/ipvs/ip_vs_ctl.c).
"""

from __future__ import annotations

import errno
import os
from typing import Any

from ...model.ipvs import LARGEST_THRESHOLD, RealServer, RealServerKey, VirtualServer, VirtualServerKey
from ...model.kinds import name
from ...model.net import family, pack
from .attributes import Command

MISSING = "ip_vs is not available: load the kernel module ip_vs (modprobe ip_vs), or use a kernel that has it"
FORBIDDEN = "IPVS may not be used: the capability CAP_NET_ADMIN is needed (run as root)"

_ANY = {
    errno.EPERM: "the capability CAP_NET_ADMIN is needed (run as root)",
    errno.EAFNOSUPPORT: "the kernel's ip_vs has no support for IPv{family}",
    errno.EPROTONOSUPPORT: "the kernel's ip_vs has no support for the protocol {protocol}",
    errno.ENOMEM: "the kernel has no memory left for it",
    errno.ENOPROTOOPT: "the kernel module ip_vs is being unloaded",
    errno.ERANGE: "the kernel refused a value as too large or too long",
}
_SERVICE = {
    errno.ENOENT: "scheduler {scheduler}{engine} is not available (kernel module ip_vs_{scheduler}{engine_module})",
    errno.EEXIST: "it exists already",
    errno.ESRCH: "it does not exist",
    errno.EINVAL: "the kernel refused a value ({suspect})",
}
_DEST = {
    errno.ENOENT: "it does not exist",
    errno.EEXIST: "it exists already",
    errno.ESRCH: "its virtual server does not exist",
    errno.EINVAL: "the kernel refused a value ({suspect})",
    errno.ERANGE: (
        "the kernel refused a value: the weight ({weight}) must not be negative, nor the lower threshold ({lower})"
        " be above the upper one ({upper})"
    ),
}
_WORDS = {
    Command.NEW_SERVICE: _SERVICE,
    Command.SET_SERVICE: _SERVICE,
    Command.DEL_SERVICE: _SERVICE,
    Command.ZERO: _SERVICE,
    Command.NEW_DEST: _DEST,
    Command.SET_DEST: _DEST,
    Command.DEL_DEST: _DEST,
}


def explain(command: int, code: int, kind: str, key: Any, value: Any = None) -> str:
    """Return one sentence that names the item and says why the kernel refused ``command`` for it."""
    if code == errno.ERANGE and isinstance(value, RealServer) and _is_in_range(value):
        code = errno.EINVAL  # a kernel with limits that this module does not know
    text = (
        _WORDS[command].get(code)
        or _ANY.get(code)
        or f"the kernel answered {errno.errorcode.get(code, code)}: {os.strerror(code)}"
    )
    return f"{name(kind, key)}: {text.format_map(_facts(kind, key, value))}"


def _facts(kind: str, key: Any, value: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"suspect": "no field is known to be wrong"}
    if kind == "virtual_server":
        facts.update(family=key.family, protocol=key.protocol, scheduler="?", engine="", engine_module="")
        if value is not None:
            facts.update(scheduler=value.scheduler, suspect=_suspect_server(key, value))
            if value.pe_name:
                facts.update(
                    engine=f" or persistence engine {value.pe_name}", engine_module=f", ip_vs_pe_{value.pe_name}"
                )
    else:
        facts.update(family=family(key.address), protocol=key.server.protocol)
        if value is not None:
            facts.update(weight=value.weight, lower=value.lower_threshold, upper=value.upper_threshold)
            facts.update(suspect=_suspect_real(key, value))
    return facts


def _suspect_server(key: VirtualServerKey, value: VirtualServer) -> str:
    if key.family == 6 and not 1 <= value.netmask <= 128:
        return f"the netmask of an IPv6 virtual server must be a prefix length from 1 to 128, not {value.netmask}"
    return f"the scheduler {value.scheduler} does not take these settings"


def _suspect_real(key: RealServerKey, value: RealServer) -> str:
    other = family(key.address)
    if _exceeds_thresholds(value) and _is_host(key.address):
        return (
            f"this kernel takes thresholds up to {LARGEST_THRESHOLD}; upper_threshold is {value.upper_threshold},"
            f" lower_threshold is {value.lower_threshold}"
        )
    if other != key.server.family and value.forward != "tunnel":
        return (
            f"an IPv{other} real server of an IPv{key.server.family} virtual server must be reached by the forwarding"
            f" method tunnel, not {value.forward}"
        )
    if value.tunnel_type == "gue" and not value.tunnel_port:
        return "a gue tunnel needs a port"
    if other == key.server.family or not _is_host(key.address):
        return "the address must be one host's: not multicast, not broadcast, not link-local"
    return (
        f"an IPv{other} real server of an IPv{key.server.family} virtual server and a synchronisation daemon exclude"
        " each other"
    )


def _exceeds_thresholds(value: RealServer) -> bool:
    """Tell whether Linux >= 6.1.192 refuses the thresholds, which older kernels take."""
    return max(value.upper_threshold, value.lower_threshold) > LARGEST_THRESHOLD


def _is_in_range(value: RealServer) -> bool:
    """Tell whether all kernels before 6.1.192 take weight and thresholds, and later ones do not."""
    return value.weight >= 0 and value.lower_threshold <= value.upper_threshold and _exceeds_thresholds(value)


def _is_host(address: str) -> bool:
    raw = pack(address)
    if len(raw) == 4:
        return 0 < raw[0] < 224
    return raw[0] != 0xFF and raw[:2] != b"\xfe\x80"
