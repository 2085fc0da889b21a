# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node state in one line, for systemd and ``kubenode status``."""

from __future__ import annotations

from ..interfaces import AgentView


def summary(agent: AgentView) -> str:
    """Return the counts of virtual and real servers, draining real servers and problems."""
    want, draining = agent.reconciler.want, len(agent.reconciler.draining)
    parts = [f"{len(want.get('virtual_server', ()))} virtual servers, {len(want.get('real_server', ()))} real servers"]
    if draining:
        parts.append(f"{draining} draining")
    problems = problem_count(agent)
    if problems:
        parts.append(f"{problems} problem" + ("" if problems == 1 else "s") + " (kubenode status)")
    if agent.reconciler.policy.hold:
        parts.append("nothing is removed until all manifests can be read")
    return "; ".join(parts)


def problem_count(agent: AgentView) -> int:
    """Return the number of objects, settings and steps that could not be used or done."""
    desired, source, record = agent.desired, agent.desired.source, agent.record
    count = len(desired.problems) + len(record.failures) + len(record.conflicts)
    count += len(agent.reconciler.ledger.problems())
    count += len(source.problems) if source is not None else 0
    return count + (len(desired.cluster.problems) if desired.cluster is not None else 0)
