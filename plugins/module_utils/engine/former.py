# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sysctls were before a service proxy of ours. The ledger remembers it from the first change on, as long as the values live: until a reboot.

A service proxy does not claim sysctls: they are always there, and others want them too. Unlike kube-proxy, which leaves them, it
gives their former values back when it goes: the agent with ``kubenode cleanup``, the module ``service_proxy`` with ``state: absent``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from .errors import EngineError, LedgerError
from .ledger import LASTING, Ledger
from .model import State
from .plan.step import Step

_KIND = "sysctl"


def note(ledger: Ledger, owner: str, steps: Iterable[Step]) -> None:
    """Remember, before steps are done, what the sysctls among them were before our first change, and what we make of them."""
    changes = [step for step in steps if step.kind == _KIND and step.before is not None]
    if changes:
        known = {key: json.loads(text)[0] for key, text in ledger.notes(owner, _KIND).items()}
        ledger.note(owner, _KIND, [(step.key, json.dumps([known.get(step.key, step.before), step.after])) for step in changes])


@contextmanager
def noted(ledger: Ledger, owner: str, steps: Iterable[Step]) -> Iterator[None]:
    """Remember what :func:`note` does, while steps are done; where they are undone, the ledger is as it was."""
    steps = list(steps)
    known = ledger.notes(owner, _KIND)
    note(ledger, owner, steps)
    try:
        yield
    except EngineError as error:
        stuck = {failure.step.key for failure in getattr(error, "stuck", ())}
        undone = {step.key for step in steps if step.kind == _KIND} - stuck
        with suppress(LedgerError):  # a note about a value that is not ours does no harm
            ledger.note(owner, _KIND, [(key, known.get(key, "")) for key in undone])
        raise


def wanted_back(ledger: Ledger, owner: str, live: State) -> State:
    """Return the former values of the sysctls that are still as we made them.

    What somebody changed since stays, and so does what a task wants for good (the module ``sysctls``).
    """
    notes = {key: json.loads(text) for key, text in ledger.notes(owner, _KIND).items()}
    claimed = _claimed() if notes else ()
    return {_KIND: {key: was for key, (was, ours) in notes.items() if live[_KIND].get(key) == ours and key not in claimed}}


def _claimed() -> Collection[str]:
    """Return the sysctls that belong to an owner until he gives them up, whatever the agent or a task does."""
    if not os.path.exists(os.path.join(LASTING, "ledger.db")):
        return ()
    ledger = Ledger(LASTING)
    try:
        return set(ledger.others("").get(_KIND, ()))
    finally:
        ledger.close()


def names(ledger: Ledger, owner: str) -> list[str]:
    """Return the sysctls that we have changed."""
    return sorted(ledger.notes(owner, _KIND))


def forget(ledger: Ledger, owner: str) -> None:
    """Let the values be as they are."""
    ledger.note(owner, _KIND, [(key, "") for key in ledger.notes(owner, _KIND)])
