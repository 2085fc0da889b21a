# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of Kubernetes objects that matter to a service proxy, as values.

:mod:`.service`, :mod:`.endpoint_slice` and :mod:`.node` parse them from the plain dictionaries that the Kubernetes API
returns. Addresses and networks are canonical text.
"""

from __future__ import annotations

from typing import NamedTuple

PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}

# Flags of an endpoint.
READY = 1
SERVING = 2
TERMINATING = 4


class Remark(NamedTuple):
    """Remark about an object that is used nevertheless.

    It is ``harmless`` if kube-proxy reads the object in the same way, so that nothing is missing.
    """

    text: str
    harmless: bool


class ServicePort(NamedTuple):
    """Port of a Service.

    ``position`` is its index in ``spec.ports``, ``protocol`` is in lower case, and ``node_port`` 0 means none.
    """

    position: int
    name: str
    protocol: str
    port: int
    node_port: int


class Service(NamedTuple):
    """A Service for a proxy to serve (not headless, not ExternalName, not another proxy's).

    Addresses are of both families; the proxy of one family uses those of its family, and only if ``cluster_ips`` has
    one. ``affinity`` is the timeout of ClientIP affinity in seconds, 0 without affinity. ``health_check_port`` is 0
    unless the Service needs a health check. ``scheduler`` and ``scheduler_flags`` (-1: not given) come from
    annotations.
    """

    namespace: str
    name: str
    created: str
    cluster_ips: tuple[str, ...]
    external_ips: tuple[str, ...]
    load_balancer_ips: tuple[str, ...]
    source_ranges: tuple[str, ...]
    ports: tuple[ServicePort, ...]
    affinity: int
    external_local: bool
    internal_local: bool
    health_check_port: int
    scheduler: str
    scheduler_flags: int


class Endpoint(NamedTuple):
    """Endpoint: its first address, its node ("" if unknown), flags, and the zones and nodes in its hints."""

    address: str
    node: str
    flags: int
    zones: tuple[str, ...]
    nodes: tuple[str, ...]


class EndpointSlice(NamedTuple):
    """A part of a Service's endpoints, of one family; ``ports`` maps (name, lower-case protocol) to a number."""

    namespace: str
    name: str
    service: str
    family: int
    ports: dict[tuple[str, str], int]
    endpoints: tuple[Endpoint, ...]
    weight: int


class Node(NamedTuple):
    """The Node object of this node. ``addresses`` are the primary addresses, at most one per family."""

    name: str
    zone: str
    pod_cidrs: tuple[str, ...]
    addresses: tuple[str, ...]
    eligible: bool
    labels: tuple[tuple[str, str], ...]
