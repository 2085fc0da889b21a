# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of many shapes, for recordings of a real API server (:mod:`.record_watches`)."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def _service(name: str, spec: Object, **metadata: Any) -> Object:
    ports = [] if spec.get("type") == "ExternalName" else [{"port": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"ports": ports, **spec},
    }


def _slice(name: str, endpoints: list[Object], ports: list[Object], family: str = "IPv4", **labels: str) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "addressType": family,
        "endpoints": endpoints,
        "ports": ports,
    }


def _node(name: str, spec: Object, addresses: list[Object], **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "spec": spec,
        "status": {
            "addresses": addresses,
            "capacity": {"cpu": "2", "memory": "4Gi"},
            "images": [{"names": ["registry.example/web:1"], "sizeBytes": 1 << 33}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        },
    }


_TEXT = 'ü€🐝 "quoted" \\ <&> \u2028\n'

OBJECTS: list[Object] = [
    _service("plain", {"selector": {"app": "web"}}),
    _service("headless", {"clusterIP": "None"}),
    _service("external-name", {"type": "ExternalName", "externalName": "db.example"}),
    _service(
        "node-port",
        {
            "type": "NodePort",
            "externalTrafficPolicy": "Local",
            "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080, "appProtocol": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
                {"name": "sctp", "port": 65535, "protocol": "SCTP"},
            ],
        },
        labels={"app": "web", "empty": ""},
        annotations={"example.com/text": _TEXT, "example.com/long": "x" * 300, "example.com/empty": ""},
    ),
    _service(
        "balanced",
        {
            "type": "LoadBalancer",
            "loadBalancerIP": "198.51.100.9",
            "loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/64"],
            "loadBalancerClass": "example.com/class",
            "allocateLoadBalancerNodePorts": False,
            "externalTrafficPolicy": "Local",
            "externalIPs": ["198.51.100.1", "198.51.100.2"],
        },
        finalizers=["example.com/protect"],
    ),
    _service(
        "affinity",
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86400}},
            "internalTrafficPolicy": "Local",
            "publishNotReadyAddresses": True,
            "trafficDistribution": "PreferClose",
        },
        ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": True}],
    ),
    _service("dual", {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
    _slice("empty", [], []),
    _slice(
        "conditions",
        [
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": False, "serving": True, "terminating": True}},
            {"addresses": ["10.0.0.4"], "conditions": {"ready": False, "serving": False, "terminating": False}},
        ],
        [{"port": 8080}],
    ),
    _slice(
        "placed",
        [
            {
                "addresses": ["10.0.1.1"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "node1",
                "zone": "zone-a",
                "hostname": "web-0",
                "hints": {"forZones": [{"name": "zone-a"}, {"name": "zone-b"}], "forNodes": [{"name": "node1"}]},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "1-2"},
            },
            {"addresses": ["10.0.1.2"], "nodeName": "node2", "hints": {"forZones": [{"name": "zone-b"}]}},
        ],
        [
            {"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"},
            {"name": "", "port": 5353, "protocol": "UDP"},
            {"name": "any", "protocol": "SCTP"},
        ],
        **{"kubernetes.io/service-name": "node-port", "endpointslice.kubernetes.io/managed-by": "example.com"},
    ),
    _slice("six", [{"addresses": ["2001:db8::1"]}], [{"name": "http", "port": 80}], "IPv6"),
    _slice("names", [{"addresses": ["web.example"]}], [], "FQDN"),
    _node(
        "node1",
        {
            "podCIDR": "10.244.0.0/24",
            "podCIDRs": ["10.244.0.0/24", "fd00:10:244::/64"],
            "providerID": "example://node1",
            "unschedulable": True,
            "taints": [
                {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"},
                {"key": "example.com/t", "effect": "NoExecute", "timeAdded": "2026-02-03T04:05:06Z"},
            ],
        },
        [
            {"type": "InternalIP", "address": "192.0.2.11"},
            {"type": "InternalIP", "address": "2001:db8::11"},
            {"type": "Hostname", "address": "node1"},
        ],
        labels={"topology.kubernetes.io/zone": "zone-a", "kubernetes.io/hostname": "node1"},
        annotations={"example.com/a": "b"},
        finalizers=["example.com/protect"],
    ),
    _node("node2", {}, []),
]

STATUSES: dict[str, Object] = {
    "balanced": {
        "loadBalancer": {
            "ingress": [
                {"ip": "198.51.100.9", "ipMode": "VIP", "ports": [{"port": 80, "protocol": "TCP"}]},
                {
                    "ip": "198.51.100.10",
                    "ipMode": "Proxy",
                    "ports": [{"port": 80, "protocol": "TCP", "error": "example.com/Failed"}],
                },
                {"hostname": "lb.example"},
            ]
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "Pending",
                "message": "",
            }
        ],
    }
}

# Name of an object -> fields of its update; {} deletes it.
CHANGES: dict[str, Object] = {
    "headless": {},
    "six": {},
    "names": {"endpoints": [{"addresses": ["other.example"]}]},
    "balanced": {},  # the finalizer keeps it, with a deletionTimestamp
    "node1": {},
    "node2": {},
}
