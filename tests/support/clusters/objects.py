# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short constructors of Services, EndpointSlices and Nodes in the form of the Kubernetes API."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def port(number: int = 80, name: str = "p80", protocol: str = "TCP", node_port: int = 0) -> Object:
    fields: Object = {"name": name, "protocol": protocol, "port": number, "targetPort": number}
    if node_port:
        fields["nodePort"] = node_port
    return fields


def service(
    name: str = "svc1",
    cluster_ips: list[str] | None = None,
    ports: list[Object] | None = None,
    *,
    kind: str = "ClusterIP",
    ingress: list[Object] | None = None,
    **fields: Any,
) -> Object:
    """Return a Service; ``fields`` are further fields of its metadata and its spec, by their names in the API."""
    ips = ["10.20.30.41"] if cluster_ips is None else cluster_ips
    metadata: Object = {
        "name": name,
        "namespace": "ns1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {},
        "annotations": {},
    }
    metadata.update({field: fields.pop(field) for field in metadata.keys() & fields.keys()})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": kind,
            "clusterIP": ips[0] if ips else "",
            "clusterIPs": ips,
            "ports": [port()] if ports is None else ports,
            **fields,
        },
        "status": {"loadBalancer": {"ingress": ingress} if ingress else {}},
    }


def endpoint(
    address: str,
    node: str | None = None,
    *,
    zones: list[str] | None = None,
    nodes: list[str] | None = None,
    **conditions: bool | None,
) -> Object:
    """Return an endpoint on a node, with hints for zones and nodes; a condition of None is left out."""
    fields: Object = {
        "addresses": [address],
        "conditions": {key: value for key, value in conditions.items() if value is not None},
    }
    if node is not None:
        fields["nodeName"] = node
    hints = {"forZones": zones, "forNodes": nodes}
    if zones or nodes:
        fields["hints"] = {key: [{"name": name} for name in names] for key, names in hints.items() if names}
    return fields


def piece(
    service_name: str = "svc1",
    endpoints: list[Object] | None = None,
    ports: list[Object] | None = None,
    *,
    family: int = 4,
    labels: dict[str, str] | None = None,
    **metadata: Any,
) -> Object:
    """Return an EndpointSlice; ``metadata`` are further fields of its metadata, by their names in the API."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service_name}-{family}",
            "namespace": "ns1",
            "labels": {"kubernetes.io/service-name": service_name, **(labels or {})},
            "annotations": {},
            **metadata,
        },
        "addressType": f"IPv{family}",
        "endpoints": endpoints or [],
        "ports": [{"name": "p80", "protocol": "TCP", "port": 80}] if ports is None else ports,
    }


def node(
    name: str = "test-node", *, zone: str = "", pod_cidrs: list[str] | None = None, addresses: list[str] | None = None
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}},
        "spec": {"podCIDRs": pod_cidrs or []},
        "status": {"addresses": [{"type": "InternalIP", "address": address} for address in addresses or []]},
    }
