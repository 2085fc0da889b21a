# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual servers that a service proxy decodes again only after the table has changed.

Some details of real servers, above all thresholds, cost a request for each virtual server. Each reading makes some of
these requests, in turns.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..model import ReadState, State
from ..model.step import Step

if TYPE_CHECKING:
    from ..kernel import Result
    from ..kernel.ipvs.conversation import Conversation

_A_TURN = 32  # virtual servers: some milliseconds; a thousand take a quarter of an hour
_KINDS = ("virtual_server", "real_server")


class IpvsTable:
    """Reads and writes virtual servers and their real servers; ``precise`` reads every detail each time."""

    def __init__(self, precise: bool) -> None:
        self._precise = precise
        self._next = 0  # the virtual server with which the next turn begins
        self._fingerprint: bytes | None = None  # of the table as read last, None if it was written since
        self._writes = 0
        self._conversation: Conversation | None = None

    def reading(self, want: ReadState, believed: State | None) -> Generator[None, None, State]:
        """Return the table's items, in slices: ``believed`` itself if the table has not changed since the last reading.

        Raises:
            MissingError: no ip_vs, or no right to read it.
        """
        from ..kernel import ipvs

        turn = self._turn(want.get("virtual_server", {}))
        if self._precise or believed is None:  # the first reading of a service proxy, which must be fast
            self._fingerprint = None
            return (yield from ipvs.reading(self._precise or turn))
        from ..kernel.ipvs.fingerprint import IpvsFingerprint, reading_fingerprint

        if self._fingerprint is not None:
            present = yield from reading_fingerprint()
            same = {kind: believed.get(kind, {}) for kind in _KINDS}
            is_unchanged = present is not None and present == self._fingerprint
            if is_unchanged and ipvs.read_details(turn).items() <= same["real_server"].items():
                return same
        writes, current = self._writes, IpvsFingerprint()
        have = yield from ipvs.reading(turn, current)
        if self._writes == writes:
            self._fingerprint = current.value
        return have

    def apply(self, steps: list[Step], keep_going: bool = False) -> Result:
        """Execute steps (:func:`..kernel.ipvs.apply`)."""
        if self._conversation is None:
            from ..kernel.ipvs.conversation import Conversation

            self._conversation = Conversation()
        self._writes += 1
        self._fingerprint = None
        return self._conversation.apply(steps, keep_going)

    def _turn(self, servers: Collection[Any]) -> list[Any]:
        """Return the virtual servers to read in every detail in this turn."""
        start = self._next if self._next < len(servers) else 0
        self._next = start + _A_TURN
        return list(islice(servers, start, self._next))
