# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An explanation as data, for JSON and all other forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.ipvs import endpoint
from .faults.case import Case, Fault, is_ours
from .flow import UNKNOWN, Decision

ARRIVES, FAULT = "arrives", "fault"


def report(case: Case, fault: Fault | None, lacking: Sequence[str], observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the explanation of a case.

    ``verdict`` is ``arrives``, ``fault`` or ``unknown``; ``predicted`` the verdict of the path. ``summary`` is one
    sentence. ``decisions`` have stage, text and owner. ``lacking`` names what could not be read.
    """
    path = case.path
    verdict = FAULT if fault is not None else ARRIVES if path.arrives and path.is_certain else UNKNOWN
    doubts = list(dict.fromkeys((*path.doubts, *(text for target in path.targets for text in target.doubts))))
    summary = fault.sentence if fault is not None else path.reason
    return {
        "flow": str(case.flow),
        "protocol": case.flow.protocol,
        "source": case.flow.source,
        "destination": case.flow.destination,
        "port": case.flow.port,
        "in_interface": case.flow.link,
        "service": str(case.facts) if case.facts is not None else "",
        "verdict": verdict,
        "summary": summary,
        "predicted": path.verdict,
        "fault": None if fault is None else {"name": fault.name, "text": fault.sentence, "remedy": fault.remedy},
        "decisions": [_decision(case, decision) for decision in path.decisions],
        "targets": [
            {
                "real_server": endpoint(target.address, target.port),
                "weight": target.weight,
                "client": target.client,
                "masqueraded": target.is_masqueraded,
                "link": target.link,
                "problem": target.problem,
                "endpoint_slice": _slice(case, target.address),
                "decisions": [_decision(case, decision) for decision in target.decisions],
            }
            for target in path.targets
        ],
        "draining": list(path.draining),
        "doubts": doubts,
        "lacking": list(lacking),
        "observed": dict(observed),
    }


def _decision(case: Case, decision: Decision) -> dict[str, str]:
    return {"stage": decision.stage, "text": decision.text, "owner": _owner(case, decision)}


def _owner(case: Case, decision: Decision) -> str:
    """Return the owner of a decision's evidence, for a virtual server with its Service; "" if unknown."""
    if decision.kind == "virtual_server":
        owner = (case.owners or {}).get(decision.key, "no owner") if case.owners is not None else ""
        service = case.cluster.port_of(decision.key) if case.cluster is not None else ""
        return ", ".join(text for text in (owner, service) if text)
    if decision.kind in ("rule", "nft_rule") and case.want is not None:
        return "agent" if is_ours(case, decision) else "another program"
    return ""


def _slice(case: Case, address: str) -> str:
    """Return the EndpointSlice that lists a real server, "" if none does."""
    for piece in case.facts.slices if case.facts is not None else ():
        if any(item.address == address for item in piece.endpoints):
            return f"{piece.namespace}/{piece.name}"
    return ""
