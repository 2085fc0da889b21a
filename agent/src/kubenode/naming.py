# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Service a virtual server is for: a table for people, made from the objects alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .engine.model.ipvs import VirtualServerKey
from .engine.model.net import canonical


class Names:
    """Looks a virtual server up by address, port and protocol, then by node port."""

    def __init__(self) -> None:
        self._by_address: dict[tuple[str, str, int], str] = {}
        self._by_node_port: dict[tuple[str, int], str] = {}

    def add(self, service: Mapping[str, Any]) -> None:
        """Take a Service in; one that cannot be understood is left out, its problems are told elsewhere."""
        metadata, spec = service["metadata"], service.get("spec") or {}
        status = service.get("status") or {}
        title = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
        try:
            addresses = {spec.get("clusterIP"), *(spec.get("clusterIPs") or ()), *(spec.get("externalIPs") or ())}
            addresses.update(item.get("ip") for item in (status.get("loadBalancer") or {}).get("ingress") or ())
            for port in spec.get("ports") or ():
                name = f"{title}:{port.get('name') or port['port']}"
                protocol = (port.get("protocol") or "TCP").lower()
                for address in addresses - {None, "", "None"}:
                    self._by_address.setdefault((protocol, canonical(address), port["port"]), name)
                if port.get("nodePort"):
                    self._by_node_port.setdefault((protocol, port["nodePort"]), name)
        except (AttributeError, KeyError, TypeError, ValueError):
            return

    def name(self, key: VirtualServerKey) -> str:
        """Return ``namespace/name:port``, or "" for a virtual server of nobody we know."""
        found = self._by_address.get((key.protocol, key.address, key.port))
        return found or self._by_node_port.get((key.protocol, key.port), "")


def names_of(objects: Iterable[Mapping[str, Any]]) -> Names:
    """Return the names that the Services among ``objects`` give."""
    names = Names()
    for item in objects:
        if item.get("kind") == "Service":
            names.add(item)
    return names
