# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status of the agent, as data: for ``kubenode status`` and ``show``, the log (SIGUSR1) and the metrics."""

from __future__ import annotations

import os
import time
from typing import Any

from ..._version import VERSION
from ...container import is_in_container
from ...engine.model.ipvs import endpoint
from ..interfaces import AgentControl, AgentView
from .summary import summary


def problems(agent: AgentView) -> list[dict[str, str]]:
    """Return the objects, settings and steps that could not be used or done.

    Each has ``about``, ``name`` ("" for none) and ``text``.
    """
    rows = [{"about": "configuration", "name": "", "text": text} for text in agent.desired.problems]
    if agent.desired.source is not None:
        if agent.desired.source.waiting:
            rows.append(
                {
                    "about": agent.desired.source.about,
                    "name": agent.desired.source.path,
                    "text": agent.desired.source.waiting,
                }
            )
        rows.extend(
            {"about": agent.desired.source.about, "name": name, "text": text}
            for name, text in sorted(agent.desired.source.problems.items())
        )
    if agent.desired.cluster is not None:
        rows.extend(
            {"about": kind, "name": name, "text": text}
            for (kind, name), texts in sorted(agent.desired.cluster.problems.items())
            for text in texts
        )
    if agent.record.trouble:
        rows.append({"about": "node", "name": "", "text": agent.record.trouble})
    rows.extend({"about": "kernel", "name": step, "text": text} for step, text in agent.record.failures.items())
    rows.extend({"about": "ledger", "name": "", "text": text} for text in agent.reconciler.ledger.problems())
    rows.extend({"about": "conflict", "name": "", "text": text} for text in agent.record.conflicts)
    return rows


def warnings(agent: AgentView) -> list[str]:
    """Return warnings: settings to review, and objects whose fields the agent reads in another spelling."""
    cluster = agent.desired.cluster
    about_objects = cluster.warnings if cluster is not None else {}
    return [*agent.desired.warnings, *(text for _name, texts in sorted(about_objects.items()) for text in texts)]


def counts(agent: AgentView) -> dict[str, int]:
    """Return the number of problems by subject."""
    by_subject: dict[str, int] = {}
    for problem in problems(agent):
        by_subject[problem["about"]] = by_subject.get(problem["about"], 0) + 1
    return by_subject


def status(agent: AgentView) -> dict[str, Any]:
    """Return the agent's state as plain data."""
    last = agent.record.last
    now = time.monotonic()
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "in_container": is_in_container(),
        "started": agent.started,
        "node": agent.desired.cluster.facts.name if agent.desired.cluster is not None else "",
        "waiting": agent.waiting,
        "blocked": agent.desired.blocked,
        "converged": agent.reconciler.synced and not agent.waiting,
        "summary": summary(agent),
        "items": {kind: len(items) for kind, items in sorted(agent.reconciler.want.items())},
        "last_full_sync": last
        and {
            "seconds": round(last.seconds, 3),
            "steps": len(last.done),
            "failed": len(last.failed),
            "drift": [step.describe() for step in last.drift],
        },
        "draining": [
            {"real_server": str(key), "seconds": round(now - since), "most": agent.reconciler.policy.max_drain}
            for key, since in sorted(agent.reconciler.draining.items())
        ],
        "holding_removals": agent.reconciler.policy.hold,
        "problems": problems(agent),
        "warnings": warnings(agent),
        "owners": agent.reconciler.ledger.owners(),
    }


def names(agent: AgentView) -> dict[str, str]:
    """Return the Service port of each virtual server, as ``namespace/name:port``."""
    cluster, servers = agent.desired.cluster, agent.reconciler.want.get("virtual_server", {})
    return {str(key): cluster.port_of(key) for key in servers} if cluster is not None else {}


def services(agent: AgentView) -> dict[str, dict[str, Any]]:
    """Return each desired virtual server with its Service port, and the weight of its real servers."""
    weights: dict[Any, dict[str, int]] = {}
    for key, value in agent.reconciler.want.get("real_server", {}).items():
        weights.setdefault(key.server, {})[endpoint(key.address, key.port)] = value.weight
    cluster, servers = agent.desired.cluster, agent.reconciler.want.get("virtual_server", {})
    if cluster is None:
        return {}
    return {str(key): {"service": cluster.port_of(key), "real_servers": weights.get(key, {})} for key in servers}


def sync(agent: AgentControl) -> dict[str, Any]:
    """Run a full pass now and return the status after it."""
    agent.desired.refresh()
    agent.full("asked for")
    return status(agent)


def dump(agent: AgentView) -> None:
    """Write the whole state to the log."""
    for name, value in status(agent).items():
        if name not in ("problems", "draining"):
            agent.log.info("state", **{name: value})
    for problem in problems(agent):
        agent.log.info("state problem", about=problem["about"], object=problem["name"], reason=problem["text"])
    reals: dict[Any, list[str]] = {}
    for key, value in agent.reconciler.want.get("real_server", {}).items():
        reals.setdefault(key.server, []).append(f"{endpoint(key.address, key.port)}={value.weight}")
    its = names(agent)
    for key, value in agent.reconciler.want.get("virtual_server", {}).items():
        service, _colon, port = its[str(key)].partition(":")
        fields = {"port": port, "server": key, "scheduler": value.scheduler, "real": " ".join(reals.get(key, ()))}
        agent.log.info("state virtual server", object=service, **fields)
    for key, since in agent.reconciler.draining.items():
        service = its.get(str(key.server), "").partition(":")[0]
        agent.log.info("state draining", object=service, real_server=key, seconds=round(time.monotonic() - since))
