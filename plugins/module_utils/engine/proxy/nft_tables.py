# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables that a service proxy reads again only after another process has changed tables.

Every transaction increments the kernel's generation by one. After a transaction of ours, a generation that is higher by
exactly one tells that nothing else happened since the last reading. A listing at each pass would cost far more than all
else (kubernetes/kubernetes#139513).
"""

from __future__ import annotations

from collections.abc import Collection

from ..kernel import Result, nftables
from ..kernel.nftables.conversation import Conversation
from ..model import State
from ..model.nftables import KINDS, NftSet, SetKey, TableKey
from ..model.step import Step

_GENERATIONS = 1 << 32


class NftTables:
    """Reads and writes tables, and remembers the generation up to which nothing else has changed."""

    def __init__(self) -> None:
        self._conversation = Conversation()
        # The kernel's after the last own transaction, if nothing else happened; None if unknown.
        self._generation: int | None = None
        self._sets: dict[SetKey, NftSet] = {}  # those that the kernel had at that generation

    def read(self, tables: Collection[TableKey], believed: State | None) -> State:
        """Return the tables' items: ``believed`` itself if it is known and nothing else has changed tables.

        Raises:
            MissingError: the kernel lacks nftables, or the right is missing.
        """
        known = self._generation
        if believed is not None and known is not None and known == self._conversation.generation():
            return {kind: believed.get(kind, {}) for kind in KINDS}
        self._generation, state = nftables.read_generation(tables)
        self._sets = dict(state["nft_set"])
        return state

    def apply(self, steps: list[Step], keep_going: bool = False) -> Result:
        """Execute steps in one transaction (:func:`..kernel.nftables.apply`)."""
        before, self._generation = self._generation, None
        result = self._conversation.apply(steps, keep_going, None if before is None else self._sets)
        if before is not None and result.done and not result.failed:
            self._generation = (before + 1) % _GENERATIONS
            for step in result.done:
                self._record(step)
        return result

    def _record(self, step: Step) -> None:
        if step.kind == "nft_set" and step.after is not None:
            self._sets[step.key] = step.after
        elif step.kind == "nft_set":
            self._sets.pop(step.key, None)
        elif step.kind == "nft_table" and step.after is None:
            self._sets = {key: value for key, value in self._sets.items() if key.table != step.key}
