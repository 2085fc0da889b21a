# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A state as one JSON object, for programs."""

from __future__ import annotations

import json
from typing import Any

from ..model import ReadState
from .addresses import render as render_addresses
from .iptables import tables
from .order import real_order, server_order


def document(state: ReadState) -> dict[str, Any]:
    """Return a state as plain data with the keys ``virtual_servers``, ``sets``, ``iptables``, ``addresses``, ``sysctls``.

    ``virtual_servers`` is a list of mappings, each with its ``real_servers``; ``sets`` maps names to ``type``, ``options``
    and ``members``; ``iptables`` maps ``ipv4`` and ``ipv6`` to tables, chains and lists of rules.
    """
    reals: dict[Any, list[Any]] = {}
    for key in state.get("real_server", {}):
        reals.setdefault(key.server, []).append(key)
    servers = state.get("virtual_server", {})
    sets: dict[str, Any] = {
        name: {"type": value.type, "options": dict(value.options), "members": []}
        for name, value in sorted(state.get("set", {}).items())
    }
    for key, options in sorted(state.get("member", {}).items()):
        sets[key.set]["members"].append(f"{key.member} {options}".rstrip())
    return {
        "virtual_servers": [
            {
                **key._asdict(),
                **servers[key]._asdict(),
                "real_servers": [
                    {"address": real.address, "port": real.port, **state["real_server"][real]._asdict()}
                    for real in sorted(reals.get(key, ()), key=real_order)
                ],
            }
            for key in sorted(servers, key=server_order)
        ],
        "sets": sets,
        "iptables": {f"ipv{family}": tables(state, family) for family in (4, 6)},
        "addresses": render_addresses(state).split(),
        "sysctls": dict(sorted(state.get("sysctl", {}).items())),
    }


def render(state: ReadState) -> str:
    """Return a state as JSON text."""
    return json.dumps(document(state), indent=1) + "\n"
