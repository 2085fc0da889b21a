# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent says about itself: to ``kubenode status`` and ``show``, to the log (SIGUSR1), to the metrics."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .._version import VERSION
from ..engine.model.ipvs import endpoint

if TYPE_CHECKING:
    from .agent import Agent


def problems(agent: Agent) -> list[dict[str, str]]:
    """Return everything that could not be used or done: what it is about, its name if it has one, and a sentence."""
    found = [{"about": "configuration", "name": "", "text": text} for text in agent.wanted.problems]
    if agent.wanted.source is not None:
        if agent.wanted.source.waiting:
            found.append(
                {"about": agent.wanted.source.about, "name": agent.wanted.source.path, "text": agent.wanted.source.waiting}
            )
        found.extend(
            {"about": agent.wanted.source.about, "name": name, "text": text}
            for name, text in sorted(agent.wanted.source.problems.items())
        )
    if agent.wanted.cluster is not None:
        found.extend(
            {"about": kind, "name": name, "text": text}
            for (kind, name), texts in sorted(agent.wanted.cluster.problems.items())
            for text in texts
        )
    if agent.trouble:
        found.append({"about": "node", "name": "", "text": agent.trouble})
    found.extend({"about": "kernel", "name": step, "text": text} for step, text in agent.failures.items())
    found.extend({"about": "conflict", "name": "", "text": text} for text in agent.conflicts)
    return found


def counts(agent: Agent) -> dict[str, int]:
    """Return how many problems there are, by what they are about."""
    found: dict[str, int] = {}
    for problem in problems(agent):
        found[problem["about"]] = found.get(problem["about"], 0) + 1
    return found


def status(agent: Agent) -> dict[str, Any]:
    """Return the agent's state as plain data."""
    last = agent.last
    now = time.monotonic()
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "started": agent.started,
        "node": agent.wanted.cluster.facts.name if agent.wanted.cluster is not None else "",
        "waiting": agent.waiting,
        "converged": agent.reconciler.synced and not agent.waiting,
        "summary": agent.summary(),
        "items": {kind: len(items) for kind, items in sorted(agent.reconciler.want.items())},
        "last_full_sync": last
        and {
            "seconds": round(last.seconds, 3),
            "steps": len(last.done),
            "failed": len(last.failed),
            "drift": [step.describe() for step in last.drift],
        },
        "draining": [
            {"real_server": str(key), "seconds": round(now - since)} for key, since in sorted(agent.reconciler.draining.items())
        ],
        "holding_removals": agent.reconciler.hold,
        "problems": problems(agent),
        "warnings": agent.wanted.warnings,
        "owners": agent.reconciler.owners(),
    }


def names(agent: Agent) -> dict[str, str]:
    """Return which port of which Service each virtual server is for."""
    cluster, servers = agent.wanted.cluster, agent.reconciler.want.get("virtual_server", {})
    return {str(key): cluster.port_of(key) for key in servers} if cluster is not None else {}


def sync(agent: Agent) -> dict[str, Any]:
    """Do a full pass now and say what came of it."""
    agent.wanted.refresh()
    agent.full("asked for")
    return status(agent)


def dump(agent: Agent) -> None:
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
