# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of the API servers: those of the agent's connections, and those in its configuration.

A Service with such an external IP would cut the node off from the API. Only the API could withdraw that Service.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...manifests.api_servers import addresses

_MOST = 64


class Peers:
    """The latest addresses, canonical; any thread may add some."""

    def __init__(self) -> None:
        self.addresses: frozenset[str] = frozenset()
        self._known: tuple[str, ...] = ()

    def add(self, texts: Iterable[str]) -> bool:
        """Add addresses, without texts that are none, such as host names; tell whether an address is new."""
        new = addresses(texts) - self.addresses
        if new:
            self._known = (*self._known, *sorted(new))[-_MOST:]
            self.addresses = frozenset(self._known)
        return bool(new)
