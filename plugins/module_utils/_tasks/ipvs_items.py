# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of virtual servers and real servers of ``ipvs_services``, converted to model items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._module.argspec import FAMILIES, STATE, address, host, number, unique
from ..engine.errors import InputError
from ..engine.kernel.ipvs.limits import MAXIMUM_NAME, MAXIMUM_TIMEOUT
from ..engine.model import net
from ..engine.model.ipvs import (
    FORWARDING_METHODS,
    LARGEST_THRESHOLD,
    ONE_PACKET,
    PERSISTENT,
    SCHEDULER_FLAGS,
    TUNNEL_CHECKSUMS,
    TUNNEL_TYPES,
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..engine.model import State

_INT32 = 2**31 - 1
_UINT32 = 2**32 - 1

REAL_SERVER: dict[str, Any] = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int"},
    "weight": {"type": "int", "default": 1},
    "forwarding_method": {"type": "str", "choices": list(FORWARDING_METHODS), "default": "masquerade"},
    "upper_threshold": {"type": "int", "default": 0},
    "lower_threshold": {"type": "int", "default": 0},
    "tunnel_type": {"type": "str", "choices": list(TUNNEL_TYPES), "default": "ipip"},
    "tunnel_port": {"type": "int", "default": 0},
    "tunnel_checksum": {"type": "str", "choices": list(TUNNEL_CHECKSUMS), "default": "none"},
    **STATE,
}
SERVICE: dict[str, Any] = {
    "protocol": {"type": "str", "choices": ["tcp", "udp", "sctp"]},
    "address": {"type": "str"},
    "port": {"type": "int"},
    "fwmark": {"type": "int"},
    "family": {"type": "str", "choices": ["ipv4", "ipv6"], "default": "ipv4"},
    "scheduler": {"type": "str", "default": "rr"},
    "scheduler_flags": {"type": "list", "elements": "str", "choices": list(SCHEDULER_FLAGS), "default": []},
    "persistence_timeout": {"type": "int", "default": 0},
    "netmask": {"type": "str"},
    "persistence_engine": {"type": "str", "default": ""},
    "one_packet": {"type": "bool", "default": False},
    "real_servers": {"type": "list", "elements": "dict", "options": REAL_SERVER},
    "purge_real_servers": {"type": "bool", "default": True},
    **STATE,
}


def desired_items(services: Iterable[Mapping[str, Any]]) -> tuple[State, dict[str, set[Any]], set[VirtualServerKey]]:
    """Return the desired items, the keys to remove, and the virtual servers that keep unlisted real servers.

    Raises:
        EngineError: an option is invalid, or a server is listed twice.
    """
    want: State = {"virtual_server": {}, "real_server": {}}
    absent: dict[str, set[Any]] = {"virtual_server": set(), "real_server": set()}
    keep_unlisted = set()
    seen: dict[Any, str] = {}
    for index, service in enumerate(services):
        option_path = f"services[{index}]"
        key = server_key(option_path, service)
        unique(seen, key, option_path)
        if service["state"] == "absent":
            absent["virtual_server"].add(key)
            continue
        want["virtual_server"][key] = virtual_server(f"{option_path} ({key})", key, service)
        if service["real_servers"] is None or not service["purge_real_servers"]:
            keep_unlisted.add(key)
        for number_, real in enumerate(service["real_servers"] or ()):
            here = f"{option_path}.real_servers[{number_}]"
            real_key = real_server_key(here, key, real)
            unique(seen, real_key, here)
            if real["state"] == "absent":
                absent["real_server"].add(real_key)
            else:
                want["real_server"][real_key] = real_server(f"{here} ({real_key})", real)
    return want, absent, keep_unlisted


def server_key(option_path: str, service: Mapping[str, Any]) -> VirtualServerKey:
    """Return the key of a virtual server."""
    mark = service["fwmark"]
    given = [field for field in ("protocol", "address", "port") if service[field] is not None]
    if mark is not None:
        if given:
            raise InputError(option_path, given[0], service[given[0]], f"nothing beside fwmark {mark}")
        return VirtualServerKey(
            "fwmark", "", number(option_path, "fwmark", mark, 1, _UINT32), FAMILIES[service["family"]]
        )
    for field in ("protocol", "address", "port"):
        if service[field] is None:
            raise InputError(option_path, field, None, "a value, unless fwmark is given")
    where = address(option_path, "address", service["address"])
    if service["family"] == "ipv6" and net.family(where) == 4:
        raise InputError(option_path, "family", "ipv6", f"ipv4 or nothing, as the address {where} is")
    return VirtualServerKey(
        service["protocol"], where, number(option_path, "port", service["port"], 0, 65535), net.family(where)
    )


def virtual_server(subject: str, key: VirtualServerKey, service: Mapping[str, Any]) -> VirtualServer:
    """Return the value of a virtual server."""
    timeout = number(subject, "persistence_timeout", service["persistence_timeout"], 0, MAXIMUM_TIMEOUT)
    if key.port == 0 and not timeout:
        raise InputError(subject, "port", 0, "a port, or a persistence_timeout beside it")
    if service["one_packet"] and key.protocol not in ("udp", "fwmark"):
        raise InputError(subject, "one_packet", True, "false (only UDP has it)")
    if service["netmask"] is not None and not timeout:
        raise InputError(subject, "netmask", service["netmask"], "nothing without persistence_timeout")
    if service["persistence_engine"] and not timeout:
        raise InputError(
            subject, "persistence_engine", service["persistence_engine"], "nothing without persistence_timeout"
        )
    flags = (PERSISTENT if timeout else 0) | (ONE_PACKET if service["one_packet"] else 0)
    scheduler = service["scheduler"]
    for field, text, shortest in (
        ("scheduler", scheduler, 1),
        ("persistence_engine", service["persistence_engine"], 0),
    ):
        if not (text.isascii() and shortest <= len(text) <= MAXIMUM_NAME):
            raise InputError(subject, field, text, f"an ASCII name of at most {MAXIMUM_NAME} characters")
    for flag in service["scheduler_flags"]:
        if flag.partition("-")[0] not in ("flag", scheduler):
            raise InputError(
                subject, "scheduler_flags", flag, f"flags that the scheduler {scheduler} has, or flag-1 to flag-3"
            )
        flags |= SCHEDULER_FLAGS[flag]
    mask = (
        net.full_prefix(key.family) if service["netmask"] is None else prefix(subject, key.family, service["netmask"])
    )
    return VirtualServer(scheduler, flags, timeout, mask, service["persistence_engine"])


def prefix(subject: str, family: int, text: str) -> int:
    """Return the prefix length of a netmask."""
    full = net.full_prefix(family)
    if text.isascii() and text.isdigit() and 1 <= int(text) <= full:
        return int(text)
    if family == 4:
        try:
            bits = f"{int.from_bytes(net.pack(net.canonical(text)), 'big'):032b}"
        except ValueError:
            bits = ""
        if bits and "01" not in bits and "1" in bits:
            return bits.count("1")
    raise InputError(
        subject, "netmask", text, f"a prefix length between 1 and {full}" + (" or a netmask" if family == 4 else "")
    )


def real_server_key(option_path: str, server: VirtualServerKey, real: Mapping[str, Any]) -> RealServerKey:
    """Return the key of a real server."""
    where = host(option_path, "address", real["address"])
    port = server.port if real["port"] is None else number(option_path, "port", real["port"], 0, 65535)
    if net.family(where) != server.family and real["forwarding_method"] != "tunnel":
        expected = f"an IPv{server.family} address, or forwarding_method tunnel"
        raise InputError(f"{option_path} of {server}", "address", where, expected)
    return RealServerKey(server, where, 0 if server.protocol == "fwmark" and real["port"] is None else port)


def real_server(subject: str, real: Mapping[str, Any]) -> RealServer:
    """Return the value of a real server."""
    upper = number(subject, "upper_threshold", real["upper_threshold"], 0, LARGEST_THRESHOLD)
    lower = number(subject, "lower_threshold", real["lower_threshold"], 0, LARGEST_THRESHOLD)
    if lower > upper:
        raise InputError(subject, "lower_threshold", lower, f"at most upper_threshold, {upper}")
    tunnel = _tunnel(subject, real)
    return RealServer(
        number(subject, "weight", real["weight"], 0, _INT32), real["forwarding_method"], upper, lower, *tunnel
    )


def _tunnel(subject: str, real: Mapping[str, Any]) -> tuple[str, int, int]:
    kind, port, checksum = real["tunnel_type"], real["tunnel_port"], real["tunnel_checksum"]
    method = real["forwarding_method"]
    for field, value, default in (
        ("tunnel_type", kind, "ipip"),
        ("tunnel_port", port, 0),
        ("tunnel_checksum", checksum, "none"),
    ):
        if method != "tunnel" and value != default:
            raise InputError(subject, field, value, "nothing without forwarding_method tunnel")
    if kind == "gue":
        number(subject, "tunnel_port", port, 1, 65535)
    elif port:
        raise InputError(subject, "tunnel_port", port, "nothing without tunnel_type gue")
    if (kind, checksum) in (("ipip", "checksum"), ("ipip", "remote"), ("gre", "remote")):
        raise InputError(subject, "tunnel_checksum", checksum, f"what tunnel_type {kind} has")
    return kind, port, TUNNEL_CHECKSUMS[checksum]
