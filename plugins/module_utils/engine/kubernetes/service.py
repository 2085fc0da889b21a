# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a Service of the Kubernetes API."""

from __future__ import annotations

from typing import Any

from ..errors import InputError, shown
from ..model.ipvs import SCHEDULER_FLAGS, SCHEDULERS
from ..model.net import family, lenient_network, network
from .fields import (
    SERVICE_PROXY_LABEL,
    Fields,
    address,
    annotation,
    contained,
    filled,
    has_label,
    identity,
    port_number,
    protocol,
    read,
    respelled,
    texts,
)
from .objects import Remark, Service, ServicePort

SCHEDULER = "kubenode.ipvs/scheduler"
FLAGS = "kubenode.ipvs/scheduler-flags"
DEFAULT_AFFINITY = 10800
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_LONGEST_AFFINITY = 86400


@contained("Service")
def parse_service(obj: Fields) -> tuple[Service | None, list[Remark]]:
    """Parse a Service.

    Returns:
        The Service, or None if a proxy ignores it (headless, ExternalName, another proxy's); and remarks about values
            that kube-proxy drops or corrects with a log line.

    Raises:
        InputError: the Service cannot be served.
    """
    namespace, name = identity("Service", obj)
    subject = f"Service {namespace}/{name}"
    spec = read(subject, obj, "spec", dict, {})
    kind = read(subject, spec, "spec.type", str, "ClusterIP")
    if kind not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        raise InputError(subject, "spec.type", kind, "ClusterIP, NodePort, LoadBalancer or ExternalName")
    if kind == "ExternalName" or has_label(obj, SERVICE_PROXY_LABEL):
        return None, []
    remarks: list[Remark] = []
    cluster_ips = _cluster_ips(subject, spec, remarks)
    if not cluster_ips:
        return None, []
    families = {family(ip) for ip in cluster_ips}
    given = texts(subject, spec, "spec.externalIPs")
    external = _addresses(subject, "spec.externalIPs", given, families, remarks)
    external_local = _policy(subject, spec, "spec.externalTrafficPolicy") and (kind != "ClusterIP" or bool(given))
    health_port = port_number(subject, "spec.healthCheckNodePort", spec.get("healthCheckNodePort") or 0, 0)
    scheduler, flags = _scheduling(subject, obj)
    service = Service(
        namespace,
        name,
        read(subject, obj["metadata"], "metadata.creationTimestamp", str, ""),
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


def _cluster_ips(subject: str, spec: Fields, remarks: list[Remark]) -> tuple[str, ...]:
    single = read(subject, spec, "spec.clusterIP", str, "")
    several = texts(subject, spec, "spec.clusterIPs") or ([single] if single else [])
    if "None" in (single, *several):
        return ()
    field = "spec.clusterIPs" if spec.get("clusterIPs") else "spec.clusterIP"
    given = filled(subject, field, several, remarks)
    if not given:
        raise InputError(
            subject, "spec.clusterIP", single, "an address (the API server assigns it), or None for a headless service"
        )
    if len(given) > len(_FAMILIES):
        raise InputError(subject, field, several, "at most one address of each family")
    canonical = {ip: address(subject, field, ip, remarks) for ip in given}
    families = [family(canonical[ip]) for ip in given]
    if len(set(families)) < len(families):
        raise InputError(subject, field, several, "at most one address of each family")
    for index, wanted in enumerate(texts(subject, spec, "spec.ipFamilies")[: len(several)]):
        ip = several[index]
        if ip in canonical and _FAMILIES.get(wanted) != family(canonical[ip]):
            raise InputError(subject, f"{field}[{index}]", ip, f"an address of {wanted} as in spec.ipFamilies")
    return tuple(canonical[ip] for ip in given)


def _addresses(
    subject: str, path: str, values: list[str], families: set[int], remarks: list[Remark]
) -> tuple[str, ...]:
    addresses: dict[str, None] = {}
    for value in filled(subject, path, values, remarks):
        ip = address(subject, path, value, remarks)
        if family(ip) in families:
            addresses[ip] = None
        else:
            lacking = (
                f"{subject}: {path} has {shown(value)}, of a family in which the service has no cluster IP; it is"
                " left out"
            )
            remarks.append(Remark(lacking, False))
    return tuple(addresses)


def _ingress(subject: str, obj: Fields) -> list[str]:
    """Return the ingress addresses that nodes must serve: those whose ipMode is VIP or absent."""
    status = read(subject, obj, "status", dict, {})
    balancer = read(subject, status, "status.loadBalancer", dict, {})
    addresses = []
    for item in read(subject, balancer, "status.loadBalancer.ingress", list, []):
        if not isinstance(item, dict):
            raise InputError(subject, "status.loadBalancer.ingress", item, "a mapping")
        ip = read(subject, item, "status.loadBalancer.ingress.ip", str, "")
        mode = item.get("ipMode")
        if mode not in (None, "VIP", "Proxy"):
            raise InputError(subject, "status.loadBalancer.ingress.ipMode", mode, "VIP or Proxy")
        if ip and mode != "Proxy":
            addresses.append(ip)
    return addresses


def _source_ranges(subject: str, spec: Fields, remarks: list[Remark]) -> tuple[str, ...]:
    """Return the networks whose clients are admitted; an empty result admits all clients.

    So ranges in the object must never become an empty result.
    """
    path = "spec.loadBalancerSourceRanges"
    given = texts(subject, spec, path)
    wanted = filled(subject, path, given, remarks)
    if given and not wanted:
        raise InputError(subject, path, given, "networks such as 192.0.2.0/24; an empty list would admit all clients")
    ranges: dict[str, None] = {}
    for text in wanted:
        try:
            masked, plain = lenient_network(text.strip())
        except ValueError:
            # an error, not dropped: without any range, all clients would be admitted
            raise InputError(subject, path, text, "networks such as 192.0.2.0/24") from None
        if not plain:
            remarks.append(respelled(subject, path, text, masked))
        elif _has_host_bits(text.strip()):
            remarks.append(Remark(f"{subject}: {path} has {shown(text)} with host bits set; {masked} is used", False))
        ranges[masked] = None
    return tuple(ranges)


def _has_host_bits(cidr: str) -> bool:
    try:
        network(cidr, strict=True)
    except ValueError:
        return True
    return False


def _ports(subject: str, spec: Fields) -> tuple[ServicePort, ...]:
    ports = []
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
        ports.append(port)
    if not ports:
        raise InputError(subject, "spec.ports", spec.get("ports"), "at least one port")
    return tuple(ports)


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


def _scheduling(subject: str, obj: Fields) -> tuple[str, int]:
    scheduler = annotation(subject, obj, SCHEDULER) or ""
    if scheduler and scheduler not in SCHEDULERS:
        raise InputError(subject, f"annotation {SCHEDULER}", scheduler, "one of " + ", ".join(SCHEDULERS))
    text = annotation(subject, obj, FLAGS)
    if text is None:
        return scheduler, -1
    flags = 0
    for word in text.split(","):
        if word.strip() and word.strip() not in SCHEDULER_FLAGS:
            raise InputError(subject, f"annotation {FLAGS}", text, "a list of " + ", ".join(SCHEDULER_FLAGS))
        flags |= SCHEDULER_FLAGS.get(word.strip(), 0)
    return scheduler, flags
