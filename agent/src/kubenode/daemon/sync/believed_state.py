# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Believed state of the node: its items by the last reading and later writes, and their owners by the ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from ...engine.errors import LedgerError
from ...engine.ledger import Ledger
from ...engine.model import State
from ...engine.model.kinds import KINDS
from ...engine.plan import Plan, Step
from ...paths import OWNER

_OF_SERVICES = ("virtual_server", "address", "route")  # kinds whose items come and go with Services


class BelievedState:
    """Items that the kernel is believed to hold.

    ``owned`` are the agent's keys, ``others`` maps the keys of other owners to their names. ``written`` are the keys
    written since :meth:`begin_reading`, None once that reading has corrected the items.
    """

    def __init__(self) -> None:
        self.items: State = {}
        self.owned: dict[str, set[Any]] = {}
        self.others: dict[str, dict[Any, str]] = {}
        self.written: dict[str, set[Any]] | None = None

    @property
    def is_corrected(self) -> bool:
        """Tell whether the last reading has corrected the items: it goes on, or has ended unfinished, if not."""
        return self.written is None

    def begin_reading(self) -> dict[str, set[Any]]:
        """Track writes from now on; return the set of them, which tells this reading from a later one."""
        self.written = {}
        return self.written

    def read_owners(self, ledger: Ledger) -> None:
        """Read the owners of items."""
        ledger.forget_problems()
        self.owned = ledger.owned(OWNER)
        self.others = ledger.others(OWNER)

    def correct(self, news: Mapping[str, Mapping[Any, Any]]) -> None:
        """Replace items by those that were read, except for keys written since: what was written is known better."""
        written = self.written or {}
        for kind, values in news.items():
            items, skipped = self.items.setdefault(kind, {}), written.get(kind, ())
            for key, value in values.items():
                if key in skipped:
                    continue
                if value is None:
                    items.pop(key, None)
                else:
                    items[key] = value

    def renew(self, news: Mapping[str, Mapping[Any, Any]]) -> None:
        """Replace items by those that were read at once; a reading that began earlier does not know better."""
        written, self.written = self.written, None
        self.correct(news)
        self.written = written
        if written is not None:
            for kind, values in news.items():
                written.setdefault(kind, set()).update(values)

    def record(self, done: Iterable[Step], prepared: Plan) -> None:
        """Record the steps of a plan that were done, and the items that it adopted."""
        for step in done:
            if self.written is not None:
                self.written.setdefault(step.kind, set()).add(step.key)
            items = self.items.setdefault(step.kind, {})
            parent = KINDS[step.kind].parent
            if step.after is None:
                items.pop(step.key, None)
                self.owned.get(step.kind, set()).discard(step.key)
            else:
                items[step.key] = step.after
                if step.before is None and parent is None:
                    self.owned.setdefault(step.kind, set()).add(step.key)
        for kind, keys in prepared.adopted.items():
            self.owned.setdefault(kind, set()).update(keys)

    def release(self, ledger: Ledger, want: Mapping[str, Mapping[Any, Any]]) -> None:
        """Release claims on items that another process removed and that are not desired.

        Otherwise claims would pile up.
        """
        gone = [
            (kind, key)
            for kind in _OF_SERVICES
            for key in self.owned.get(kind, set()) - self.items.get(kind, {}).keys() - want.get(kind, {}).keys()
        ]
        with contextlib.suppress(LedgerError):  # the next comparison releases what cannot be written now
            ledger.forget(OWNER, gone)
            for kind, key in gone:
                self.owned[kind].discard(key)

    def claims(self) -> list[tuple[str, Any]]:
        """Return the agent's own items that the kernel holds."""
        return [(kind, key) for kind, keys in self.owned.items() for key in keys if key in self.items.get(kind, ())]
