# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Graceful termination: remove an unwanted real server when its last connection has ended.

Pure functions. As in kube-proxy, a real server gets weight 0 (no new connections) and stays until the kernel counts no
connection. UDP and SCTP are removed at once, since their "connections" never end by themselves.

Differences from kube-proxy: the weight is 0 before connections are counted, so none is missed. Real servers of a
deleted Service drain in the same way, and their virtual server and its address stay as long. Drain starts survive a
restart (the ledger keeps them). A maximum duration is possible. A real server that is wanted again gets its weight
back.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Any, Callable, NamedTuple

from ...model import ReadState
from ...model.ipvs import SCHED1, RealServerKey, VirtualServer, VirtualServerKey
from ...plan import Step

Connections = Mapping[RealServerKey, tuple[int, int]]  # active, inactive
# Drain starts, in seconds on the monotonic clock: it starts at boot, as the kernel's tables do.
Since = Mapping[RealServerKey, float]

_GRACEFUL = ("tcp", "fwmark")

# Kinds of items that attract the traffic of a virtual server, with the virtual address of each item.
BINDINGS: dict[str, Callable[[Any], str]] = {
    "address": lambda key: str(key.address),
    "route": lambda key: str(key.network.partition("/")[0]),
}


class Drain(NamedTuple):
    """Graceful termination at one moment.

    ``since`` has the known drain starts. ``now`` is in seconds on the monotonic clock. After ``maximum`` seconds a real
    server is removed despite its connections; 0: never. ``connections`` counts the connections of the real servers of
    virtual servers; None: nothing drains. ``elsewhere`` are real servers that drain outside of the planned part of the
    tables, although their virtual servers may be in it.
    """

    since: Since
    now: float
    maximum: float = 0.0
    connections: Callable[[Collection[VirtualServerKey]], Connections] | None = None
    elsewhere: Collection[RealServerKey] = ()


class Verdict(NamedTuple):
    """Items that stay although they are not desired, and the drain start time of each real server among them."""

    keep: dict[str, dict[Any, Any]]
    draining: dict[RealServerKey, float]


def bindings(have: ReadState, addresses: Collection[str]) -> dict[str, set[Any]]:
    """Return the items on the node that attract the traffic of these virtual addresses, by kind."""
    if not addresses:
        return {kind: set() for kind in BINDINGS}
    return {kind: {key for key in have.get(kind, {}) if whose(key) in addresses} for kind, whose in BINDINGS.items()}


def unwanted(have: ReadState, want: ReadState, owned: Collection[Any]) -> list[RealServerKey]:
    """Return the present, unwanted real servers that may drain.

    Args:
        have: present items by kind.
        want: desired items by kind.
        owned: the virtual servers of this owner.
    """
    wanted = want.get("real_server", {})
    return [
        key
        for key in have.get("real_server", {})
        if key not in wanted and key.server in owned and key.server.protocol in _GRACEFUL
    ]


def counted(have: ReadState, candidates: Collection[RealServerKey]) -> set[VirtualServerKey]:
    """Return the virtual servers whose connections must be counted.

    They are those of the candidates with weight 0, which take no new connections.
    """
    reals = have.get("real_server", {})
    return {key.server for key in candidates if reals[key].weight == 0}


def turn(draining: Since, after: RealServerKey | None, most: int, until: float = -math.inf) -> list[RealServerKey]:
    """Return the real servers to check in this turn: the ``most`` that follow ``after``, round robin.

    Real servers that have drained since ``until`` or longer are in every turn.
    """
    order = sorted(draining)
    start = bisect_right(order, after) if after is not None else 0
    chosen = (order[start:] + order[:start])[:most]
    return [*(key for key, since in draining.items() if since <= until and key not in chosen), *chosen]


def retain(
    have: ReadState,
    want: ReadState,
    candidates: Collection[RealServerKey],
    connections: Connections,
    drain: Drain,
) -> Verdict:
    """Decide which of the ``candidates`` stay until they have drained.

    Args:
        have: present items by kind.
        want: desired items by kind.
        candidates: see :func:`unwanted`.
        connections: the connections of each candidate (missing: none). Only read for those with weight 0.
        drain: the drain starts, the time and the bound.
    """
    keep: dict[str, dict[Any, Any]] = {"real_server": {}, "virtual_server": {}, **{kind: {} for kind in BINDINGS}}
    since: dict[RealServerKey, float] = {}
    for key in candidates:
        value = have["real_server"][key]
        start = min(drain.since.get(key, drain.now), drain.now)
        if drain.maximum and key in drain.since and drain.now - start >= drain.maximum:
            continue
        if value.weight == 0 and not any(connections.get(key, (0, 0))):
            continue
        keep["real_server"][key] = value._replace(weight=0)
        since[key] = start
    servers = {key.server for key in since}
    for server in servers - want.get("virtual_server", {}).keys():
        keep["virtual_server"][server] = have["virtual_server"][server]
    addresses = {server.address for server in keep["virtual_server"]}
    for kind, keys in bindings(have, addresses).items():
        keep[kind] = {key: have[kind][key] for key in keys if key not in want.get(kind, {})}
    wanted = want.get("virtual_server", {})
    for server in {*servers, *(key.server for key in drain.elsewhere)} & wanted.keys():
        if wanted[server].scheduler == "mh":
            keep["virtual_server"][server] = with_fallback(wanted[server])
    return Verdict(keep, since)


def with_fallback(server: VirtualServer) -> VirtualServer:
    """Return an ``mh`` virtual server with the flag that it needs while a real server has weight 0.

    The kernel leaves such a real server its share of the hash table (``last_weight``, ip_vs_mh.c). Without
    ``mh-fallback`` it refuses new connections of that share: "no destination available" (kubernetes/kubernetes#139497).
    """
    return server._replace(flags=server.flags | SCHED1)


def ends_fallback(step: Step) -> bool:
    """Tell whether a step removes ``mh-fallback`` from a virtual server because its last drain has ended."""
    if step.kind != "virtual_server" or step.verb != "change":
        return False
    before, after = step.before, step.after
    return before.scheduler == after.scheduler == "mh" and bool(before.flags & ~after.flags & SCHED1)
