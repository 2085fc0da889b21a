# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprint of a table: tell without decoding it whether it has changed."""

from __future__ import annotations

from ..digest import blake2b


class Fingerprint:
    """Hash of what the kernel shows, in its order.

    ``value`` is None until :meth:`end`, which is only called when all of the table was added. ``parts`` counts the
    additions.
    """

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.parts = 0
        self._hash = blake2b(digest_size=16)

    def add(self, part: bytes) -> None:
        """Add what the kernel shows next."""
        self.parts += 1
        self._hash.update(part)

    def end(self) -> None:
        """Set the value."""
        self.value = self._hash.digest()
