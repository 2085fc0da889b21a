# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a state as one JSON object, with one line for each item, so that it can be compared line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json import dumps
from typing import Any

from ..model import ReadState
from . import addresses
from .iptables import tables
from .order import network_order, real_order, server_order


def render(state: ReadState) -> str:
    """Return a state as JSON text.

    One object with the keys ``virtual_servers`` (a list of objects, each with its ``real_servers``), ``sets`` (name to
    ``type``, ``options``, ``members``), ``iptables`` (``ipv4`` and ``ipv6`` to tables, to chains, to lists of rules),
    ``addresses`` (a list of ``address/prefix``) and ``sysctls`` (name to value); with local routes also ``routes`` (a
    list of networks).
    """
    parts = [
        f'"virtual_servers": {_list(_servers(state))}',
        f'"sets": {_object(_sets(state))}',
        f'"iptables": {dumps({f"ipv{family}": tables(state, family) for family in (4, 6)}, indent=1)}',
        f'"addresses": {_list(map(dumps, addresses.render(state).split()))}',
        f'"sysctls": {dumps(dict(sorted(state.get("sysctl", {}).items())), indent=1)}',
    ]
    routes = sorted((key.network for key in state.get("route", {})), key=network_order)
    if routes:
        parts.append(f'"routes": {_list(map(dumps, routes))}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _servers(state: ReadState) -> Iterator[str]:
    reals: dict[Any, list[Any]] = {}
    values = state.get("real_server", {})
    for key in values:
        reals.setdefault(key[0], []).append(key)
    servers = state.get("virtual_server", {})
    texts: dict[Any, str] = {}  # most real servers are alike
    for key in sorted(servers, key=server_order):
        lines = []
        for real in sorted(reals.get(key, ()), key=real_order):
            value = values[real]
            text = texts.get(value)
            if text is None:
                text = texts[value] = dumps(value._asdict())[1:]
            lines.append(f'{{"address": "{real[1]}", "port": {real[2]}, {text}')
        head = dumps({**key._asdict(), **servers[key]._asdict()})
        yield f'{head[:-1]}, "real_servers": {_list(lines)}}}'


def _sets(state: ReadState) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for key, options in state.get("member", {}).items():
        members.setdefault(key[0], []).append(f"{key[1]} {options}".rstrip())
    for name, value in sorted(state.get("set", {}).items()):
        head = dumps({"type": value.type, "options": dict(value.options)})
        yield f'{dumps(name)}: {head[:-1]}, "members": {_list(map(dumps, sorted(members.get(name, ()))))}}}'


def _list(items: Iterable[str]) -> str:
    text = ",\n ".join(items)
    return f"[\n {text}\n]" if text else "[]"


def _object(items: Iterable[str]) -> str:
    return "{\n " + ",\n ".join(items) + "\n}"
