# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the node's settings and surroundings: sysctls, routes, links, neighbours, full tables, other proxies."""

from __future__ import annotations

from ...model.ipvs import PERSISTENT
from ..flow import DELIVERED, Decision, Outcome, Packet, Target
from ..hooks import pass_hook
from ..view import NodeView
from .case import SYNC, Case, Fault
from .foreign import other_proxy

_BRIDGE = {4: "net.bridge.bridge-nf-call-iptables", 6: "net.bridge.bridge-nf-call-ip6tables"}
_ICMP = {4: "icmp", 6: "ipv6-icmp"}
_STRICT_ARP = ("net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce")


def arrival(case: Case) -> Fault | None:
    """Find what drops the packet before any rule: a full table, reverse path filtering, a loopback address."""
    last = case.path.decisions[-1] if case.path.decisions else None
    if last is None or last.stage != "arrival" or case.path.reason != last.text:
        return None
    if "table is full" in last.text:
        return Fault(
            "conntrack-full", last.text, "raise net.netfilter.nf_conntrack_max (docs/how-to/size.md)", *last[2:]
        )
    if "reverse path" in last.text:
        remedy = f"set {last.key}=2 or 0, or correct the route to the client"
        return Fault("reverse-path", last.text, remedy, *last[2:])
    return Fault("arrival", last.text, "check source and destination address", *last[2:])


def conntrack_off(case: Case) -> Fault | None:
    """Find net.ipv4.vs.conntrack off: nothing that IPVS sends on is masqueraded then."""
    if case.view.sysctl("net.ipv4.vs.conntrack", "0") == "1" or case.path.verdict != DELIVERED or case.is_as_wanted:
        return None
    if case.path.server is None:
        return None
    sentence = "net.ipv4.vs.conntrack is 0, so connections through IPVS are not masqueraded"
    return Fault("vs-conntrack", sentence, SYNC, "sysctl", "net.ipv4.vs.conntrack")


def route_localnet(case: Case) -> Fault | None:
    """Find route_localnet off where node ports on 127.0.0.1 need it."""
    name = "net.ipv4.conf.all.route_localnet"
    if (
        case.want is None
        or case.want.get("sysctl", {}).get(name) != "1"
        or not case.flow.destination.startswith("127.")
    ):
        return None
    if case.view.sysctl(name, "0") == "1":
        return None
    sentence = f"{name} is 0, so node ports on 127.0.0.1 do not work"
    return Fault("route-localnet", sentence, SYNC, "sysctl", name)


def template(case: Case) -> Fault | None:
    """Find a client that persistence keeps with a real server that drains or is not desired."""
    server = case.view.server(case.flow.key)
    if server is None or not server.flags & PERSISTENT or len(case.path.targets) != 1 or case.want is None:
        return None
    target = case.path.targets[0]
    wanted = any(
        key.server == case.flow.key and (key.address, key.port) == (target.address, target.port)
        for key in case.want["real_server"]
    )
    if target.weight and wanted:
        return None
    sentence = (
        f"persistence keeps {case.flow.source} with {target}, which has weight {target.weight}:"
        " net.ipv4.vs.expire_quiescent_template is not 1"
    )
    return Fault("persistence", sentence, SYNC, "sysctl", "net.ipv4.vs.expire_quiescent_template")


def target_problem(case: Case) -> Fault | None:
    """Find what keeps a real server from getting the connection, or its answer from returning."""
    for target in case.path.targets:
        if target.problem:
            return _problem(case, target)
    return None


def _problem(case: Case, target: Target) -> Fault:
    last = target.decisions[-1] if target.decisions else None
    text, kind, key = target.problem, last.kind if last else "", last.key if last else None
    to = f"real server {target}: "
    if _BRIDGE[case.flow.family] in text:
        name = _BRIDGE[case.flow.family]
        return Fault("bridge-netfilter", to + text, f"run: modprobe br_netfilter; sysctl -w {name}=1", "sysctl", name)
    if "forwards nothing" in text:
        return Fault("ip-forward", to + text, SYNC if "ipv4" in text else f"set {key}=1", kind, key)
    if "route to the client" in text:
        return Fault("client-route", to + text, "add a route to the client", kind, key)
    if " route to " in text:
        return Fault("pod-route", to + text, "check the network plugin (CNI) and the routes of this node", kind, key)
    if "neighbour entry" in text:
        return Fault("pod-gone", to + text, "check that the pod runs, and the network plugin (CNI)", kind, key)
    if " is down" in text:
        return Fault("link-down", to + text, "set the link up", kind, key)
    if "past the node" in text:
        return Fault(
            "past-the-node", to + text, "masquerade such connections (clusterCIDR, detectLocalMode)", kind, key
        )
    return Fault("target", to + text, "see the decisions", kind, key)


def refused_share(case: Case) -> Fault | None:
    """Find a hashing scheduler without fallback that refuses the share of draining real servers."""
    for decision in case.path.decisions:
        if "has no fallback" in decision.text:
            facts = f" ({case.facts})" if case.facts is not None else ""
            remedy = "annotate the Service with kubenode.ipvs/scheduler-flags: mh-port,mh-fallback (or sh-fallback)"
            return Fault("no-fallback", decision.text + facts, remedy, "virtual_server", case.path.server)
    return None


def path_end(case: Case) -> Fault | None:
    """Return the predicted end itself where no other check knows the cause."""
    if case.path.arrives or not case.path.is_certain:
        return None
    if case.path.verdict == DELIVERED:
        return None
    return Fault("path", case.path.reason, "see the decisions")


def strict_arp(case: Case) -> Fault | None:
    """Find strict ARP off although the configuration wants it: other nodes answer for a load balancer's address."""
    if case.want is None or case.flow.family != 4 or not case.flow.link:
        return None
    for name in _STRICT_ARP:
        wanted = case.want.get("sysctl", {}).get(name)
        have = case.view.sysctl(name)
        if wanted is not None and have and int(have) < int(wanted):
            sentence = (
                f"strict ARP is off ({name} is {have} instead of {wanted}), so each node answers for each address"
            )
            return Fault("strict-arp", sentence, SYNC, "sysctl", name)
    return None


def other_sysctl(case: Case) -> Fault | None:
    """Find sysctls of IPVS that differ from the desired state and decide about connections that last."""
    for name in ("net.ipv4.vs.expire_nodest_conn", "net.ipv4.vs.expire_quiescent_template", "net.ipv4.vs.conntrack"):
        wanted = (case.want or {}).get("sysctl", {}).get(name)
        have = case.view.sysctl(name)
        if wanted is not None and have and have != wanted and case.path.server is not None:
            sentence = (
                f"{name} is {have} instead of {wanted}: connections to removed pods go on, or are not masqueraded"
            )
            return Fault("ipvs-sysctl", sentence, SYNC, "sysctl", name)
    return None


def mtu(case: Case) -> Fault | None:
    """Find large packets that are lost: a link on the way takes less, and a rule drops the ICMP message that says so.

    Only this node's links are known, and no smaller MTU behind them.
    """
    links = case.view.host.links
    for target in case.path.targets:
        near, far = links.get(case.flow.link), links.get(target.link)
        if near is None or far is None or near.mtu == far.mtu or target.problem:
            continue
        sender, small, large = case.flow.source, far, near
        if near.mtu < far.mtu:
            sender, small, large = target.address, near, far
        stop = _icmp_stop(case.view, sender, case.flow.family)
        if stop is not None:
            sentence = (
                f"packets of {sender} above {small.mtu} bytes are lost: link {small.name} takes no larger ones, link"
                f" {large.name} takes {large.mtu}, and {stop.text}"
            )
            remedy = f"accept {_ICMP[case.flow.family]} from the node, or set the MTU of {large.name} to {small.mtu}"
            return Fault("mtu", sentence, remedy, stop.kind, stop.key)
    return None


def _icmp_stop(view: NodeView, sender: str, fam: int) -> Decision | None:
    """Return the decision that stops this node's ICMP errors to a sender; None if they may pass."""
    route = view.route(sender)
    if route is None or not route.is_usable:
        return None
    source = view.source_on(route.link, fam, sender)
    packet = Packet(_ICMP[fam], source, sender, 0, 0, out_link=route.link, state="RELATED")
    outcomes = pass_hook(view, "output", Outcome(packet), with_nat=False)
    if any(outcome.doubts or outcome.verdict not in ("drop", "reject") for outcome in outcomes):
        return None
    return outcomes[0].decisions[-1]


def past_ipvs(case: Case) -> Fault | None:
    """Find a connection that arrives, but otherwise than the desired state has it."""
    if case.ideal is None or case.is_as_wanted or not case.path.is_certain:
        return None
    wanted = ", ".join(f"{target} seeing {target.client}" for target in case.ideal.targets[:3]) or case.ideal.verdict
    have = ", ".join(f"{target} seeing {target.client}" for target in case.path.targets[:3]) or case.path.verdict
    return Fault("other-path", f"the connection goes to {have} instead of {wanted}", "see the decisions")


ARRIVAL = (arrival,)
PATH = (conntrack_off, route_localnet, template, target_problem, refused_share, path_end)
LATENT = (past_ipvs, strict_arp, other_sysctl, other_proxy, mtu)
