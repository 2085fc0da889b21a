# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flow that the options of ``kubenode explain`` describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..engine.errors import EngineError, shown
from ..engine.explain.flow import Flow
from ..engine.model.net import canonical, family

if TYPE_CHECKING:
    from ..engine.desired.cluster import Cluster
    from ..engine.explain.view import NodeView
    from ..engine.kubernetes.objects import Service, ServicePort

_PROTOCOLS = ("tcp", "udp", "sctp")
_LAST_PORT = 65535


class WrongFlowError(EngineError):
    """The flow that the options describe cannot be."""


def requested(options: argparse.Namespace, cluster: Cluster | None) -> Flow:
    """Return the flow without its link.

    Raises:
        WrongFlowError: the flow cannot be.
    """
    if options.flow:
        return _spelled(options.flow)
    source = _address("--from", options.source) if options.source not in (None, "node") else ""
    if options.service is not None:
        return _to_service(options, cluster, source)
    number = _port("--node-port", options.node_port)
    destination = _node_address(cluster, family(source) if source else 4)
    return Flow(options.protocol or "tcp", source, destination, number)


def arriving(options: argparse.Namespace, flow: Flow, view: NodeView) -> Flow:
    """Return the flow with the link by which it arrives, and with the source address of the node's own flow.

    Raises:
        WrongFlowError: there is no such link.
    """
    from ..engine.proxy.node_view import arrival_link

    link = options.in_interface
    if link is not None and link not in view.host.links:
        raise WrongFlowError(f"--in-interface is {shown(link)}, expected a link of this node")
    if flow.source and link is None and not view.is_local(flow.source):
        link = arrival_link(view.host, flow)
        if not link:
            raise WrongFlowError(f"no route leads to {flow.source}: name the link by which it arrives (--in-interface)")
    return _with_source(view, flow._replace(link=link or ""))


def _spelled(words: list[str]) -> Flow:
    if len(words) != 3:
        raise WrongFlowError(f"FLOW is {' '.join(words)!r}, expected PROTOCOL SOURCE ADDRESS:PORT")
    protocol, source, destination = words
    if protocol not in _PROTOCOLS:
        raise WrongFlowError(f"protocol is {shown(protocol)}, expected tcp, udp or sctp")
    address, port = _endpoint(destination)
    client = "" if source == "node" else _address("source", source)
    if client and family(client) != family(address):
        raise WrongFlowError(f"source {client} and destination {address} are of two families, expected one")
    return Flow(protocol, client, address, port)


def _endpoint(text: str) -> tuple[str, int]:
    address, colon, port = text.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise WrongFlowError(f"destination is {shown(text)}, expected an IPv6 address in brackets: [ADDRESS]:PORT")
    if not colon:
        raise WrongFlowError(f"destination is {shown(text)}, expected ADDRESS:PORT")
    return _address("destination", address), _port("destination port", port)


def _address(field: str, text: str) -> str:
    try:
        return canonical(text)
    except ValueError:
        raise WrongFlowError(f"{field} is {shown(text)}, expected an IP address") from None


def _port(field: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _LAST_PORT):
        raise WrongFlowError(f"{field} is {shown(text)}, expected a number from 1 to {_LAST_PORT}")
    return int(text)


def _to_service(options: argparse.Namespace, cluster: Cluster | None, source: str) -> Flow:
    namespace, slash, name = options.service.partition("/")
    if not slash or not namespace or not name:
        raise WrongFlowError(f"--service is {shown(options.service)}, expected NAMESPACE/NAME")
    if cluster is None:
        raise WrongFlowError("--service needs the objects: name them with --objects, or give ADDRESS:PORT")
    service = cluster.services().get((namespace, name))
    if service is None:
        problems = cluster.problems.get(("Service", options.service), ())
        reason = problems[0] if problems else f"there is no Service {options.service} that a service proxy serves"
        raise WrongFlowError(reason)
    port = _service_port(service, options.port)
    wanted = family(source) if source else family(service.cluster_ips[0])
    address = next((ip for ip in service.cluster_ips if family(ip) == wanted), "")
    if not address:
        raise WrongFlowError(f"Service {options.service} has no cluster IP of IPv{wanted}, the family of {source}")
    return Flow(port.protocol, source, address, port.port)


def _service_port(service: Service, wanted: str | None) -> ServicePort:
    found = [port for port in service.ports if wanted is None or wanted in (port.name, str(port.port))]
    if len(found) == 1 or (wanted is not None and found):
        return found[0]
    listed = ", ".join(f"{port.name or port.port} ({port.protocol} {port.port})" for port in service.ports)
    subject = f"Service {service.namespace}/{service.name}"
    if wanted is None:
        raise WrongFlowError(f"{subject} has several ports, expected --port with one of: {listed}")
    raise WrongFlowError(f"--port is {shown(wanted)}, expected a port of {subject}: {listed}")


def _node_address(cluster: Cluster | None, fam: int) -> str:
    """Return the address of this node that serves node ports; without objects, its primary address."""
    from ..engine.proxy import node

    if cluster is not None:
        context = cluster.context_of(fam)
        if context.node_ip in context.node_port_ips:
            return context.node_ip
        if context.node_port_ips:
            return context.node_port_ips[0]
    primary = [ip for ip in node.facts(node.name()).node_ips if family(ip) == fam]
    if not primary:
        raise WrongFlowError(f"this node has no address of IPv{fam}")
    return primary[0]


def _with_source(view: NodeView, flow: Flow) -> Flow:
    """Return a flow of the node itself with the source address that the kernel would choose."""
    if flow.source:
        return flow
    route = view.route(flow.destination)
    source = ""
    if route is not None and route.is_local:
        source = flow.destination
    elif route is not None:
        source = route.source or view.source_on(route.link, flow.family, route.gateway or flow.destination)
    return flow._replace(source=source or ("127.0.0.1" if flow.family == 4 else "::1"))
