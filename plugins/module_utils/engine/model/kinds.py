# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of items in one table: the table that holds each, its comparison, its owner and its name."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .ipset import MemberKey, same_set


class Kind(NamedTuple):
    """One kind of item.

    ``table`` names the module of ``engine/kernel`` that reads and writes it. An item with a ``parent`` (kind, function
    from key to the parent's key) has the parent's owner, and is removed with it.
    """

    table: str
    label: str
    decode_key: Callable[[Any], Any]
    same: Callable[[Any, Any], bool]
    text: Callable[[Any, Any], str]
    parent: tuple[str, Callable[[Any], Any]] | None = None


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def _same_member(one: str, other: str) -> bool:
    if one == other:
        return True
    from .member_options import same_options

    return same_options(one, other)


def _fields(_key: Any, value: Any) -> str:
    return " ".join(f"{name} {text}" for name, text in value._asdict().items())


def _server_text(key: Any, value: Any) -> str:
    parts = [f"scheduler {value.scheduler}"]
    if value.flags:
        parts.append(f"flags {value.flags:#x}")
    if value.timeout:
        parts.append(f"timeout {value.timeout}")
    if value.netmask != (128 if key.family == 6 else 32):
        parts.append(f"netmask {value.netmask}")
    if value.pe_name:
        parts.append(f"pe {value.pe_name}")
    return " ".join(parts)


def _real_text(_key: Any, value: Any) -> str:
    parts = [f"weight {value.weight} {value.forward}"]
    if value.upper_threshold or value.lower_threshold:
        parts.append(f"thresholds {value.lower_threshold}..{value.upper_threshold}")
    if value.forward == "tunnel":
        parts.append(f"{value.tunnel_type} port {value.tunnel_port} flags {value.tunnel_flags:#x}")
    return " ".join(parts)


def _daemon_text(_key: Any, value: Any) -> str:
    length = f" length {value.max_length}" if value.max_length else ""
    return f"on {value.interface} id {value.sync_id}{length} group {value.group} port {value.port} ttl {value.ttl}"


def _set_text(_key: Any, value: Any) -> str:
    return " ".join([value.text()] + (["in the order", ", ".join(value.order)] if value.order else []))


def _rules_text(_key: Any, value: Any) -> str:
    return f"{len(value)} rule" + ("" if len(value) == 1 else "s")


def _nft_set_text(_key: Any, value: Any) -> str:
    return f"type {' . '.join(value.types)}{' flags interval' if value.interval else ''}"


def _nft_chain_text(key: Any, value: Any) -> str:
    hook = value.hook
    declaration = f"type {hook.type} hook {hook.hook} priority {hook.priority} policy {hook.policy}, " if hook else ""
    return declaration + _rules_text(key, value.rules)


def _lines_text(_key: Any, value: Any) -> str:
    count = value.count("\n")
    return f"{count} line" + ("" if count == 1 else "s")


# Imported on demand: a module handles one or two tables, and each import delays its start on a node.


def _server_key(raw: Any) -> Any:
    from .ipvs import VirtualServerKey

    return VirtualServerKey(*raw)


def _real_key(raw: Any) -> Any:
    from .ipvs import RealServerKey

    return RealServerKey(_server_key(raw[0]), raw[1], raw[2])


def _chain_key(raw: Any) -> Any:
    from .iptables import ChainKey

    return ChainKey(*raw)


def _jump_key(raw: Any) -> Any:
    from .iptables import JumpKey

    return JumpKey(*raw)


def _text_table_key(raw: Any) -> Any:
    from .nft_text import TextTableKey

    return TextTableKey(*raw)


def _same_text(one: str, other: str) -> bool:
    if one == other:
        return True
    from .nft_text import same_text

    return same_text(one, other)


def _address_key(raw: Any) -> Any:
    from .link import AddressKey

    return AddressKey(*raw)


def _route_key(raw: Any) -> Any:
    from .link import RouteKey

    return RouteKey(*raw)


def _table_key(raw: Any) -> Any:
    from .nftables import TableKey

    return TableKey(*raw)


def _nft_set_key(raw: Any) -> Any:
    from .nftables import SetKey

    return SetKey(_table_key(raw[0]), raw[1])


def _element_key(raw: Any) -> Any:
    from .nftables import ElementKey

    return ElementKey(_nft_set_key(raw[0]), tuple(raw[1]))


def _nft_chain_key(raw: Any) -> Any:
    from .nftables import ChainKey

    return ChainKey(_table_key(raw[0]), raw[1])


_IN_TABLE = ("nft_table", lambda key: key.table)


KINDS: dict[str, Kind] = {
    "kernel_module": Kind("modules", "kernel module", str, _equal, lambda _key, value: str(value)),
    "sysctl": Kind("sysctls", "sysctl", str, _equal, lambda _key, value: str(value)),
    "file": Kind("files", "file", str, _equal, _lines_text),
    "link": Kind("addresses", "link", str, _equal, _fields),
    "set": Kind("ipset", "set", str, same_set, _set_text),
    "member": Kind(
        "ipset",
        "member",
        lambda raw: MemberKey(*raw),
        _same_member,
        lambda _key, value: str(value),
        ("set", lambda key: key.set),
    ),
    "chain": Kind("iptables", "chain", _chain_key, _equal, _rules_text),
    "jump": Kind("iptables", "rule in", _jump_key, _equal, lambda _key, value: f"at position {value}"),
    "nft_table": Kind(
        "nftables", "nftables table", _table_key, _equal, lambda _key, value: f"flags {value:#x}" if value else ""
    ),
    "nft_set": Kind("nftables", "nftables set", _nft_set_key, _equal, _nft_set_text, _IN_TABLE),
    "nft_element": Kind(
        "nftables",
        "element",
        _element_key,
        _equal,
        lambda _key, _value: "",
        ("nft_table", lambda key: key.set.table),
    ),
    "nft_chain": Kind("nftables", "nftables chain", _nft_chain_key, _equal, _nft_chain_text, _IN_TABLE),
    "nft_text": Kind("nft_text", "nftables table", _text_table_key, _same_text, _lines_text),
    "virtual_server": Kind("ipvs", "virtual server", _server_key, _equal, _server_text),
    "real_server": Kind(
        "ipvs",
        "real server",
        _real_key,
        _equal,
        _real_text,
        ("virtual_server", lambda key: key.server),
    ),
    "ipvs_timeout": Kind("ipvs_settings", "IPVS timeout", str, _equal, lambda _key, value: f"{value} s"),
    "sync_daemon": Kind("ipvs_settings", "IPVS synchronisation daemon", str, _equal, _daemon_text),
    "address": Kind("addresses", "address", _address_key, _equal, lambda _key, _value: ""),
    # a local route works the same under every routing protocol and priority
    "route": Kind("addresses", "local route", _route_key, lambda _one, _other: True, lambda _key, _value: ""),
}


def name(kind: str, key: Any) -> str:
    """Return an item's name in messages, for example ``real server 10.244.1.5:8080 of tcp 10.96.0.10:80``."""
    if kind == "member":
        return f"member {key.member} of set {key.set}"
    return f"{KINDS[kind].label} {key}"
