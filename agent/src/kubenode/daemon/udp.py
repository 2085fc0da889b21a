# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stale UDP flows: those that no endpoint of their service answers are forgotten, so that their next packet is balanced anew.

A client that keeps sending from one port keeps its flow alive for ever (kubernetes/kubernetes#76664). Judged as kube-proxy does
(``CleanStaleEntries``): by original destination and reply source, and by all endpoints that serve, chosen or not. A flow that an
endpoint answers while it terminates, or in spite of a traffic policy, is not disturbed; where nobody serves there is nothing to redirect to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine.plan import Step

if TYPE_CHECKING:
    from ..engine.kernel.conntrack import Flow

Place = tuple[str, int]  # address, port
Serving = Mapping[Any, frozenset[Place]]  # virtual server -> who may answer


def touched(steps: Iterable[Step]) -> set[Any]:
    """Return the UDP virtual servers of which a real server came or went."""
    return {step.key.server for step in steps if step.kind == "real_server" and step.key.server.protocol == "udp"}


def stale(flows: Iterable[Flow], serving: Serving) -> list[Flow]:
    """Return the flows to one of these virtual servers that none of its endpoints answers."""
    answering = {(server.address, server.port): places for server, places in serving.items()}
    found = []
    for flow in flows:
        mine = answering.get((flow.destination, flow.destination_port))
        if mine is not None and (flow.reply_source, flow.reply_source_port) not in mine:
            found.append(flow)
    return found


def clean(serving: Serving) -> dict[int, tuple[int, set[Any]]]:
    """Forget the stale flows to virtual servers; return how many and to which, per family that was looked at.

    Raises:
        EngineError: connection tracking cannot be read or written.
    """
    from ..engine.kernel import conntrack

    deleted = {}
    for family in sorted({server.family for server in serving}):
        mine = {server: places for server, places in serving.items() if server.family == family}
        flows = stale(conntrack.udp_flows(family), mine)
        places = {(flow.destination, flow.destination_port) for flow in flows}
        deleted[family] = conntrack.delete(flows), {server for server in mine if (server.address, server.port) in places}
    return deleted
