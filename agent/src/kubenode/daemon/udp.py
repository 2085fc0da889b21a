# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stale UDP flows: those whose real server went away are forgotten, so that their next packet is balanced anew.

A client that keeps sending from one port keeps its flow alive for ever (kubernetes/kubernetes#76664). As kube-proxy, but with the
endpoints that the virtual server has: those that IPVS would choose. Virtual servers without any are left alone: there is nothing to
redirect to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine.plan import Step

if TYPE_CHECKING:
    from ..engine.kernel.conntrack import Flow

Place = tuple[str, int]  # address, port


def touched(steps: Iterable[Step]) -> set[Any]:
    """Return the UDP virtual servers of which a real server came or went."""
    return {step.key.server for step in steps if step.kind == "real_server" and step.key.server.protocol == "udp"}


def stale(flows: Iterable[Flow], servers: Iterable[Any], real_servers: Mapping[Any, Any]) -> list[Flow]:
    """Return the flows to one of ``servers`` that are answered by none of its real servers."""
    chosen = set(servers)
    answering: dict[Place, set[Place]] = {}
    for key in real_servers:
        if key.server in chosen:
            answering.setdefault((key.server.address, key.server.port), set()).add((key.address, key.port))
    found = []
    for flow in flows:
        mine = answering.get((flow.destination, flow.destination_port))
        if mine is not None and (flow.reply_source, flow.reply_source_port) not in mine:
            found.append(flow)
    return found


def clean(servers: Iterable[Any], real_servers: Mapping[Any, Any]) -> dict[int, int]:
    """Forget the stale flows to ``servers``; return how many, per family that was looked at.

    Raises:
        EngineError: connection tracking cannot be read or written.
    """
    from ..engine.kernel import conntrack

    deleted = {}
    for family in sorted({server.family for server in servers}):
        mine = [server for server in servers if server.family == family]
        deleted[family] = conntrack.delete(stale(conntrack.udp_flows(family), mine, real_servers))
    return deleted
