# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of the API servers: those of the agent's connections, and those in its configuration.

A Service that had one of them as its external IP would cut the node off from the API. Only the API could withdraw that
Service.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from ...engine.model.net import canonical

_MOST = 64
_MAPPED = "::ffff:"


class Peers:
    """The last addresses, canonical; any thread may add some."""

    def __init__(self) -> None:
        self.addresses: frozenset[str] = frozenset()
        self._known: tuple[str, ...] = ()

    def add(self, texts: Iterable[str]) -> bool:
        """Add addresses, and leave out what is none, such as a host name; tell whether one of them is new."""
        found = {address for address in map(_address, texts) if address} - self.addresses
        if found:
            self._known = (*self._known, *sorted(found))[-_MOST:]
            self.addresses = frozenset(self._known)
        return bool(found)


def host(url: str) -> str:
    """Return the host of a URL, "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _address(text: str) -> str:
    bare = text.partition("%")[0]
    try:
        return canonical(bare[len(_MAPPED) :] if bare.startswith(_MAPPED) and "." in bare else bare)
    except ValueError:
        return ""
