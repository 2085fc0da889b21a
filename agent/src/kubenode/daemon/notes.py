# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when real servers drain, in the ledger: whoever looks after them next, another agent or the command line, goes on with it."""

from __future__ import annotations

from ..engine.ledger import Ledger
from ..engine.model.ipvs import RealServerKey
from ..paths import OWNER
from .termination import Since

_KIND = "real_server"


def recall(ledger: Ledger) -> dict[RealServerKey, float]:
    """Return what was remembered last."""
    return {key: float(text) for key, text in ledger.notes(OWNER, _KIND).items()}


def remember(ledger: Ledger, before: Since, now: Since) -> None:
    """Remember what drains ``now`` in place of what did ``before``."""
    texts = [(key, repr(since)) for key, since in now.items() if before.get(key) != since]
    ledger.note(OWNER, _KIND, [*texts, *((key, "") for key in before if key not in now)])
