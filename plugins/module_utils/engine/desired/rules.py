# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's chains and jumps in ipvs mode, in the spelling of ``iptables-save``.

The rules depend on a few settings and on which sets have members, never on single Services. The exception is
KUBE-IPVS-OUT-FILTER, whose rules come from the Services. The layout is kube-proxy's ``writeIptablesRules``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Callable, NamedTuple

from ..model.iptables import ChainKey, JumpKey, RulePosition, Rules
from . import sets

CHAINS = {
    "nat": ("KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"),
    "filter": (
        "KUBE-FORWARD",
        "KUBE-NODE-PORT",
        "KUBE-PROXY-FIREWALL",
        "KUBE-SOURCE-RANGES-FIREWALL",
        "KUBE-IPVS-FILTER",
        "KUBE-IPVS-OUT-FILTER",
    ),
}
# The chains whose rules come from the Services. kube-proxy does not have the second; localhostNodePorts adds it.
OUT_FILTER = "KUBE-IPVS-OUT-FILTER"
LOCALHOST = "KUBE-LOCALHOST-NODE-PORT"
# Table, built-in chain, comment, target chain: in the order of traversal within each built-in chain.
_JUMPS = (
    ("nat", "PREROUTING", "kubernetes service portals", "KUBE-SERVICES"),
    ("nat", "OUTPUT", "kubernetes service portals", "KUBE-SERVICES"),
    ("nat", "POSTROUTING", "kubernetes postrouting rules", "KUBE-POSTROUTING"),
    ("filter", "INPUT", "kubernetes ipvs access filter", "KUBE-IPVS-FILTER"),
    ("filter", "INPUT", "kube-proxy firewall rules", "KUBE-PROXY-FIREWALL"),
    ("filter", "INPUT", "kubernetes health check rules", "KUBE-NODE-PORT"),
    ("filter", "FORWARD", "kube-proxy firewall rules", "KUBE-PROXY-FIREWALL"),
    ("filter", "FORWARD", "kubernetes forwarding rules", "KUBE-FORWARD"),
    ("filter", "OUTPUT", "kubernetes ipvs access filter", "KUBE-IPVS-OUT-FILTER"),
)
_LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}
_REJECT = {4: "icmp-port-unreachable", 6: "icmp6-port-unreachable"}
_ECHO = {4: ("icmp", "-m icmp --icmp-type 8"), 6: ("ipv6-icmp", "-m icmp6 --icmpv6-type 128")}


class Layout(NamedTuple):
    """Inputs of one family's rules, besides the sets' members.

    ``not_local`` is the match for traffic that no pod of the cluster sends, for example ``! -s 10.244.0.0/16``, or "".
    With ``by_routes``, routes and not addresses of a link lead traffic to IPVS. All addresses of ``service_cidrs`` are
    local then, used or not.
    """

    family: int
    masquerade_bit: int
    masquerade_all: bool
    not_local: str
    random_fully: bool
    vip_ping: bool
    localhost_node_ports: bool
    reject_no_endpoints: bool
    by_routes: bool
    service_cidrs: tuple[str, ...]


def jumps(family: int) -> dict[JumpKey, RulePosition]:
    """Return the jumps from built-in chains: prepended in kube-proxy's order."""
    positions: dict[JumpKey, RulePosition] = {}
    order: dict[tuple[str, str], int] = {}
    for table, chain, comment, target in _JUMPS:
        order[table, chain] = order.get((table, chain), 0) + 1
        rule = f'-m comment --comment "{comment}" -j {target}'
        positions[JumpKey(family, table, chain, rule)] = RulePosition("prepended", order[table, chain])
    return positions


def chains(layout: Layout, filled: Collection[str], own: Iterable[tuple[str, str]]) -> dict[ChainKey, Rules]:
    """Return all chains with their rules.

    Args:
        layout: the settings.
        filled: the sets (by their IPv4 names) that have members.
        own: the rules that come from Services, as (chain, rule), in order.
    """
    rules_of: dict[ChainKey, list[str]] = {
        ChainKey(layout.family, table, chain): [] for table, names in CHAINS.items() for chain in names
    }
    if _on_localhost(layout):
        rules_of[ChainKey(layout.family, "nat", LOCALHOST)] = []
    for table, chain, needs, rule in _rules(layout):
        if needs is None or needs in filled:
            rules_of[ChainKey(layout.family, table, chain)].append(rule)
    for chain, rule in own:
        rules_of[ChainKey(layout.family, "nat" if chain == LOCALHOST else "filter", chain)].append(rule)
    return {key: tuple(rules) for key, rules in rules_of.items()}


def _rules(layout: Layout) -> Iterator[tuple[str, str, str | None, str]]:
    """Yield (table, chain, set that must have members or None, rule) in order."""
    family = layout.family
    mark = f"{1 << layout.masquerade_bit:#x}"

    def match(name: str, flags: str = "dst,dst") -> str:
        return f"-m set --match-set {sets.set_name(family, name)} {flags}"

    def commented_match(name: str, flags: str = "dst,dst") -> str:
        comment = sets.SETS[name].comment.replace("'", "\\'")
        return f'-m comment --comment "{comment}" {match(name, flags)}'

    # nat KUBE-SERVICES
    if _on_localhost(layout):
        # IPVS refuses to send packets from 127.0.0.1 to another machine, so DNAT takes these connections to the
        # endpoints before IPVS sees them. No pod can answer 127.0.0.1, so they are masqueraded under every policy. Only
        # packets of this node itself leave through lo.
        for protocol, matched in (("tcp", "dst"), ("udp", "dst"), ("sctp", "")):
            name = sets.NODE_PORT[protocol]
            which = f" {match(name, matched)}" if matched else ""  # the SCTP set has the node's addresses in it
            rule = f"-s {_LOOPBACK[4]} -d {_LOOPBACK[4]} -o lo -p {protocol}{which} -j {LOCALHOST}"
            yield "nat", "KUBE-SERVICES", name, rule
        yield "nat", LOCALHOST, None, "-j KUBE-MARK-MASQ"
    yield "nat", "KUBE-SERVICES", None, f"-s {_LOOPBACK[family]} -j RETURN"
    yield "nat", "KUBE-SERVICES", sets.LOAD_BALANCER, f"{commented_match(sets.LOAD_BALANCER)} -j KUBE-LOAD-BALANCER"
    for matched in _cluster_ip(layout, commented_match):
        yield "nat", "KUBE-SERVICES", sets.CLUSTER_IP, f"{matched} -j KUBE-MARK-MASQ"
    yield "nat", "KUBE-SERVICES", sets.EXTERNAL_IP, f"{commented_match(sets.EXTERNAL_IP)} -j KUBE-MARK-MASQ"
    for name in (sets.EXTERNAL_IP, sets.EXTERNAL_IP_LOCAL):
        outside = "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL"
        yield "nat", "KUBE-SERVICES", name, f"{commented_match(name)} {outside} -j ACCEPT"
        yield "nat", "KUBE-SERVICES", name, f"{commented_match(name)} -m addrtype --dst-type LOCAL -j ACCEPT"
    yield "nat", "KUBE-SERVICES", None, "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"
    for name in (sets.CLUSTER_IP, sets.LOAD_BALANCER):
        yield "nat", "KUBE-SERVICES", name, f"{match(name)} -j ACCEPT"

    # nat KUBE-LOAD-BALANCER, KUBE-NODE-PORT: RETURN keeps the client's address, the rest is masqueraded
    yield (
        "nat",
        "KUBE-LOAD-BALANCER",
        sets.LOAD_BALANCER_LOCAL,
        f"{commented_match(sets.LOAD_BALANCER_LOCAL)} -j RETURN",
    )
    yield "nat", "KUBE-LOAD-BALANCER", None, "-j KUBE-MARK-MASQ"
    for protocol, flags in (("tcp", "dst"), ("udp", "dst"), ("sctp", "dst,dst")):
        local, every = sets.NODE_PORT_LOCAL[protocol], sets.NODE_PORT[protocol]
        yield "nat", "KUBE-NODE-PORT", local, f"-p {protocol} {commented_match(local, flags)} -j RETURN"
        yield "nat", "KUBE-NODE-PORT", every, f"-p {protocol} {commented_match(every, flags)} -j KUBE-MARK-MASQ"

    # nat KUBE-POSTROUTING: hairpin first; the mark is cleared so that a second pass does not masquerade a packet again
    yield "nat", "KUBE-POSTROUTING", sets.LOOP_BACK, f"{commented_match(sets.LOOP_BACK, 'dst,dst,src')} -j MASQUERADE"
    yield "nat", "KUBE-POSTROUTING", None, f"-m mark ! --mark {mark}/{mark} -j RETURN"
    yield "nat", "KUBE-POSTROUTING", None, f"-j MARK --set-xmark {mark}/0x0"
    fully = " --random-fully" if layout.random_fully else ""
    snat = '-m comment --comment "kubernetes service traffic requiring SNAT"'
    yield "nat", "KUBE-POSTROUTING", None, f"{snat} -j MASQUERADE{fully}"
    yield "nat", "KUBE-MARK-MASQ", None, f"-j MARK --set-xmark {mark}/{mark}"

    # filter: source ranges of load balancers
    firewall = f"{commented_match(sets.LOAD_BALANCER_FW)} -j KUBE-SOURCE-RANGES-FIREWALL"
    yield "filter", "KUBE-PROXY-FIREWALL", sets.LOAD_BALANCER_FW, firewall
    for name in (sets.LOAD_BALANCER_SOURCE_CIDR, sets.LOAD_BALANCER_SOURCE_IP):
        yield "filter", "KUBE-SOURCE-RANGES-FIREWALL", name, f"{commented_match(name, 'dst,dst,src')} -j RETURN"
    yield "filter", "KUBE-SOURCE-RANGES-FIREWALL", None, "-j DROP"

    # filter: forwarding, health checks
    forward = '-m comment --comment "kubernetes forwarding rules"'
    yield "filter", "KUBE-FORWARD", None, f"{forward} -m mark --mark {mark}/{mark} -j ACCEPT"
    related = '-m comment --comment "kubernetes forwarding conntrack rule"'
    yield "filter", "KUBE-FORWARD", None, f"{related} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    yield "filter", "KUBE-NODE-PORT", None, f"{commented_match(sets.HEALTH_CHECK_NODE_PORT, 'dst')} -j ACCEPT"

    # filter: protect the node's own ports on the addresses of kube-ipvs0 (kubernetes/kubernetes#72236). The rules that
    # kube-proxy does not have refuse TCP by a reset, because the kernel sends one client at most one ICMP refusal in a
    # second.
    reject = f"-j REJECT --reject-with {_REJECT[family]}"
    if _on_localhost(layout):
        # route_localnet would let other machines reach 127.0.0.1; only this node may
        martian = f"-d {_LOOPBACK[4]} ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT"
        yield "filter", "KUBE-IPVS-FILTER", None, f"{martian} -j DROP"
    if layout.reject_no_endpoints:
        # IPVS refuses the node's own packets before any filter sees them
        refused = f"-p tcp {match(sets.NO_ENDPOINTS)} -j REJECT --reject-with tcp-reset"
        yield "filter", "KUBE-IPVS-FILTER", sets.NO_ENDPOINTS, refused
        yield "filter", "KUBE-IPVS-FILTER", sets.NO_ENDPOINTS, f"{match(sets.NO_ENDPOINTS)} {reject}"
    for name in (sets.LOAD_BALANCER, sets.CLUSTER_IP, sets.EXTERNAL_IP, sets.EXTERNAL_IP_LOCAL):
        yield "filter", "KUBE-IPVS-FILTER", None, f"{match(name)} -j RETURN"
    yield "filter", "KUBE-IPVS-FILTER", None, f"{match(sets.HEALTH_CHECK_NODE_PORT, 'dst')} -j RETURN"
    if layout.vip_ping:
        protocol, echo = _ECHO[family]
        yield "filter", "KUBE-IPVS-FILTER", None, f"-p {protocol} {match(sets.IPVS_IPS, 'dst')} {echo} -j RETURN"
    refused = f"-m conntrack --ctstate NEW {match(sets.IPVS_IPS, 'dst')} {reject}"
    yield "filter", "KUBE-IPVS-FILTER", None, refused
    for net in layout.service_cidrs:
        unused = "-m conntrack --ctstate NEW -j REJECT --reject-with"
        yield "filter", "KUBE-IPVS-FILTER", None, f"-d {net} -p tcp {unused} tcp-reset"
        yield "filter", "KUBE-IPVS-FILTER", None, f"-d {net} {unused} {_REJECT[family]}"


def _on_localhost(layout: Layout) -> bool:
    return layout.localhost_node_ports and layout.family == 4  # the kernel has no route_localnet for IPv6


def _cluster_ip(layout: Layout, commented_match: Callable[..., str]) -> list[str]:
    """Return the matches for connections to cluster IPs that must be masqueraded."""
    if layout.masquerade_all:
        return [commented_match(sets.CLUSTER_IP)]
    matches = [f"{layout.not_local} {commented_match(sets.CLUSTER_IP)}"] if layout.not_local else []
    if layout.by_routes and layout.family == 6:
        # for destinations of a local route, the kernel chooses any address of the node as source, perhaps of a pod
        # network
        matches.append(f"{commented_match(sets.CLUSTER_IP)} -m addrtype --src-type LOCAL")
    elif not matches:
        # local clients cannot be told apart: at least the node's own packets with a virtual address as source
        matches.append(commented_match(sets.CLUSTER_IP, "src,dst"))
    return matches
