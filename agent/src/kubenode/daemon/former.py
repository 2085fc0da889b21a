# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sysctls were before us. The ledger remembers it from the first change on, as long as the values live: until a reboot.

Unlike kube-proxy, which leaves them, ``kubenode cleanup`` gives them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..engine.ledger import Ledger
from ..engine.model import State
from ..engine.plan.step import Step
from ..paths import OWNER

_KIND = "sysctl"


def note(ledger: Ledger, steps: Iterable[Step]) -> None:
    """Remember, before steps are done, what the sysctls among them were before our first change, and what we make of them."""
    changes = [step for step in steps if step.kind == _KIND and step.before is not None]
    if changes:
        known = {key: json.loads(text)[0] for key, text in ledger.notes(OWNER, _KIND).items()}
        ledger.note(OWNER, _KIND, [(step.key, json.dumps([known.get(step.key, step.before), step.after])) for step in changes])


def wanted_back(ledger: Ledger, live: State) -> State:
    """Return the former values of the sysctls that are still as we made them; what somebody changed since stays."""
    notes = {key: json.loads(text) for key, text in ledger.notes(OWNER, _KIND).items()}
    return {_KIND: {key: before for key, (before, ours) in notes.items() if live[_KIND].get(key) == ours}}


def names(ledger: Ledger) -> list[str]:
    """Return the sysctls that we have changed."""
    return sorted(ledger.notes(OWNER, _KIND))


def forget(ledger: Ledger) -> None:
    """Let the values be as they are."""
    ledger.note(OWNER, _KIND, [(key, "") for key in ledger.notes(OWNER, _KIND)])
