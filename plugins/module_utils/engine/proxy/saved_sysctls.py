# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Original sysctl values, restored on removal.

The ledger keeps them from the first change until a reboot, which is as long as the changed values live.

A service proxy does not claim sysctls: they always exist, and other software uses them too. Unlike kube-proxy, which
leaves them, it restores their values when it goes: the agent with ``kubenode cleanup``, the module ``service_proxy``
with ``state: absent``.

Root restores the values of a ledger that the agent's user can write. So only the service proxy's own sysctls are
restored, and only to numbers: that user may set these anyway.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from ..desired.sysctls import MANAGED
from ..errors import EngineError, LedgerError
from ..kernel.presence import exists
from ..ledger import LASTING, Ledger
from ..ledger_rows import readable
from ..model import State
from ..model.step import Step

_KIND = "sysctl"
_VALUE = re.compile(r"[0-9]{1,19}\Z")


def note(ledger: Ledger, owner: str, steps: Iterable[Step]) -> None:
    """Save the original and the new values of the steps' sysctls, before the steps are executed."""
    changes = [step for step in steps if step.kind == _KIND and step.before is not None]
    if changes:
        known = {key: was for key, (was, _ours) in saved(ledger, owner).items()}
        ledger.note(
            owner, _KIND, [(step.key, json.dumps([known.get(step.key, step.before), step.after])) for step in changes]
        )


@contextmanager
def noted(ledger: Ledger, owner: str, steps: Iterable[Step]) -> Iterator[None]:
    """Save as :func:`note` does while the steps are executed; restore the ledger for undone steps."""
    steps = list(steps)
    known = ledger.notes(owner, _KIND)
    note(ledger, owner, steps)
    try:
        yield
    except EngineError as error:
        stuck = {failure.step.key for failure in getattr(error, "stuck", ())}
        undone = {step.key for step in steps if step.kind == _KIND} - stuck
        with suppress(LedgerError):  # an outdated note does no harm
            ledger.note(owner, _KIND, [(key, known.get(key, "")) for key in undone])
        raise


def saved(ledger: Ledger, owner: str) -> dict[str, tuple[str, str]]:
    """Return the original value and the last value set by the service proxy, for each changed sysctl.

    Notes that no service proxy writes are ignored and named in ``ledger.problems``.
    """
    values_of = {}
    for key, text in ledger.notes(owner, _KIND).items():
        if key not in MANAGED:
            ledger.ignore("note", _KIND, key, "names a sysctl that no service proxy sets")
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        is_pair = isinstance(values, list) and len(values) == 2
        if is_pair and all(isinstance(value, str) and _VALUE.match(value) for value in values):
            values_of[key] = (values[0], values[1])
        else:
            ledger.ignore("note", _KIND, key, f"has the text {readable(text)!r}, expected two numbers")
    return values_of


def wanted_back(ledger: Ledger, owner: str, live: State) -> State:
    """Return the original values of the sysctls that still have the service proxy's value.

    A value that another process changed since stays. So does one that a task of the module ``sysctls`` sets
    permanently.
    """
    values = saved(ledger, owner)
    claimed = _claimed() if values else ()
    return {
        _KIND: {key: was for key, (was, ours) in values.items() if live[_KIND].get(key) == ours and key not in claimed}
    }


def _claimed() -> Collection[str]:
    """Return the sysctls that have an owner in the lasting ledger.

    Raises:
        KernelError, LedgerError: they cannot be read.
    """
    if not exists(os.path.join(LASTING, "ledger.db"), "ledger"):
        return ()
    ledger = Ledger(LASTING, lasting=True)
    try:
        return set(ledger.others("").get(_KIND, ()))
    finally:
        ledger.close()


def names(ledger: Ledger, owner: str) -> list[str]:
    """Return the sysctls that the service proxy has changed."""
    return sorted(saved(ledger, owner))


def forget(ledger: Ledger, owner: str) -> None:
    """Forget the saved values; unusable notes stay."""
    ledger.note(owner, _KIND, [(key, "") for key in saved(ledger, owner)])
