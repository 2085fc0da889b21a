# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow a connection from IPVS to a real server, and its answer back to the client."""

from __future__ import annotations

from collections.abc import Iterable

from ..desired.node_addresses import DUMMY, LOOPBACK
from ..model.ipvs import DIRECT, MASQUERADE, TUNNEL, RealServer, RealServerKey, VirtualServerKey
from ..model.net import contains
from .flow import Decision, Outcome, Packet, Target
from .hooks import pass_hook
from .routes import RouteEntry
from .view import NodeView

_FORWARDING = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}
_LOCALNET = "net.ipv4.conf.all.route_localnet"
_BRIDGE = {4: "net.bridge.bridge-nf-call-iptables", 6: "net.bridge.bridge-nf-call-ip6tables"}


def targets_of(
    view: NodeView, outcome: Outcome, server: VirtualServerKey, reals: Iterable[tuple[RealServerKey, RealServer]]
) -> tuple[Target, ...]:
    """Return the real servers with the way to each: the client that it sees, and a problem if there is one."""
    targets = []
    for key, value in reals:
        packet = outcome.packet._replace(destination=key.address, port=key.port, virtual=server, in_link="")
        tracked = view.sysctl("net.ipv4.vs.conntrack", "0") == "1"
        if not tracked:
            packet = packet._replace(state="UNTRACKED")
        start = Outcome(packet, "", (), outcome.doubts)
        if value.forward not in (MASQUERADE, "local"):
            targets.append(_unusual(view, start, value))
        else:
            targets.append(_sent(view, start, value.weight, bool(outcome.packet.in_link)))
    return tuple(targets)


def _unusual(view: NodeView, start: Outcome, value: RealServer) -> Target:
    packet = start.packet
    words = {DIRECT: "unchanged, to the link address of the real server", TUNNEL: "in a tunnel"}
    text = f"IPVS sends it {words.get(value.forward, value.forward)} (forwarding method {value.forward})"
    problem = f"{text}: the pod must have the virtual address itself"
    route = view.route(packet.destination)
    link = route.link if route is not None else ""
    return Target(
        packet.destination, packet.port, value.weight, link, packet.source, False, problem,
        (Decision("output", text),), start.doubts,
    )  # fmt: skip


def direct_target(view: NodeView, outcome: Outcome, link: str) -> Target:
    """Return the target of a packet that a DNAT has sent past IPVS, by forward or from the node itself."""
    packet = outcome.packet._replace(out_link=link)
    start = outcome._replace(packet=packet, decisions=())
    passed = [start]
    if packet.in_link:
        passed = pass_hook(view, "forward", start)
    return _posted(view, passed, packet, 1, bool(packet.in_link))


def _sent(view: NodeView, start: Outcome, weight: int, is_foreign: bool) -> Target:
    """Follow a packet that IPVS sends on: it passes output, whether the node or another machine sent it."""
    packet = start.packet
    route = view.route(packet.destination, source=packet.source, mark=packet.mark)
    if route is None or not route.is_usable:
        kind = route.kind if route is not None else "no"
        text = f"there is {kind} route to {packet.destination}"
        return _lost(packet, weight, "", Decision("output", text, "route", packet.destination))
    if packet.source.startswith("127.") and not route.is_local:
        text = "IPVS sends no packet from a loopback address to another machine"
        return _lost(packet, weight, route.link, Decision("output", text))
    state = view.host.neighbours.get(route.gateway or packet.destination, ("", ""))[1]
    if not route.is_local and state == "FAILED":
        text = f"{route.gateway or packet.destination} does not answer on link {route.link} (neighbour entry FAILED)"
        return _lost(packet, weight, route.link, Decision("output", text, "neighbour", packet.destination))
    link = view.host.links.get(route.link)
    if link is not None and not link.is_up and not route.is_local:
        text = f"link {route.link} to {packet.destination} is down"
        return _lost(packet, weight, route.link, Decision("output", text, "link", route.link))
    out_link = "lo" if route.is_local else route.link
    by = f"via {route.gateway} " if route.gateway else ""
    text = f"IPVS sends it to {packet.destination}:{packet.port} {by}by link {out_link}"
    packet = packet._replace(out_link=out_link)
    start = start._replace(packet=packet, decisions=(Decision("output", text, "route", route),))
    if route.is_local and is_foreign:
        # it goes on in input: no rule of output or postrouting sees it (ip_vs_nat_send_or_cont in ip_vs_xmit.c)
        text = f"the real server is on the node itself: it sees the client's address {packet.source}"
        decisions = (*start.decisions, Decision("input", text))
        base = (packet.destination, packet.port, weight, out_link)
        return Target(*base, packet.source, False, "", decisions, ())
    # the kernel has decided about translations of the destination before: chains of type nat do not see it again
    return _posted(view, pass_hook(view, "output", start, with_nat=False), packet, weight, is_foreign)


def _lost(packet: Packet, weight: int, link: str, decision: Decision) -> Target:
    return Target(packet.destination, packet.port, weight, link, packet.source, False, decision.text, (decision,), ())


def _posted(view: NodeView, outcomes: list[Outcome], packet: Packet, weight: int, is_foreign: bool) -> Target:
    """Follow the packet through postrouting; of several outcomes, take the first that stops it, else the first."""
    finished: list[Outcome] = []
    for outcome in outcomes:
        if outcome.verdict not in ("accept", ""):
            finished.append(outcome)
        else:
            finished.extend(pass_hook(view, "postrouting", outcome))
    finished.sort(key=lambda outcome: outcome.verdict == "accept")
    first = finished[0]
    doubts = tuple(dict.fromkeys(text for outcome in finished for text in outcome.doubts))
    same = len({(outcome.verdict, outcome.packet.translation) for outcome in finished}) == 1
    base = (packet.destination, packet.port, weight, packet.out_link)
    if first.verdict != "accept":
        problem = first.decisions[-1].text
        return Target(*base, packet.source, False, problem, first.decisions, () if same else doubts)
    translated = first.packet.translation
    client = translated if translated not in ("", "link") else packet.source
    if translated == "link":
        route = view.route(packet.destination)
        target = route.gateway if route is not None and route.gateway else packet.destination
        client = view.source_on(packet.out_link, packet.family, target) or packet.source
    words = f"masqueraded as {client}" if translated else f"with the client's address {client}"
    decisions = (*first.decisions, Decision("postrouting", f"the real server sees the connection {words}"))
    problem, back = _way_back(view, first.packet, client, bool(translated), is_foreign)
    return Target(*base, client, bool(translated), problem, (*decisions, *back), () if same else doubts)


def _way_back(
    view: NodeView, sent: Packet, client: str, is_masqueraded: bool, is_foreign: bool
) -> tuple[str, tuple[Decision, ...]]:
    """Return a problem of the answer, "" for none, and the decisions about it."""
    fam = sent.family
    route = view.route(sent.destination)
    to_client = view.route(sent.source)
    if route is None or route.is_local:
        text = "the real server is on the node itself: its answer stays here"
        return "", (Decision("way back", text),)
    if not is_masqueraded and view.is_local(client):
        own = view.route(client)
        if route.gateway and own is not None and own.link in (DUMMY, LOOPBACK):
            text = f"the answer is lost: {sent.destination} sees the virtual address {client}, which each node has"
            return text, (Decision("way back", text),)
    elif not is_masqueraded:
        problem = _past_the_node(view, client, sent.destination, route, to_client)
        if problem:
            return problem, (Decision("way back", problem),)
    if is_foreign and view.sysctl(_FORWARDING[fam], "1") == "0":
        text = f"the answer is dropped: {_FORWARDING[fam]} is 0, so the node forwards nothing"
        return text, (Decision("way back", text, "sysctl", _FORWARDING[fam]),)
    if is_foreign and (to_client is None or not to_client.is_usable):
        text = f"the answer is dropped: there is no route to the client {sent.source}"
        return text, (Decision("way back", text, "route", sent.source),)
    if sent.source.startswith("127.") and view.sysctl(_LOCALNET, "0") != "1":
        text = f"the answer is dropped: {_LOCALNET} is not 1, and the client's address is {sent.source}"
        return text, (Decision("way back", text, "sysctl", _LOCALNET),)
    answer = Packet(
        sent.protocol, sent.destination, sent.source, sent.port, sent.source_port, route.link,
        to_client.link if to_client is not None else "", state="ESTABLISHED", is_reply=True, original=sent.original,
    )  # fmt: skip
    hook = "forward" if is_foreign else "input"
    if not is_foreign:
        answer = answer._replace(out_link="")
    for outcome in pass_hook(view, hook, Outcome(answer), with_nat=False):
        if outcome.verdict in ("drop", "reject"):
            text = f"the answer does not return: {outcome.decisions[-1].text}"
            return text, (*outcome.decisions, Decision("way back", text))
    return "", (Decision("way back", "the answer returns through this node"),)


def _past_the_node(view: NodeView, client: str, server: str, route: RouteEntry, to_client: RouteEntry | None) -> str:
    """Return why the answer of a real server that sees the client's address does not pass the node; "" if it does."""
    link = view.host.links.get(route.link)
    name = _BRIDGE[6 if ":" in server else 4]
    same_link = to_client is not None and to_client.link == route.link and not to_client.gateway and not route.gateway
    if same_link and client != server and link is not None and link.kind == "bridge":
        if view.sysctl(name, "0") != "1":
            return f"the answer goes past the node: client and pod are on bridge {route.link}, and {name} is not 1"
        return ""
    if same_link and client == server:
        return "the pod gets its own address as the client, so its answer never leaves it"
    if same_link:
        return f"the answer goes past the node: client and real server are both on link {route.link}"
    if route.gateway and (to_client is None or to_client.gateway or _is_shared(view, route, to_client)):
        return f"the answer goes past the node: {server} is behind {route.gateway} and sees the client's own address"
    return ""


def _is_shared(view: NodeView, route: RouteEntry, to_client: RouteEntry) -> bool:
    """Tell whether the client is on the link by which the real server's gateway is reached."""
    return to_client.link == route.link and contains(to_client.network, route.gateway or to_client.network)
