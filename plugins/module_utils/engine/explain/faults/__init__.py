# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a connection: the first difference between the desired state and the predicted path, with a remedy.

Each file has a table of checks for one group of causes. :func:`find` asks them in order, from what stops the packet to
what only threatens it.
"""

from __future__ import annotations

from . import foreign, items, services, system
from .case import Case, Fault, case_of

__all__ = ["Case", "Fault", "case_of", "find"]

CHECKS = (
    *services.UNKNOWN,
    *foreign.SERVERS,
    *system.ARRIVAL,
    *foreign.RULES,
    *items.CHECKS,
    *services.UNSERVED,
    *system.PATH,
    *system.LATENT,
)


def find(case: Case) -> Fault | None:
    """Return the first fault of a connection; None if it arrives as wanted."""
    for check in CHECKS:
        fault = check(case)
        if fault is not None:
            return fault
    return None
