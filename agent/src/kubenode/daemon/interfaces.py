# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces of the agent for its parts: what status reads, and what inputs call. No part imports the agent itself.

:class:`~.pass_scheduler.PassScheduler` implements both.
"""

from __future__ import annotations

from typing import Protocol

from ..log import Log
from .inputs.desired_state import DesiredState
from .loop import Loop
from .pass_result import PassRecord, PassSubscriber
from .sync.reconciler import Reconciler


class AgentView(Protocol):
    """State of the agent, to be read. ``started`` is in seconds since the epoch."""

    log: Log
    desired: DesiredState
    reconciler: Reconciler
    record: PassRecord
    started: float

    @property
    def waiting(self) -> str:
        """Return what the agent waits for, "" for nothing."""


class AgentControl(AgentView, Protocol):
    """Agent whose passes a part may request."""

    loop: Loop

    def subscribe(self, *subscribers: PassSubscriber) -> None:
        """Tell these of passes, before those that subscribed earlier."""

    def unsubscribe(self, subscriber: PassSubscriber) -> None:
        """Tell this one no more."""

    def changed(self) -> None:
        """Apply changes of the desired state, at once or as soon as ``minSyncPeriod`` allows."""

    def look(self) -> None:
        """Compare the kernel with the desired state in slices."""

    def look_at_rules(self) -> None:
        """Do as :meth:`look` after another process changed rules: compare tables of nftables alone, if it has any."""

    def full(self, reason: str) -> None:
        """Compare the kernel with the desired state and repair it now."""
