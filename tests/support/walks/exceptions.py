# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exceptions from hitless changes: each is a row of the table in docs/explanation/hitless.md, with the same title."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubenode.engine.explain.flow import DELIVERED, REFUSED, UNBALANCED

from .judging import Violation, is_served


def _is_unbound(violation: Violation) -> bool:
    """Tell whether the node itself reaches a real server with another source than the address, which is not bound."""
    flow = violation.between.flow
    return not violation.flow.link and flow.source != flow.destination and violation.between.verdict == DELIVERED


def _has_nothing_in_common(violation: Violation) -> bool:
    """Tell whether a flow is refused while all of its real servers and its translation are replaced."""
    before, after = ({(t.address, t.port) for t in path.targets} for path in (violation.before, violation.after))
    return before.isdisjoint(after) and violation.between.verdict == REFUSED and is_served(violation.after)


def _is_bound_before_the_rules(violation: Violation) -> bool:
    """Tell whether rules of kube-proxy still send a connection on that already has a virtual address as its source."""
    flow, is_by_rules = violation.between.flow, violation.between.server is None
    is_own = not violation.flow.link and flow.source == flow.destination != violation.before.flow.source
    return is_own and is_by_rules and violation.between.verdict == DELIVERED


def _is_marked_for_kube_proxy(violation: Violation) -> bool:
    """Tell whether kube-proxy's rules accept a connection with the agent's mark, instead of refusing it."""
    is_refused = violation.before.verdict == REFUSED and "KUBE-SERVICES of table filter" in violation.after.reason
    return is_refused and violation.between.verdict == UNBALANCED


EXCEPTIONS: Mapping[str, Callable[[Violation], bool]] = {
    "the node's own connection to an address that is not bound": _is_unbound,
    "other endpoints and another translation at once": _has_nothing_in_common,
    "the node's own connection during a takeover from iptables mode": _is_bound_before_the_rules,
    "a Service without endpoints when kube-proxy in iptables mode takes over": _is_marked_for_kube_proxy,
}


def exception_of(violation: Violation) -> str:
    """Return the title of the exception that a violation is, "" if it is none."""
    return next((title for title, applies in EXCEPTIONS.items() if applies(violation)), "")
