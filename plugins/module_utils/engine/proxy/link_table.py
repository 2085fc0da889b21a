# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links whose addresses a service proxy decodes again only after one has changed."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import TYPE_CHECKING

from ..model import State
from ..model.step import Step

if TYPE_CHECKING:
    from ..kernel import Result


class LinkTable:
    """Reads links and their addresses; writes links, addresses and routes."""

    def __init__(self) -> None:
        self._fingerprint: bytes | None = None  # of the addresses as read last, None if they were written since
        self._writes = 0

    def reading(self, links: Collection[str], believed: State | None) -> Generator[None, None, State]:
        """Return these links with their addresses, in slices.

        The addresses are those of ``believed`` themselves if none has changed since the last reading.

        Raises:
            KernelError: the kernel does not list them.
        """
        from ..kernel.rtnetlink import addresses

        writes = self._writes
        present = yield from addresses.reading(links, None if believed is None else self._fingerprint)
        if present.addresses is None and believed is not None:
            return {"link": present.links, "address": believed.get("address", {})}
        if self._writes == writes:
            self._fingerprint = present.fingerprint
        return {"link": present.links, "address": present.addresses or {}}

    def apply(self, steps: list[Step], keep_going: bool = False) -> Result:
        """Execute steps (:func:`..kernel.rtnetlink.addresses.apply`)."""
        from ..kernel.rtnetlink import addresses

        self._writes += 1
        self._fingerprint = None
        return addresses.apply(steps, keep_going)
