# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces of the agent for its parts: what status reads, and what inputs call. No part imports the agent itself."""

from __future__ import annotations

from typing import Protocol

from ..log import Log
from .inputs.desired_state import DesiredState, Options
from .loop import Loop
from .pass_result import PassResult
from .sync.reconciler import Reconciler


class AgentView(Protocol):
    """State of the agent, to be read.

    ``trouble`` says why the last pass did not get through ("" if it did), ``last`` is the last full pass, ``failures``
    maps a step's text to the kernel's reason, ``conflicts`` are items of other owners, ``started`` is in seconds since
    the epoch.
    """

    log: Log
    desired: DesiredState
    reconciler: Reconciler
    started: float
    trouble: str
    last: PassResult | None
    failures: dict[str, str]
    conflicts: list[str]

    @property
    def waiting(self) -> str:
        """Return what the agent waits for, "" for nothing."""


class AgentControl(AgentView, Protocol):
    """Agent whose passes a part may request."""

    options: Options
    loop: Loop

    def changed(self) -> None:
        """Apply changes of the desired state, at once or as soon as ``minSyncPeriod`` allows."""

    def look(self) -> None:
        """Compare the kernel with the desired state in slices."""

    def full(self, reason: str) -> None:
        """Compare the kernel with the desired state and repair it now."""

    def fail(self, reason: str) -> None:
        """End the agent with an error."""
