# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a pass: steps done and failed, drift, durations."""

from __future__ import annotations

from typing import NamedTuple

from ..engine.kernel import Failure
from ..engine.plan import Conflict, Step


class PassResult(NamedTuple):
    """Result of a pass: steps done and failed, items of other owners, and its duration.

    ``drift`` are changes made by another process and reverted in this pass.
    """

    full: bool
    done: list[Step]
    failed: list[Failure]
    conflicts: list[Conflict]
    drift: list[Step]
    seconds: float
    tables: dict[str, float]  # seconds spent writing, by table
