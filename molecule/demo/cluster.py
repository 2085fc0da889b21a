# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the demo: manifests of Services and EndpointSlices as ``kubectl get -o yaml`` prints them, and parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

MANIFESTS = Path(__file__).resolve().parent / "manifests"
POD_NETWORK = "10.244.0.0/16"


class Pod(NamedTuple):
    """Pod behind an endpoint: name, node and address."""

    name: str
    node: str
    address: str


class Service(NamedTuple):
    """Service with its addresses and ports, and the fields that decide which pod answers and which client it sees."""

    name: str
    protocol: str  # tcp, udp
    address: str  # its ClusterIP
    port: int
    node_port: int  # 0 if it has none
    local: bool  # externalTrafficPolicy Local: only the requested node's endpoints answer, and see the client's address
    sticky: bool  # ClientIP affinity: the same endpoint answers all requests of a client
    target_port: int
    pods: tuple[Pod, ...]

    def without(self, pod: str) -> Service:
        """Return the service without this pod."""
        return self._replace(pods=tuple(each for each in self.pods if each.name != pod))

    def including(self, pod: Pod) -> Service:
        """Return the service with this pod added."""
        return self._replace(pods=(*self.pods, pod))


# Spare pod: runs from the start, and becomes an endpoint during the demo.
SPARE = Pod("web-4", "node2", "10.244.2.14")


def read() -> dict[str, Service]:
    """Return the services of all manifests by name, in the order of their addresses."""
    services = sorted(map(_service, MANIFESTS.glob("*.yaml")), key=lambda service: service.address)
    return {service.name: service for service in services}


def pods(services: dict[str, Service]) -> list[Pod]:
    """Return all pods that must run: those behind a service, and the spare one."""
    return sorted({pod for service in services.values() for pod in service.pods} | {SPARE})


def _service(path: Path) -> Service:
    service, endpoints = yaml.safe_load(path.read_text())["items"]
    spec = service["spec"]
    (port,) = spec["ports"]
    return Service(
        name=service["metadata"]["name"],
        protocol=port["protocol"].lower(),
        address=spec["clusterIP"],
        port=port["port"],
        node_port=port.get("nodePort", 0),
        local=spec.get("externalTrafficPolicy") == "Local",
        sticky=spec["sessionAffinity"] == "ClientIP",
        target_port=port["targetPort"],
        pods=tuple(_pod(endpoint) for endpoint in endpoints["endpoints"]),
    )


def _pod(endpoint: dict[str, Any]) -> Pod:
    return Pod(endpoint["targetRef"]["name"], endpoint["nodeName"], endpoint["addresses"][0])


def edited(service: Service) -> str:
    """Return a service's manifest with its endpoints changed to ``service.pods``, and nothing else."""
    document = yaml.safe_load((MANIFESTS / f"{service.name}.yaml").read_text())
    endpoint_slice = document["items"][1]
    known = {endpoint["targetRef"]["name"]: endpoint for endpoint in endpoint_slice["endpoints"]}
    template = next(iter(known.values()))
    endpoint_slice["endpoints"] = [known.get(pod.name) or _endpoint(template, pod) for pod in service.pods]
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=200)


def _endpoint(template: dict[str, Any], pod: Pod) -> dict[str, Any]:
    reference = {"kind": "Pod", "name": pod.name, "namespace": template["targetRef"]["namespace"]}
    return {**template, "addresses": [pod.address], "nodeName": pod.node, "targetRef": reference}


class _Plain(yaml.SafeDumper):
    """YAML dumper without anchors and aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True
