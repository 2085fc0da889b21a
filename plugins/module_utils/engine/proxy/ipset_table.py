# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets that a service proxy decodes again only after one has changed."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import TYPE_CHECKING

from ..model import State
from ..model.step import Step

if TYPE_CHECKING:
    from ..kernel import Result

_KINDS = ("set", "member")


class IpsetTable:
    """Reads and writes sets and their members."""

    def __init__(self) -> None:
        self._fingerprint: bytes | None = None  # of the sets as read last, None if they were written since
        self._writes = 0

    def reading(self, names: Collection[str], believed: State | None) -> Generator[None, None, State]:
        """Return the named sets, in slices: ``believed`` itself if none has changed since the last reading.

        Raises:
            MissingError: no ipset, no kernel support, no right.
        """
        from ..kernel import ipset
        from ..kernel.fingerprint import Fingerprint

        ordered = sorted(names)
        if believed is not None and self._fingerprint is not None:
            present = yield from ipset.reading_fingerprint(ordered)
            if present is not None and present == self._fingerprint:
                return {kind: believed.get(kind, {}) for kind in _KINDS}
        have: State = {kind: {} for kind in _KINDS}
        writes, current, self._fingerprint = self._writes, Fingerprint(), None
        for name in ordered:
            for kind, items in ipset.read([name], use=current.add).items():
                have[kind].update(items)
            yield
        if self._writes == writes and current.parts == len(ordered):  # the tool reads some sets, and adds nothing
            current.end()
            self._fingerprint = current.value
        return have

    def apply(self, steps: list[Step], keep_going: bool = False) -> Result:
        """Execute steps (:func:`..kernel.ipset.apply`)."""
        from ..kernel import ipset

        self._writes += 1
        self._fingerprint = None
        return ipset.apply(steps, keep_going)
