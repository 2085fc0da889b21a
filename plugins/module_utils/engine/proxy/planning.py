# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of the service proxy: the engine's plan with graceful termination and takeover from kube-proxy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..model import State
from ..plan import Plan, Step, plan
from ..plan.order import RULES, translations_last
from .drain import policy as drain_policy
from .hitless import hitless
from .takeover import balanced_by_rules, left_behind, superseded


class Claims(NamedTuple):
    """Keys of the agent and of other owners in the ledger, by kind.

    With ``adopt`` the agent claims unowned items, too.
    """

    owned: Mapping[str, Collection[Any]]
    others: Mapping[str, Mapping[Any, str]]
    adopt: bool = False


def make_plan(
    have: State, want: State, claims: Claims, drain: drain_policy.Drain, *, hold: bool = False
) -> tuple[Plan, dict[Any, float]]:
    """Plan with graceful termination.

    Sysctls count as the agent's: they are not claimed in the ledger, which only keeps their original values
    (``engine/proxy/saved_sysctls.py``).

    Args:
        have: present items by kind.
        want: desired items by kind.
        claims: the claims of the agent and of other owners.
        drain: the real servers that drain already, and the bound.
        hold: remove nothing, since not all objects are known yet.

    Returns:
        The plan, and the drain starts of the real servers that drain after it.
    """
    ours: dict[str, Any] = {**claims.owned, "sysctl": want.get("sysctl", {}).keys()}
    left = left_behind(have, claims.others) if claims.adopt else {}
    by_rules = claims.adopt and balanced_by_rules(have)
    if hold:
        whole = plan(have, want, ours, others=claims.others, adopt=claims.adopt)
        # kube-proxy's rules may serve objects that are not known yet
        steps = [step for step in whole.steps if step.after is not None and not (by_rules and step.kind in RULES)]
        return Plan(steps, whole.conflicts, whole.adopted), dict(drain.since)
    verdict = _retained(have, want, claims, left, drain)
    want = {**want, **{kind: {**want.get(kind, {}), **items} for kind, items in verdict.keep.items()}}
    for kind, keys in superseded(left, want).items():  # desired and draining items are adopted instead
        ours[kind] = {*ours.get(kind, ()), *keys}
    prepared = plan(have, want, ours, others=claims.others, adopt=claims.adopt)
    steps = hitless(prepared.steps, have)
    if by_rules:
        steps = translations_last(steps)
    return prepared._replace(steps=_fallback_last(steps)), verdict.draining


def _retained(
    have: State, want: State, claims: Claims, left: Mapping[str, Collection[Any]], drain: drain_policy.Drain
) -> drain_policy.Verdict:
    """Return the items that stay while real servers drain; ``left`` are the items that kube-proxy has left behind."""
    servers = claims.owned.get("virtual_server", ())  # of the whole node: a change of one Service copies none of it
    if claims.adopt:
        servers = {*servers, *want.get("virtual_server", ()), *left["virtual_server"]}
    candidates = drain_policy.unwanted(have, want, servers)
    if drain.connections is None or not (candidates or drain.elsewhere):
        return drain_policy.Verdict({}, {})
    counted = drain_policy.counted(have, candidates)
    counts = drain.connections(counted) if counted else {}
    return drain_policy.retain(have, want, candidates, counts, drain)


def _fallback_last(steps: list[Step]) -> list[Step]:
    """Remove ``mh-fallback`` from a virtual server only after its drained real server.

    Until then the hash table names that real server.
    """
    last = [step for step in steps if drain_policy.ends_fallback(step)]
    return [*(step for step in steps if step not in last), *last] if last else steps
