# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Service, from what the Kubernetes API returns."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .ipvs import SCHEDULER_FLAGS, SCHEDULERS
from .net import family, network
from .objects import Service, ServicePort
from .objects_fields import Fields, address, identity, notes, ours, port_number, protocol, read, texts

SCHEDULER = "kubenode.ipvs/scheduler"
FLAGS = "kubenode.ipvs/scheduler-flags"
DEFAULT_AFFINITY = 10800
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_LONGEST_AFFINITY = 86400


def parse_service(obj: Fields) -> tuple[Service | None, list[str]]:
    """Read a Service.

    Returns:
        The Service, or None if a proxy has nothing to do for it (headless, ExternalName, another proxy's); and what is
        wrong with it without keeping it from being served: what kube-proxy drops or mends with a log line.

    Raises:
        InputError: it cannot be served as it is.
    """
    namespace, name = identity("Service", obj)
    subject = f"Service {namespace}/{name}"
    spec = read(subject, obj, "spec", dict, {})
    kind = read(subject, spec, "spec.type", str, "ClusterIP")
    if kind not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        raise InputError(subject, "spec.type", kind, "ClusterIP, NodePort, LoadBalancer or ExternalName")
    if kind == "ExternalName" or not ours(obj):
        return None, []
    cluster_ips = _cluster_ips(subject, spec)
    if not cluster_ips:
        return None, []
    remarks: list[str] = []
    families = {family(ip) for ip in cluster_ips}
    given = texts(subject, spec, "spec.externalIPs")
    external = _addresses(subject, "spec.externalIPs", given, families, remarks)
    external_local = _policy(subject, spec, "spec.externalTrafficPolicy") and (kind != "ClusterIP" or bool(given))
    health_port = port_number(subject, "spec.healthCheckNodePort", spec.get("healthCheckNodePort") or 0, 0)
    scheduler, flags = _scheduling(subject, notes(obj))
    service = Service(
        namespace,
        name,
        str(obj["metadata"].get("creationTimestamp") or ""),
        cluster_ips,
        external,
        _addresses(subject, "status.loadBalancer.ingress", _ingress(subject, obj), families, remarks),
        _source_ranges(subject, spec, remarks),
        _ports(subject, spec),
        _affinity(subject, spec),
        external_local,
        _policy(subject, spec, "spec.internalTrafficPolicy"),
        health_port if kind == "LoadBalancer" and external_local else 0,
        scheduler,
        flags,
    )
    return service, remarks


def _cluster_ips(subject: str, spec: Fields) -> tuple[str, ...]:
    single = read(subject, spec, "spec.clusterIP", str, "")
    several = texts(subject, spec, "spec.clusterIPs") or ([single] if single else [])
    if "None" in (single, *several):
        return ()
    if not several:
        raise InputError(
            subject, "spec.clusterIP", single, "an address (the API server assigns it), or None for a headless service"
        )
    field = "spec.clusterIPs" if spec.get("clusterIPs") else "spec.clusterIP"
    found = tuple(address(subject, field, ip) for ip in several)
    families = [family(ip) for ip in found]
    if len(families) > 2 or len(set(families)) < len(families):
        raise InputError(subject, field, several, "at most one address of each family")
    for index, wanted in enumerate(texts(subject, spec, "spec.ipFamilies")[: len(found)]):
        if _FAMILIES.get(wanted) != families[index]:
            raise InputError(subject, f"{field}[{index}]", several[index], f"an address of {wanted} as in spec.ipFamilies")
    return found


def _addresses(subject: str, path: str, values: list[str], families: set[int], remarks: list[str]) -> tuple[str, ...]:
    found = []
    for value in values:
        ip = address(subject, path, value)
        if family(ip) not in families:
            remarks.append(f"{subject}: {path} has {value!r}, of a family in which the service has no cluster IP; it is left out")
        elif ip not in found:
            found.append(ip)
    return tuple(found)


def _ingress(subject: str, obj: Fields) -> list[str]:
    """Return the ingress addresses that a node has to answer for: those whose ipMode is VIP or not given."""
    status = read(subject, obj, "status", dict, {})
    balancer = read(subject, status, "status.loadBalancer", dict, {})
    found = []
    for item in read(subject, balancer, "status.loadBalancer.ingress", list, []):
        if not isinstance(item, dict):
            raise InputError(subject, "status.loadBalancer.ingress", item, "a mapping")
        ip = item.get("ip")
        mode = item.get("ipMode")
        if mode not in (None, "VIP", "Proxy"):
            raise InputError(subject, "status.loadBalancer.ingress.ipMode", mode, "VIP or Proxy")
        if ip and mode != "Proxy":
            found.append(ip)
    return found


def _source_ranges(subject: str, spec: Fields, remarks: list[str]) -> tuple[str, ...]:
    path = "spec.loadBalancerSourceRanges"
    found = []
    for text in texts(subject, spec, path):
        cidr = text.strip()
        try:
            masked = network(cidr)
            if "/" not in cidr:
                raise ValueError
        except ValueError:
            # not dropped: a range less may mean that everybody is let in
            raise InputError(subject, path, text, "networks such as 192.0.2.0/24") from None
        try:
            network(cidr, strict=True)
        except ValueError:
            remarks.append(f"{subject}: {path} has {text!r} with host bits set; {masked} is used")
        if masked not in found:
            found.append(masked)
    return tuple(found)


def _ports(subject: str, spec: Fields) -> tuple[ServicePort, ...]:
    found = []
    names = set()
    for index, item in enumerate(read(subject, spec, "spec.ports", list, [])):
        path = f"spec.ports[{index}]"
        if not isinstance(item, dict):
            raise InputError(subject, path, item, "a mapping")
        port = ServicePort(
            index,
            read(subject, item, f"{path}.name", str, ""),
            protocol(subject, f"{path}.protocol", item.get("protocol")),
            port_number(subject, f"{path}.port", item.get("port")),
            port_number(subject, f"{path}.nodePort", item.get("nodePort") or 0, 0),
        )
        if port.name in names:
            raise InputError(subject, f"{path}.name", port.name, "a name that no other port of the service has")
        names.add(port.name)
        found.append(port)
    if not found:
        raise InputError(subject, "spec.ports", spec.get("ports"), "at least one port")
    return tuple(found)


def _affinity(subject: str, spec: Fields) -> int:
    affinity = read(subject, spec, "spec.sessionAffinity", str, "None")
    if affinity not in ("None", "ClientIP"):
        raise InputError(subject, "spec.sessionAffinity", affinity, "None or ClientIP")
    if affinity == "None":
        return 0
    config: Any = read(subject, spec, "spec.sessionAffinityConfig", dict, {})
    client: Any = read(subject, config, "spec.sessionAffinityConfig.clientIP", dict, {})
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = read(subject, client, path, int, DEFAULT_AFFINITY)
    if not 0 < seconds <= _LONGEST_AFFINITY:
        raise InputError(subject, path, seconds, f"seconds from 1 to {_LONGEST_AFFINITY}")
    return int(seconds)


def _policy(subject: str, spec: Fields, path: str) -> bool:
    policy = read(subject, spec, path, str, "") or "Cluster"
    if policy not in ("Cluster", "Local"):
        raise InputError(subject, path, policy, "Cluster or Local")
    return bool(policy == "Local")


def _scheduling(subject: str, given: Fields) -> tuple[str, int]:
    scheduler = given.get(SCHEDULER, "")
    if scheduler and scheduler not in SCHEDULERS:
        raise InputError(subject, f"annotation {SCHEDULER}", scheduler, "one of " + ", ".join(SCHEDULERS))
    text = given.get(FLAGS)
    if text is None:
        return scheduler, -1
    flags = 0
    for word in str(text).split(","):
        if word.strip() and word.strip() not in SCHEDULER_FLAGS:
            raise InputError(subject, f"annotation {FLAGS}", text, "a list of " + ", ".join(SCHEDULER_FLAGS))
        flags |= SCHEDULER_FLAGS.get(word.strip(), 0)
    return scheduler, flags
