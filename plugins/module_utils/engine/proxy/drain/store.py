# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Persist drain start times, and the holders of virtual servers that several Services may claim, in the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...desired.service_vips import Name
from ...desired.vip_allocator import VipHolders
from ...ledger import Ledger
from ...ledger_rows import readable
from ...model.ipvs import RealServerKey, VirtualServerKey
from .policy import Since

_KIND = "real_server"
_HELD = "virtual_server"


def recall(ledger: Ledger, owner: str) -> dict[RealServerKey, float]:
    """Return the drain start time of each real server; unusable notes are ignored and named in ``ledger.problems``."""
    since = {}
    for key, text in ledger.notes(owner, _KIND).items():
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value) and isinstance(key, RealServerKey):
            since[key] = value
        else:
            ledger.ignore("note", _KIND, key, f"has the text {readable(text)!r}, expected seconds")
    return since


def remember(ledger: Ledger, owner: str, before: Since, now: Since) -> None:
    """Replace the notes of ``before`` by the draining real servers of ``now``."""
    texts = [(key, repr(since)) for key, since in now.items() if before.get(key) != since]
    ledger.note(owner, _KIND, [*texts, *((key, "") for key in before if key not in now)])


def recall_holders(ledger: Ledger, owner: str) -> VipHolders:
    """Return the Services that held virtual servers; unusable notes are ignored and named in ``ledger.problems``."""
    holders: dict[VirtualServerKey, Name] = {}
    for key, text in ledger.notes(owner, _HELD).items():
        namespace, _slash, name = text.partition("/")
        if namespace and name and isinstance(key, VirtualServerKey):
            holders[key] = (namespace, name)
        else:
            ledger.ignore("note", _HELD, key, f"has the text {readable(text)!r}, expected NAMESPACE/NAME of a Service")
    return holders


def remember_holders(ledger: Ledger, owner: str, changes: Mapping[VirtualServerKey, Name | None]) -> None:
    """Persist the Services that hold virtual servers; None means no holder."""
    ledger.note(owner, _HELD, [(key, "/".join(name) if name else "") for key, name in changes.items()])
