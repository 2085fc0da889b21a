# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy of a pass: whether it may remove, whether it adopts, and how long real servers may drain."""

from __future__ import annotations

from typing import NamedTuple


class SyncPolicy(NamedTuple):
    """Policy of the passes until it is replaced by another.

    ``hold`` forbids all removals, as long as the desired state is incomplete. ``adopt`` takes over unowned items with
    the agent's names, kube-proxy's above all. ``max_drain`` bounds draining, in seconds (0: no bound).
    """

    hold: bool = False
    adopt: bool = False
    max_drain: float = 0.0
