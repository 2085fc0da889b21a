# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a Node of the Kubernetes API."""

from __future__ import annotations

from ..errors import InputError
from ..model.net import family, lenient_network
from .fields import Fields, address, contained, filled, identity, labels, read, respelled, subject_of, texts
from .objects import Node, Remark

ZONE_LABEL = "topology.kubernetes.io/zone"
# The cluster autoscaler's taint for a node that it is about to remove.
LEAVING_TAINT = "ToBeDeletedByClusterAutoscaler"


@contained("Node")
def parse_node(obj: Fields) -> tuple[Node, list[Remark]]:
    """Parse a Node.

    Returns:
        The Node, and remarks about fields that are read otherwise than they look.

    Raises:
        InputError: a field that the proxy needs is invalid.
    """
    name = identity("Node", obj)
    subject = subject_of("Node", name)
    remarks: list[Remark] = []
    spec = read(subject, obj, "spec", dict, {})
    given = texts(subject, spec, "spec.podCIDRs") or [read(subject, spec, "spec.podCIDR", str, "")]
    cidrs = []
    for text in given:
        if text:
            try:
                cidr, plain = lenient_network(text)
            except ValueError:
                raise InputError(subject, "spec.podCIDRs", text, "networks such as 10.244.1.0/24") from None
            cidrs.append(cidr)
            if not plain:
                remarks.append(respelled(subject, "spec.podCIDRs", text, cidr))
    taints = read(subject, spec, "spec.taints", list, [])
    leaving = any(isinstance(taint, dict) and taint.get("key") == LEAVING_TAINT for taint in taints)
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    marks = tuple(sorted((str(key), str(value)) for key, value in labels(obj).items()))
    zone = dict(marks).get(ZONE_LABEL, "")
    addresses = _primary(subject, obj, remarks)
    return Node(name[1], zone, tuple(cidrs), addresses, not leaving and not deleted, marks), remarks


def _primary(subject: str, obj: Fields, remarks: list[Remark]) -> tuple[str, ...]:
    """Return the first address of each family, internal ones before external ones (kubernetes: GetNodeHostIPs)."""
    path = "status.addresses"
    status = read(subject, obj, "status", dict, {})
    items = read(subject, status, path, list, [])
    addresses: dict[int, str] = {}
    for kind in ("InternalIP", "ExternalIP"):
        given = [item for item in items if isinstance(item, dict) and item.get("type") == kind]
        values = [read(subject, item, f"{path}.address", str, "") for item in given]
        for value in filled(subject, path, values, remarks):
            ip = address(subject, path, value, remarks)
            addresses.setdefault(family(ip), ip)
    return tuple(addresses.values())
