# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's ledger: opened when it is needed, recreated after another process has removed or replaced the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from ...engine.errors import LedgerError
from ...engine.ledger import Ledger
from ...engine.node_lock import node_lock
from ...paths import OWNER

_LOCK_SECONDS = 0.25  # to wait for another process; the loop stands still meanwhile
_LEDGER_SECONDS = 2.0


class AgentLedger:
    """Opens the ledger of a directory.

    Args:
        directory: contains the ledger.
        known: returns the agent's own items that it has seen in the kernel: they are claimed again in a new file. The
            names in the kernel alone do not show the owner of an item: kube-proxy's are the same.
    """

    def __init__(self, directory: str, known: Callable[[], Iterable[tuple[str, Any]]]) -> None:
        self.notice: Callable[[str], None] = lambda _text: None  # gets the text when the ledger was recreated
        self._directory = directory
        self._known = known
        self._ledger: Ledger | None = None
        self._is_lost = False  # whether the file was removed, and is not recreated yet

    def locked(self) -> AbstractContextManager[int]:
        """Hold the node's lock, waiting a moment for another process that holds it (LockedError)."""
        return node_lock(self._directory, _LOCK_SECONDS)

    def open(self) -> Ledger:
        """Return the open ledger.

        Raises:
            EngineError: it cannot be opened or recreated; the next call tries again.
        """
        if self._ledger is not None and not self._ledger.is_current():
            self._ledger.close()
            self._ledger, self._is_lost = None, True
        if self._ledger is None:
            self._ledger = Ledger(self._directory, _LEDGER_SECONDS)
        if self._is_lost:
            self._recreate(self._ledger)
            self._is_lost = False
        return self._ledger

    def owned(self) -> dict[str, set[Any]]:
        """Return the agent's keys by kind.

        Raises:
            EngineError: the ledger cannot be read.
        """
        return self.open().owned(OWNER)

    def close(self) -> None:
        """Close the file."""
        if self._ledger is not None:
            self._ledger.close()

    def problems(self) -> list[str]:
        """Return the rows that could not be used when the ledger was read last."""
        return self._ledger.problems if self._ledger is not None else []

    def owners(self) -> dict[str, int]:
        """Return the number of keys that each owner claims.

        Return nothing if the ledger was never opened, or cannot be read, which passes report.
        """
        try:
            return self._ledger.owners() if self._ledger is not None else {}
        except LedgerError:
            return {}

    def _recreate(self, ledger: Ledger) -> None:
        taken = ledger.others(OWNER)
        items = [(kind, key) for kind, key in self._known() if key not in taken.get(kind, ())]
        ledger.claim(OWNER, items)
        self.notice(
            f"ledger {ledger.path} was removed or replaced by another process; it has {len(items)} items of the agent"
            " again. Items that other owners had claimed there are unowned now: run their tasks again with adopt"
        )
