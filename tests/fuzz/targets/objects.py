# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single Services, EndpointSlices and Nodes, from a generator that knows their fields and corrupts some."""

from __future__ import annotations

import random
from typing import Any

from fuzz.choices import Choices, wreck
from fuzz.target import Target

from kubenode.engine.kubernetes.endpoint_slice import parse_slice
from kubenode.engine.kubernetes.node import parse_node
from kubenode.engine.kubernetes.service import parse_service

NAMES = ("a", "b", "c")
CLUSTER_IPS = ("10.96.0.1", "10.96.0.2", "fd00::1", "fd00::2", "None", "")
PUBLIC_IPS = ("203.0.113.1", "203.0.113.2", "2001:db8::1", "10.96.0.1", "10.99.0.11", "127.0.0.1", "fd00::1")
PODS = ("10.244.1.1", "10.244.1.2", "10.244.2.1", "fd00:244::1", "fd00:244::2")
NODES = ("n1", "n2", "")
PROTOCOLS = ("TCP", "UDP", "SCTP")
_RANGES = ("192.0.2.0/24", "10.0.0.0/8", "2001:db8::/32", "192.0.2.7/24", "0.0.0.0/0")
_POLICIES = ("Cluster", "Local")
_LABELS = ("service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless", "x")
_SCHEDULERS = ("wrr", "mh", "sh", "xx", "")
_FLAGS = ("flag-1", "flag-1,flag-2", "sh-port", "mh-fallback, mh-port", "7", "")
_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName")


def service(choices: Choices) -> dict[str, Any]:
    """Return a Service, mostly one that a proxy serves."""
    port_names = ("p", "q", "")
    spec: dict[str, Any] = {
        "type": choices.pick(_TYPES),
        "clusterIPs": choices.some(CLUSTER_IPS, 2) or ["10.96.0.1"],
        "ports": [
            {
                "name": choices.pick(port_names),
                "port": choices.pick((80, 443)),
                "protocol": choices.pick(PROTOCOLS),
                "nodePort": choices.pick((0, 0, 30001, 30002)),
            }
            for _ in range(1 + choices.below(2))
        ],
        "externalIPs": choices.some(PUBLIC_IPS, 2),
        "externalTrafficPolicy": choices.pick(_POLICIES),
        "internalTrafficPolicy": choices.pick(_POLICIES),
        "sessionAffinity": choices.pick(("None", "ClientIP")),
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": choices.pick((10800, 1, 86400))}},
        "healthCheckNodePort": choices.pick((0, 32000, 32001)),
        "loadBalancerSourceRanges": choices.some(_RANGES, 2),
        "ipFamilies": choices.some(("IPv4", "IPv6"), 1),
    }
    metadata = _metadata(choices)
    if choices.chance(3):
        metadata["annotations"] = {
            "kubenode.ipvs/scheduler": choices.pick(_SCHEDULERS),
            "kubenode.ipvs/scheduler-flags": choices.pick(_FLAGS),
        }
    ingress = [{"ip": ip, "ipMode": choices.pick(("VIP", "Proxy"))} for ip in choices.some(PUBLIC_IPS, 2)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": spec,
        "status": {"loadBalancer": {"ingress": ingress}},
    }


def slice_(choices: Choices) -> dict[str, Any]:
    """Return an EndpointSlice, mostly of a Service that may exist."""
    metadata = _metadata(choices)
    metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/service-name": choices.pick(NAMES)}
    if choices.chance(3):
        metadata["annotations"] = {"kubenode.ipvs/weight": choices.pick(("1", "0", "65535", "65536", "-1"))}
    endpoints = []
    for _ in range(choices.below(4)):
        item: dict[str, Any] = {"addresses": [choices.pick(PODS)], "nodeName": choices.pick(NODES)}
        states = (None, True, False)
        item["conditions"] = {name: choices.pick(states) for name in ("ready", "serving", "terminating")}
        if choices.chance(3):
            item["hints"] = {"forZones": [{"name": "z1"}], "forNodes": [{"name": choices.pick(NODES)}]}
        endpoints.append(item)
    ports = [
        {"name": choices.pick(("p", "q", "")), "port": choices.pick((8080, 53, 0)), "protocol": choices.pick(PROTOCOLS)}
        for _ in range(choices.below(3))
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": choices.pick(("IPv4", "IPv4", "IPv6", "FQDN")),
        "endpoints": endpoints,
        "ports": ports,
    }


def node(choices: Choices) -> dict[str, Any]:
    """Return a Node, mostly that of the node whose state is computed."""
    metadata = _metadata(choices)
    metadata["name"] = choices.pick(("n1", "n1", "n2"))
    metadata["labels"] = {"topology.kubernetes.io/zone": choices.pick(("z1", "z2")), "x": "y"}
    spec: dict[str, Any] = {"podCIDRs": choices.some(("10.244.1.0/24", "fd00:244:1::/64", "10.244.1.0"), 2)}
    if choices.chance(4):
        spec["taints"] = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    kinds = ("InternalIP", "ExternalIP", "Hostname")
    addresses = [{"type": choices.pick(kinds), "address": ip} for ip in choices.some(PUBLIC_IPS, 3)]
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"addresses": addresses}}


def _metadata(choices: Choices) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": choices.pick(NAMES),
        "namespace": choices.pick(("default", "default", "other")),
        "creationTimestamp": f"2026-01-0{1 + choices.below(3)}T00:00:00Z",
    }
    if choices.chance(8):
        metadata["labels"] = {choices.pick(_LABELS): "x"}
    return metadata


MAKERS = {"Service": service, "EndpointSlice": slice_, "Node": node}


def spoilt(choices: Choices, kind: str, most: int = 3) -> dict[str, Any]:
    """Return an object with up to ``most`` corruptions; it stays a mapping of its kind."""
    item = MAKERS[kind](choices)
    for _ in range(choices.below(most + 1)):
        changed = wreck(choices, item)
        item = {**changed, "kind": kind} if isinstance(changed, dict) else item
    return item


def seeds(number: int, longest: int, seed: int) -> list[bytes]:
    """Return random bytes: the generators make whole objects of any bytes."""
    source = random.Random(seed)
    return [source.randbytes(source.randint(longest // 8, longest)) for _ in range(number)]


def _service(data: bytes) -> None:
    parse_service(spoilt(Choices(data), "Service"))


def _slice(data: bytes) -> None:
    parse_slice(spoilt(Choices(data), "EndpointSlice"))


def _node(data: bytes) -> None:
    parse_node(spoilt(Choices(data), "Node"))


TARGETS = {
    "service": Target(_service, seeds(40, 160, 1), longest=256),
    "slice": Target(_slice, seeds(40, 160, 2), longest=256),
    "node": Target(_node, seeds(20, 80, 3), longest=128),
}
