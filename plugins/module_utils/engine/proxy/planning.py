# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan as the agent does: the engine's plan with graceful termination and with the takeover from kube-proxy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..model import State
from ..plan import Plan, Step, plan
from ..plan.order import RULES, rules_last
from .drain import policy as termination
from .takeover import SETS, balanced_by_rules, left_behind


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
    elsewhere: Collection[Any] = (),
) -> tuple[Plan, dict[Any, float]]:
    """Plan with graceful termination; without it if there is no way to count ``connections``.

    ``elsewhere`` are real servers that drain and are not part of this plan.

    Sysctls count as ours: they are not claimed in the ledger, which only remembers what they were
    (``engine/proxy/saved_sysctls.py``).

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
    if (candidates or elsewhere) and connections is not None:
        servers = termination.counted(have, candidates)
        counts = connections(servers) if servers else {}
        verdict = termination.retain(have, want, candidates, counts, draining, now, maximum, elsewhere)
        want = {**want, **{kind: {**want.get(kind, {}), **items} for kind, items in verdict.keep.items()}}
    for kind, keys in left.items():
        # what is wanted, or drains, is adopted and claimed; all else goes
        ours[kind] = {*ours.get(kind, ()), *(keys - want.get(kind, {}).keys())}
    prepared = plan(have, want, ours, others=others, adopt=adopt)
    if by_rules:
        prepared = prepared._replace(steps=rules_last(prepared.steps))
    return prepared._replace(steps=_fallback_last(prepared.steps)), verdict.draining


def _fallback_last(steps: list[Step]) -> list[Step]:
    """Take ``mh-fallback`` from a virtual server after the drained real server has gone: until then the hash table names that one."""
    last = [step for step in steps if termination.ends_fallback(step)]
    return [*(step for step in steps if step not in last), *last] if last else steps
