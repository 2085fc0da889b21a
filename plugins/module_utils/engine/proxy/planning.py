# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent would do: the engine's plan, with graceful termination and with the takeover from kube-proxy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..engine.desired.takeover import SETS, balanced_by_rules, left_behind
from ..engine.model import State
from ..engine.plan import Plan, plan
from ..engine.plan.order import RULES, rules_last
from . import termination


def named(owned: Mapping[str, Collection[Any]], adopt: bool) -> Mapping[str, Collection[Any]]:
    """Return what has to be read by name beside what is wanted: what is ours and, to take over, every set that may be kube-proxy's."""
    return {**owned, "set": {*owned.get("set", ()), *SETS}} if adopt else owned


def make_plan(
    have: State,
    want: State,
    owned: Mapping[str, Any],
    others: Mapping[str, Mapping[Any, str]],
    draining: Mapping[Any, float],
    *,
    connections: Callable[[Collection[Any]], Mapping[Any, tuple[int, int]]] | None,
    now: float,
    maximum: float = 0.0,
    hold: bool = False,
    adopt: bool = False,
) -> tuple[Plan, dict[Any, float]]:
    """Plan with graceful termination; without it if there is no way to count ``connections``.

    Sysctls count as ours: they are not claimed in the ledger, which only remembers what they were (``engine/former.py``).

    Returns:
        The plan, and since when the real servers are draining that it leaves to drain.
    """
    ours: dict[str, Any] = {**owned, "sysctl": want.get("sysctl", {}).keys()}
    left = left_behind(have, others) if adopt else {}
    by_rules = adopt and balanced_by_rules(have)
    if hold:
        whole = plan(have, want, ours, others=others, adopt=adopt)
        # kube-proxy's rules serve what we do not know of, too
        steps = [step for step in whole.steps if step.after is not None and not (by_rules and step.kind in RULES)]
        return Plan(steps, whole.conflicts, whole.adopted), dict(draining)
    servers: Any = owned.get("virtual_server", ())
    if adopt:
        servers = {*servers, *want.get("virtual_server", ()), *left["virtual_server"]}
    candidates = termination.unwanted(have, want, servers)
    verdict = termination.Verdict({}, {})
    if candidates and connections is not None:
        servers = termination.counted(have, candidates)
        counts = connections(servers) if servers else {}
        verdict = termination.retain(have, want, candidates, counts, draining, now, maximum)
        want = {**want, **{kind: {**want.get(kind, {}), **items} for kind, items in verdict.keep.items()}}
    for kind, keys in left.items():
        # what is wanted, or drains, is adopted and claimed; all else goes
        ours[kind] = {*ours.get(kind, ()), *(keys - want.get(kind, {}).keys())}
    prepared = plan(have, want, ours, others=others, adopt=adopt)
    if by_rules:
        prepared = prepared._replace(steps=rules_last(prepared.steps))
    return prepared, verdict.draining
