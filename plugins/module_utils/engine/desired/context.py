# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration and facts in the form that every Service needs, computed once for each family."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InputError
from ..kubernetes.objects import Node
from ..model.net import contains, family, full_prefix
from .address_policy import AddressPolicy, policies
from .node_addresses import node_addresses, node_port_addresses
from .node_facts import NodeFacts
from .rules import Layout
from .settings import Config

_UNKNOWN = {4: "127.0.0.1", 6: "::1"}  # kube-proxy's assumption
UNSPECIFIED = ("0.0.0.0", "::")


class Context(NamedTuple):
    """One family's view of the node, with the address policies for external IPs and load balancer addresses.

    ``node_ip`` is the primary address, a loopback address if unknown. ``own`` are the addresses on other links, which
    must not be bound to kube-ipvs0. ``node_port_ips`` serve node ports. One route for each network of ``service_cidrs``
    leads its addresses to IPVS.
    """

    family: int
    node: str
    zone: str
    node_ip: str
    own: frozenset[str]
    node_port_ips: tuple[str, ...]
    service_cidrs: tuple[str, ...]
    prefix: int
    config: Config
    external: AddressPolicy
    balancer: AddressPolicy


def known(config: Config, facts: NodeFacts, node: Node | None) -> NodeFacts:
    """Return the facts, overridden by the Node object, and that by ``bindAddress``."""
    if node is not None:
        facts = facts._replace(
            zone=node.zone or facts.zone,
            pod_cidrs=node.pod_cidrs or facts.pod_cidrs,
            node_ips=node.addresses or facts.node_ips,
        )
    if config.bind_address not in UNSPECIFIED:
        bound = family(config.bind_address)
        others = tuple(ip for ip in facts.node_ips if family(ip) != bound)
        facts = facts._replace(node_ips=(config.bind_address, *others))
    return facts


def context(fam: int, config: Config, facts: NodeFacts) -> Context:
    """Return one family's view of the node."""
    ips = node_port_addresses(fam, facts.addresses, config.node_port_addresses, facts.node_ips)
    node_ip = next((ip for ip in facts.node_ips if family(ip) == fam), _UNKNOWN[fam])
    own = frozenset(node_addresses(fam, facts.addresses))
    cidrs, prefix = service_cidrs(fam, config, facts), full_prefix(fam)
    reserved = own.union(ip for ip in facts.node_ips if family(ip) == fam)
    servers = [ip for ip in facts.api_servers if family(ip) == fam]
    external, balancer = policies(config.allowed_external_ips, config.allowed_load_balancer_ips, reserved, servers)
    return Context(fam, facts.name, facts.zone, node_ip, own, ips, cidrs, prefix, config, external, balancer)


def service_cidrs(fam: int, config: Config, facts: NodeFacts) -> tuple[str, ...]:
    """Return the networks of one family that a route leads to IPVS as a whole.

    Networks with addresses of the node are left out (see :func:`misplaced`): their virtual addresses have a route each.
    """
    if config.vip_binding != "routes":
        return ()
    wrong = misplaced(config, facts)
    return tuple(net for net in config.service_cidrs if family(net) == fam and net not in wrong)


def misplaced(config: Config, facts: NodeFacts) -> dict[str, str]:
    """Return the service networks that contain an address of the node, with that address.

    A local route for such a network, and the rule that refuses unused addresses, would cut off the node's neighbours.
    """
    own = [*node_addresses(4, facts.addresses), *node_addresses(6, facts.addresses), *facts.node_ips]
    inside = {net: next((ip for ip in own if contains(net, ip)), "") for net in config.service_cidrs}
    return {net: ip for net, ip in inside.items() if ip}


def node_problems(config: Config, facts: NodeFacts) -> list[str]:
    """Return the unmet requirements of the configuration on the node, one sentence each."""
    subject = f"Node {facts.name}"
    problems = []
    if config.detect_local_mode == "NodeCIDR" and not facts.pod_cidrs:
        expected = "the node's networks, as detectLocalMode is NodeCIDR; until then nothing counts as a local pod"
        problems.append(str(InputError(subject, "spec.podCIDRs", [], expected)))
    if config.vip_binding == "routes":
        for net, ip in misplaced(config, facts).items():
            expected = f"a network without addresses of the node ({ip}); its virtual addresses have a route each"
            problems.append(str(InputError(subject, "serviceCIDRs", net, expected)))
    return problems


def layout(fam: int, config: Config, facts: NodeFacts) -> Layout:
    """Return the inputs of one family's rules."""
    return Layout(
        fam,
        config.masquerade_bit,
        config.masquerade_all,
        _not_local(fam, config, facts),
        facts.random_fully,
        config.vip_ping,
        config.localhost_node_ports,
        config.no_endpoints == "reject",
        config.vip_binding == "routes",
        service_cidrs(fam, config, facts),
    )


def _not_local(fam: int, config: Config, facts: NodeFacts) -> str:
    mode = config.detect_local_mode
    if mode == "BridgeInterface":
        return f"! -i {config.bridge_interface}"
    if mode == "InterfaceNamePrefix":
        return f"! -i {config.interface_name_prefix}+"
    cidrs = facts.pod_cidrs if mode == "NodeCIDR" else config.cluster_cidrs
    for cidr in cidrs:
        if family(cidr) == fam:
            return f"! -s {cidr}"
    return ""


def in_any(ranges: tuple[str, ...], address: str) -> bool:
    """Tell whether one of the networks contains the address."""
    return any(contains(net, address) for net in ranges)
