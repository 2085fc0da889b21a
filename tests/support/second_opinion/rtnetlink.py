# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, addresses and local routes as pyroute2 reads them, in the engine's model."""

from __future__ import annotations

import socket
from typing import Any

from pyroute2 import IPRoute

from kubenode.engine.model.link import Link, Route, RouteKey

_UP = 1  # IFF_UP
_LOCAL = 255  # RT_TABLE_LOCAL
_TYPE_LOCAL = 2  # RTN_LOCAL
_KERNEL = (0, 1, 2)  # RTPROT_UNSPEC, RTPROT_REDIRECT, RTPROT_KERNEL
_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
_DEFAULT_PRIORITY = {socket.AF_INET: 0, socket.AF_INET6: 1024}


def links() -> dict[str, Link]:
    """Return all links by name."""
    with IPRoute() as routes:
        return {link.get("IFLA_IFNAME"): _link(link) for link in routes.get_links()}


def addresses() -> set[tuple[str, str, int]]:
    """Return link, address and prefix length of all addresses."""
    with IPRoute() as routes:
        names = {link["index"]: link.get("IFLA_IFNAME") for link in routes.get_links()}
        return {
            (names[entry["index"]], entry.get("IFA_LOCAL") or entry.get("IFA_ADDRESS"), entry["prefixlen"])
            for entry in routes.get_addr()
        }


def local_routes() -> list[tuple[RouteKey, Route]]:
    """Return the local routes of all links in the kernel's order, without the kernel's own."""
    present = []
    with IPRoute() as routes:
        names = {link["index"]: link.get("IFLA_IFNAME") for link in routes.get_links()}
        for family in (socket.AF_INET, socket.AF_INET6):
            for entry in routes.get_routes(family=family, table=_LOCAL):
                if entry["type"] == _TYPE_LOCAL and entry["proto"] not in _KERNEL:
                    network = f"{entry.get('RTA_DST') or _ANY[family]}/{entry['dst_len']}"
                    present.append((RouteKey(names[entry.get("RTA_OIF")], network), _route(family, entry)))
    return present


def _link(entry: Any) -> Link:
    return Link(entry.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or "", bool(entry["flags"] & _UP))


def _route(family: int, entry: Any) -> Route:
    priority = entry.get("RTA_PRIORITY") or 0
    return Route(entry["proto"], 0 if priority == _DEFAULT_PRIORITY[family] else priority)
