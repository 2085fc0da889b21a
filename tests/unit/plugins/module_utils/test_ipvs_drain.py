# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain steps in a plan.

tests/kernel tests the wait with connections.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.result import difference
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipvs_drain import Drain
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.model.ipvs import (
    RealServer,
    RealServerKey,
    VirtualServer,
    VirtualServerKey,
)
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.plan import plan

WEB = VirtualServerKey("tcp", "192.0.2.80", 80, 4)
REALS = [RealServerKey(WEB, f"198.51.100.{number}", 8080) for number in range(4)]


def table(**weights: int) -> dict[str, dict[Any, Any]]:
    return {
        "virtual_server": {WEB: VirtualServer()},
        "real_server": {
            key: RealServer(weights[f"r{number}"]) for number, key in enumerate(REALS) if f"r{number}" in weights
        },
    }


def test_weight_0_comes_after_creations_before_removals() -> None:
    made = plan(table(r0=1, r1=2, r2=0), table(r0=3, r3=1), {"virtual_server": {WEB}})
    refined = Drain(60).refine(made)
    assert [
        (step.verb, step.key.address[-1], step.before and step.before.weight, step.after and step.after.weight)
        for step in refined.steps
    ] == [
        ("create", "3", None, 1),
        ("change", "0", 1, 3),
        ("change", "1", 2, 0),
        ("delete", "1", 0, None),
        ("delete", "2", 0, None),
    ]
    gone = f"real server {REALS[1]}"
    shown = difference(refined.steps)
    assert (shown["before"][gone], gone in shown["after"]) == ("weight 2 masquerade", False)


def test_plan_without_removals_is_unchanged() -> None:
    made = plan(table(r0=1), table(r0=0, r1=1), {"virtual_server": {WEB}})
    assert Drain(60).refine(made) == made
