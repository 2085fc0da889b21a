# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is and what is wanted to an ordered list of steps: pure functions, no I/O."""

from __future__ import annotations

from .planner import Conflict, Plan, plan
from .step import Step

__all__ = ["Conflict", "Plan", "Step", "plan"]
