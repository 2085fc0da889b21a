# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in the objects: the Service, its port, its endpoints and their conditions, traffic policies, source ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...desired.endpoints import candidates
from ...desired.service_vips import Name, Origin
from ...kubernetes.objects import READY, SERVING, TERMINATING
from ...model.ipvs import endpoint
from ...model.net import contains, family
from ..flow import DELIVERED, DROPPED, REFUSED
from .case import Case, Fault, ServiceFacts, decisions

_PROXY_LABEL = "service.kubernetes.io/service-proxy-name"


def _named(name: Name) -> str:
    return f"Service {name[0]}/{name[1]}"


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _addresses(obj: Mapping[str, Any]) -> set[str]:
    """Return every address that a Service names, in its own spelling."""
    spec, status = _spec(obj), obj.get("status")
    found = {str(spec.get("clusterIP", "")), *map(str, spec.get("clusterIPs") or ())}
    found.update(map(str, spec.get("externalIPs") or ()))
    balancer = status.get("loadBalancer") if isinstance(status, Mapping) else None
    ingress = balancer.get("ingress") if isinstance(balancer, Mapping) else None
    found.update(str(item.get("ip", "")) for item in ingress or () if isinstance(item, Mapping))
    return found - {"", "None"}


def _names_of(case: Case) -> Iterator[Name]:
    """Yield the Services that name the destination's address, or its port as a node port."""
    for name, obj in case.objects.items():
        ports = [port for port in _spec(obj).get("ports") or () if isinstance(port, Mapping)]
        is_node_port = any(port.get("nodePort") == case.flow.port for port in ports)
        if case.flow.destination in _addresses(obj) or (is_node_port and case.view.is_local(case.flow.destination)):
            yield name


def _unserved(case: Case) -> bool:
    """Tell whether no virtual server is wanted for the flow."""
    return case.cluster is not None and case.want is not None and case.flow.key not in case.want["virtual_server"]


def refused_service(case: Case) -> Fault | None:
    """Find a Service that the agent refuses: as a whole, or this address."""
    if not _unserved(case) or case.cluster is None:
        return None
    problems = case.cluster.problems
    for name in _names_of(case):
        texts = problems.get(("Service", f"{name[0]}/{name[1]}"), ())
        for text in texts:
            if name not in case.cluster.services() or _concerns(case, text):
                return Fault("service-refused", f"the agent does not serve it: {text}", "correct the field")
    return None


def _concerns(case: Case, text: str) -> bool:
    """Tell whether a problem of a Service is about the flow's address and port, or its node port."""
    key = case.flow.key
    if f"{key.address}:" in text:
        return f"{key}'" in text or f"{key} " in text
    return key.address in text or f"'{key.protocol} {key.port}'" in text


def ignored_service(case: Case) -> Fault | None:
    """Find a Service that a service proxy leaves to others: headless, ExternalName, or with another proxy's label."""
    if not _unserved(case) or case.cluster is None:
        return None
    for name in _names_of(case):
        if name in case.cluster.services():
            continue
        obj = case.objects[name]
        metadata = obj.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        if isinstance(labels, Mapping) and _PROXY_LABEL in labels:
            sentence = (
                f"{_named(name)} has the label {_PROXY_LABEL}={labels[_PROXY_LABEL]}, so the agent leaves it alone"
            )
            return Fault("other-proxy", sentence, "remove the label, or ask that proxy")
        if _spec(obj).get("type") == "ExternalName":
            return Fault(
                "external-name", f"{_named(name)} is of type ExternalName: it has no virtual server", "use DNS"
            )
    return None


def proxy_mode(case: Case) -> Fault | None:
    """Find an address of a load balancer that does not want nodes to serve it."""
    if not _unserved(case):
        return None
    for name in _names_of(case):
        status = case.objects[name].get("status")
        balancer = status.get("loadBalancer", {}) if isinstance(status, Mapping) else {}
        for item in balancer.get("ingress") or ():
            if item.get("ip") == case.flow.destination and item.get("ipMode") == "Proxy":
                if case.path.verdict == DELIVERED:
                    return None
                sentence = (
                    f"{case.flow.destination} of {_named(name)} has ipMode Proxy: only the load balancer serves it"
                )
                return Fault("proxy-mode", sentence, "check the load balancer and the route to it")
        config = case.cluster.config if case.cluster is not None else None
        if config is not None and not config.bind_load_balancer_ips and case.flow.destination in {
            str(item.get("ip")) for item in balancer.get("ingress") or ()
        }:  # fmt: skip
            sentence = (
                f"bindLoadBalancerIPs is false, so the node does not serve {case.flow.destination} of {_named(name)}"
            )
            return Fault(
                "load-balancer-not-bound", sentence, "check the load balancer, or set bindLoadBalancerIPs: true"
            )
    return None


def node_port_address(case: Case) -> Fault | None:
    """Find a node port on an address that does not serve node ports."""
    if not _unserved(case) or case.cluster is None or not case.view.is_local(case.flow.destination):
        return None
    facts = case.facts
    if facts is None or facts.port.node_port != case.flow.port:
        return None
    if case.path.verdict == DELIVERED:
        return None
    context = case.cluster.context_of(case.flow.family)
    address = case.flow.destination
    if not any(family(ip) == case.flow.family for ip in facts.service.cluster_ips):
        return _other_family(case, facts)
    if address.startswith("127.") or address == "::1":
        if case.flow.family == 4 and not context.config.localhost_node_ports:
            sentence = f"node port {facts.port.node_port} of {facts} is not served on {address}"
            return Fault("node-port-localhost", sentence, "set localhostNodePorts: true, or use an address of the node")
        return None
    if address not in context.node_port_ips:
        served = ", ".join(context.node_port_ips) or "no address"
        sentence = f"nodePortAddresses leaves out {address}: node port {facts.port.node_port} is served on {served}"
        return Fault("node-port-address", sentence, "use one of these addresses, or extend nodePortAddresses")
    return None


def _other_family(case: Case, facts: ServiceFacts) -> Fault:
    sentence = f"{facts} has no cluster IP of IPv{case.flow.family}, so nothing of it is served in this family"
    return Fault("other-family", sentence, "make the Service dual-stack (spec.ipFamilyPolicy)")


def wrong_port(case: Case) -> Fault | None:
    """Find a destination whose address belongs to a Service, but not its port or protocol."""
    if not _unserved(case) or case.cluster is None or case.facts is not None:
        return None
    for name, service in case.cluster.services().items():
        if case.flow.destination in (*service.cluster_ips, *service.external_ips, *service.load_balancer_ips):
            ports = ", ".join(f"{port.protocol} {port.port}" for port in service.ports)
            sentence = f"{_named(name)} has no port {case.flow.protocol} {case.flow.port} (it has {ports})"
            return Fault("wrong-port", sentence, "use a port of the Service, or add this one")
    return None


def no_service(case: Case) -> Fault | None:
    """Find a destination that no Service has."""
    if not _unserved(case) or case.facts is not None or case.path.arrives:
        return None
    where = endpoint(case.flow.destination, case.flow.port)
    if case.view.server(case.flow.key) is not None:
        return None
    return Fault("no-service", f"no Service has {case.flow.protocol} {where}", "check address, port and protocol")


def source_range(case: Case) -> Fault | None:
    """Find source ranges that exclude the client."""
    facts, ideal = case.facts, case.ideal
    if (
        facts is None
        or ideal is None
        or facts.claim is None
        or case.flow.destination not in facts.service.load_balancer_ips
    ):
        return None
    stopped = ideal.verdict == DROPPED or any(target.problem for target in ideal.targets)
    rules = [decision for decision in decisions(ideal) if decision.kind in ("rule", "nft_rule")]
    dropped = any("drops it" in rule.text for rule in rules)
    ranges = [net for net in facts.service.source_ranges if family(net) == case.flow.family]
    if (
        not stopped
        or not dropped
        or not ranges
        or any(contains(net, case.flow.source) for net in ranges if case.flow.link)
    ):
        return None
    client = case.flow.source if case.flow.link else "the node itself"
    sentence = f"spec.loadBalancerSourceRanges of {_named(facts.name)} ({', '.join(ranges)}) excludes {client}"
    return Fault("source-range", sentence, "add the client's network to the ranges")


def no_endpoint(case: Case) -> Fault | None:
    """Find out why a Service port has no endpoint for this connection."""
    facts = case.facts
    if facts is None or facts.claim is None or facts.claim.targets or case.cluster is None:
        return None
    if case.ideal is not None and case.ideal.verdict not in (REFUSED, DROPPED):
        return None
    reason, remedy, name = _why_none(case, facts, case.cluster.context_of(case.flow.family).node)
    return Fault(name, f"{facts} has no endpoint for this connection: {reason}", remedy)


def _why_none(case: Case, facts: ServiceFacts, node: str) -> tuple[str, str, str]:
    fam, port = case.flow.family, facts.port
    problems = case.cluster.problems if case.cluster is not None else {}
    for (kind, name), texts in problems.items():
        if kind == "EndpointSlice" and name.startswith(f"{facts.name[0]}/{facts.name[1]}"):
            return texts[0], "correct the EndpointSlice", "slice-refused"
    slices = [piece for piece in facts.slices if piece.family == fam]
    if not slices:
        found = "no EndpointSlice" if not facts.slices else f"no EndpointSlice of IPv{fam}"
        return f"there is {found}", "check that spec.selector matches the labels of the pods", "no-slice"
    if not any(piece.endpoints for piece in slices):
        names = ", ".join(piece.name for piece in slices[:3])
        text = f"EndpointSlice {names} lists none"
        return text, "check that spec.selector matches the labels of running pods", "no-endpoints"
    if not any((port.name, port.protocol) in piece.ports for piece in slices):
        present = sorted({f"{protocol} {name or '(no name)'}" for piece in slices for name, protocol in piece.ports})
        text = f"EndpointSlice {slices[0].name} has no port {port.protocol} {port.name or '(no name)'}"
        text += f" (it has {', '.join(present) or 'none'})"
        return text, "give the port of the Service and of the pods the same name and protocol", "port-name"
    listed = candidates(slices, fam, port.name, port.protocol, node).values()
    usable = [item for item in listed if item[0].flags & READY]
    if usable:
        policy = (
            "internalTrafficPolicy"
            if facts.claim and facts.claim.origin is Origin.CLUSTER_IP
            else "externalTrafficPolicy"
        )
        elsewhere = ", ".join(f"{item[0].address} on {item[0].node or 'an unknown node'}" for item in usable[:3])
        text = f"{policy} is Local, and the ready endpoints are on other nodes ({elsewhere})"
        return text, f"use {policy}: Cluster, a pod on this node, or a node with a pod", "policy-local"
    words = []
    for item in list(listed)[:3]:
        flags = item[0].flags
        state = "terminating" if flags & TERMINATING else "not ready"
        state += "" if flags & SERVING else " and not serving"
        words.append(f"{item[0].address} is {state}")
    text = f"{', '.join(words)} (EndpointSlice {slices[0].name})"
    return text, "check the readiness probe and the state of the pods", "not-ready"


def weight_zero(case: Case) -> Fault | None:
    """Find endpoints that get no connection because the weight of their EndpointSlice is 0."""
    facts = case.facts
    if facts is None or facts.claim is None or not facts.claim.targets:
        return None
    if any(weight for _address, _port, weight in facts.claim.targets):
        return None
    slices = ", ".join(piece.name for piece in facts.slices if piece.weight == 0)
    sentence = f"each endpoint of {facts} has weight 0: annotation kubenode.ipvs/weight of EndpointSlice {slices}"
    return Fault("weight-annotation", sentence, "give a weight of at least 1")


def local_fallback(case: Case) -> Fault | None:
    """Find a policy Local without local endpoints, whose answers do not return to clients outside."""
    facts, ideal = case.facts, case.ideal
    if facts is None or ideal is None or ideal.verdict != DELIVERED or ideal.arrives or not facts.claim:
        return None
    if not facts.service.external_local or facts.claim.origin is Origin.CLUSTER_IP or not case.flow.link:
        return None
    if not any("past the node" in target.problem for target in ideal.targets):
        return None
    sentence = (
        f"externalTrafficPolicy of {facts} is Local, and this node has no endpoint: answers do not return through it"
    )
    return Fault("local-fallback", sentence, "send to a node with an endpoint (health check node port), or use Cluster")


def not_masqueraded(case: Case) -> Fault | None:
    """Find a configuration with which the answers of other nodes' pods do not return."""
    ideal = case.ideal
    if ideal is None or ideal.verdict != DELIVERED or ideal.arrives or not case.flow.link or case.cluster is None:
        return None
    if not any("past the node" in target.problem for target in ideal.targets):
        return None
    sentence = f"the connection of {case.flow.source} is not masqueraded, so answers go past the node"
    mode = case.cluster.config.detect_local_mode
    return Fault("not-masqueraded", sentence, f"check clusterCIDR and detectLocalMode ({mode}), or set masqueradeAll")


UNKNOWN = (refused_service, ignored_service, proxy_mode, node_port_address, wrong_port, no_service)
UNSERVED = (source_range, no_endpoint, weight_zero, local_fallback, not_masqueraded)
