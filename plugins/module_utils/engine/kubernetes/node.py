# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Node, from what the Kubernetes API returns."""

from __future__ import annotations

from ..errors import InputError
from .net import family, network
from .objects import Node
from .objects_fields import Fields, address, identity, labels, read, texts

ZONE_LABEL = "topology.kubernetes.io/zone"
# What the cluster autoscaler puts on a node that it is about to remove.
LEAVING_TAINT = "ToBeDeletedByClusterAutoscaler"


def parse_node(obj: Fields) -> Node:
    """Read a Node.

    Raises:
        InputError: a field that the proxy needs is not what it must be.
    """
    _namespace, name = identity("Node", obj)
    subject = f"Node {name}"
    spec = read(subject, obj, "spec", dict, {})
    cidrs = []
    for cidr in texts(subject, spec, "spec.podCIDRs") or [read(subject, spec, "spec.podCIDR", str, "")]:
        if cidr:
            try:
                cidrs.append(network(cidr))
            except ValueError:
                raise InputError(subject, "spec.podCIDRs", cidr, "networks such as 10.244.1.0/24") from None
    taints = read(subject, spec, "spec.taints", list, [])
    leaving = any(isinstance(taint, dict) and taint.get("key") == LEAVING_TAINT for taint in taints)
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    marks = tuple(sorted((str(key), str(value)) for key, value in labels(obj).items()))
    zone = dict(marks).get(ZONE_LABEL, "")
    return Node(name, zone, tuple(cidrs), _primary(subject, obj), not leaving and not deleted, marks)


def _primary(subject: str, obj: Fields) -> tuple[str, ...]:
    """Return the first address of each family, internal ones before external ones (kubernetes: GetNodeHostIPs)."""
    status = read(subject, obj, "status", dict, {})
    items = read(subject, status, "status.addresses", list, [])
    found: dict[int, str] = {}
    for kind in ("InternalIP", "ExternalIP"):
        for item in items:
            if isinstance(item, dict) and item.get("type") == kind:
                ip = address(subject, "status.addresses", item.get("address"))
                found.setdefault(family(ip), ip)
    return tuple(found.values())
