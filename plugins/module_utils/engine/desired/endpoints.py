# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the endpoints of a virtual server: traffic policies, topology hints, terminating endpoints.

The rules are kube-proxy's ``CategorizeEndpoints`` and, in ipvs mode, its fall-back to the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..kubernetes.objects import READY, SERVING, TERMINATING, Endpoint, EndpointSlice

Target = tuple[str, int, int]  # address, port, weight
_LAST_RESORT = SERVING | TERMINATING


class Candidate(NamedTuple):
    """An endpoint of a service port, with the number of its port and the weight of its slice."""

    endpoint: Endpoint
    port: int
    weight: int


class Choice(NamedTuple):
    """The endpoints of one service port in one family.

    ``cluster`` and ``local`` are None if no policy of the service uses them. ``any`` is true if any endpoint of the
    cluster could serve.
    """

    cluster: list[Candidate] | None
    local: list[Candidate] | None
    any: bool

    def all(self) -> list[Candidate]:
        """Return the used endpoints, without duplicates."""
        used = list(self.cluster or ())
        used.extend(item for item in self.local or () if item not in used)
        return used


def candidates(
    slices: Iterable[EndpointSlice], family: int, name: str, protocol: str, node: str
) -> dict[tuple[str, int], Candidate]:
    """Return the endpoints of a service port, by address and port, without duplicates.

    Of endpoints with the same address and port, one that is not terminating wins (kube-proxy: addEndpoints): a new pod
    may have the address before the old pod's endpoint is removed. Then one on this node wins, then the first.
    """
    chosen: dict[tuple[str, int], Candidate] = {}
    make = tuple.__new__  # half the time of Candidate(…): a large Service has thousands
    for piece in slices:
        if piece.family != family:
            continue
        port = piece.ports.get((name, protocol))
        if port is None:
            continue
        weight = piece.weight
        for endpoint in piece.endpoints:
            key = (endpoint.address, port)
            earlier = chosen.get(key)
            if earlier is None or _rank(endpoint, node) > _rank(earlier.endpoint, node):
                chosen[key] = make(Candidate, (endpoint, port, weight))
    return chosen


def _rank(endpoint: Endpoint, node: str) -> tuple[bool, bool]:
    return not endpoint.flags & TERMINATING, bool(node) and endpoint.node == node


def choose(endpoints: Iterable[Candidate], uses_cluster: bool, uses_local: bool, node: str, zone: str) -> Choice:
    """Choose the endpoints for cluster-wide and for node-local traffic.

    Args:
        endpoints: all endpoints of a service port.
        uses_cluster: a traffic policy of the service is Cluster.
        uses_local: a traffic policy of the service is Local.
        node: this node's name.
        zone: this node's zone, or "".
    """
    listed = list(endpoints)
    cluster: list[Candidate] | None = None
    local: list[Candidate] | None = None
    any_usable = False
    if uses_cluster:
        cluster = _near([item for item in listed if item.endpoint.flags & READY], node, zone)
        if not cluster:
            cluster = [item for item in listed if item.endpoint.flags & _LAST_RESORT == _LAST_RESORT]
        any_usable = bool(cluster)
    if uses_local:
        here = [item for item in listed if item.endpoint.node == node]
        local = [item for item in here if item.endpoint.flags & READY]
        if not local:
            local = [item for item in here if item.endpoint.flags & _LAST_RESORT == _LAST_RESORT]
        any_usable = any_usable or bool(local) or (not uses_cluster and any(_usable(item) for item in listed))
    return Choice(cluster, local, any_usable)


def _usable(item: Candidate) -> bool:
    return bool(item.endpoint.flags & READY or item.endpoint.flags & _LAST_RESORT == _LAST_RESORT)


def _near(ready: list[Candidate], node: str, zone: str) -> list[Candidate]:
    """Keep the ready endpoints with hints for this node, or else for this zone; all if a hint is missing."""
    if not ready or not (ready[0].endpoint.zones or ready[0].endpoint.nodes):
        return ready
    if all(item.endpoint.nodes for item in ready):
        nearest = [item for item in ready if node in item.endpoint.nodes]
        if nearest:
            return nearest
    if zone and all(item.endpoint.zones for item in ready):
        near = [item for item in ready if zone in item.endpoint.zones]
        if near:
            return near
    return ready


def targets(choice: Choice, local_only: bool, fall_back: bool) -> list[Candidate]:
    """Return the real servers of a virtual server.

    Without local endpoints, a policy Local falls back to the cluster's endpoints (kubernetes/kubernetes#97081). Pods of
    this node reach them. Traffic from outside is forwarded without masquerading, so its replies are lost.
    """
    if local_only and (choice.local or not fall_back):
        return choice.local or []
    return choice.cluster or []
