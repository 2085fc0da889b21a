# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan: compare the present with the desired state and return an ordered list of steps. Pure functions, no I/O."""

from __future__ import annotations

from ..model.step import Step
from .planner import Conflict, Plan, plan

__all__ = ["Conflict", "Plan", "Step", "plan"]
