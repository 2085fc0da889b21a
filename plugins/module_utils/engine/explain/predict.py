# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict the path of a new connection through a node: a pure function of the node's state.

The order is the kernel's: a packet that arrives passes source validation, prerouting, the routing decision, input and
then IPVS; one of the node itself passes output and IPVS. IPVS sends it on to a real server through output and
postrouting (:mod:`.forwarding`), and the answer comes back through forward.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.net import contains
from .flow import (
    DELIVERED,
    DROPPED,
    NODE,
    REFUSED,
    UNBALANCED,
    UNKNOWN,
    Decision,
    Flow,
    Outcome,
    Packet,
    Path,
)
from .forwarding import direct_target, targets_of
from .hooks import IPVS_INPUT, IPVS_OUTPUT, pass_hook
from .scheduling import find_server, schedule
from .view import NodeView

_VERDICTS = {"drop": DROPPED, "reject": REFUSED, "unknown": UNKNOWN}
_LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}


def predict(view: NodeView, flow: Flow) -> Path:
    """Return the path of the first packet of a flow, and of the answer."""
    fam = flow.family
    start = Packet(
        flow.protocol, flow.source, flow.destination, flow.source_port, flow.port, in_link=flow.link,
        original=(flow.source, flow.destination, flow.port), from_bridge=_is_from_bridge(view, flow),
    )  # fmt: skip
    paths = list(_arriving(view, flow, start) if flow.link else _leaving(view, flow, start))
    doubts = view.routes.unjudged(fam)
    return _merged(flow, paths, doubts)


def _is_from_bridge(view: NodeView, flow: Flow) -> bool:
    link = view.host.links.get(flow.link)
    name = f"net.bridge.bridge-nf-call-{'iptables' if flow.family == 4 else 'ip6tables'}"
    return link is not None and link.kind == "bridge" and view.sysctl(name) == "1"


def _merged(flow: Flow, paths: list[Path], doubts: tuple[str, ...]) -> Path:
    """Return one path of several: the same verdict, or else the worst one; with doubts, it is unknown."""
    first = paths[0]
    unsure = tuple(dict.fromkeys((*doubts, *(text for path in paths for text in path.doubts))))
    if len({path.outcome() for path in paths}) == 1:
        if doubts and first.verdict != UNKNOWN:
            return first._replace(doubts=unsure)
        return first._replace(doubts=unsure if first.verdict == UNKNOWN else ())
    if unsure:
        reason = f"this cannot be judged: {'; '.join(unsure)}"
        return first._replace(verdict=UNKNOWN, reason=reason, doubts=unsure, targets=())
    bad = [path for path in paths if path.verdict != DELIVERED]
    if bad:
        return bad[0]
    targets = tuple(dict.fromkeys(target for path in paths for target in path.targets))
    return first._replace(targets=targets)


def _ended(flow: Flow, outcome: Outcome, verdict: str, decision: Decision) -> Path:
    return Path(flow, verdict, decision.text, (*outcome.decisions, decision), doubts=outcome.doubts)


def _stopped(flow: Flow, outcome: Outcome) -> Path:
    """Return the path of a packet that a rule has stopped."""
    return Path(flow, _VERDICTS[outcome.verdict], outcome.decisions[-1].text, outcome.decisions, doubts=outcome.doubts)


def _arriving(view: NodeView, flow: Flow, start: Packet) -> Iterable[Path]:
    """Follow a packet that arrives on a link."""
    stopped = _validated(view, flow)
    here = Decision("arrival", f"the packet arrives on link {flow.link}", "link", flow.link)
    if stopped is not None:
        yield Path(flow, DROPPED, stopped.text, (here, stopped))
        return
    for outcome in pass_hook(view, "prerouting", Outcome(start, "", (here,))):
        if outcome.verdict != "accept":
            yield _stopped(flow, outcome)
            continue
        packet = outcome.packet
        route = view.route(packet.destination, source=packet.source, link=packet.in_link, mark=packet.mark)
        if route is None or not route.is_usable:
            text = f"there is no route to {packet.destination}"
            yield _ended(flow, outcome, UNBALANCED, Decision("route", text, "route", packet.destination))
        elif route.is_local:
            text = f"{packet.destination} is an address of the node: {route.network} on {route.link}"
            yield from _input(view, flow, _noted(outcome, Decision("route", text, "route", route)))
        else:
            yield _passing(view, flow, outcome, route.link)


def _noted(outcome: Outcome, decision: Decision) -> Outcome:
    return outcome._replace(decisions=(*outcome.decisions, decision))


def _validated(view: NodeView, flow: Flow) -> Decision | None:
    """Return the decision of source validation that drops a packet; None if it passes."""
    limits = view.host.limits
    if limits.get("conntrack_max") and limits.get("conntrack", 0) >= limits["conntrack_max"]:
        text = f"the connection tracking table is full: {limits['conntrack']} of {limits['conntrack_max']} entries"
        return Decision("arrival", text, "sysctl", "net.netfilter.nf_conntrack_max")
    if flow.family == 6:
        return None
    if contains(_LOOPBACK[4], flow.destination):
        names = ("net.ipv4.conf.all.route_localnet", f"net.ipv4.conf.{flow.link}.route_localnet")
        if not any(view.sysctl(name) == "1" for name in names):
            text = f"{flow.destination} is a loopback address, which other machines cannot reach"
            return Decision("arrival", text, "sysctl", names[0])
    names = ("net.ipv4.conf.all.rp_filter", f"net.ipv4.conf.{flow.link}.rp_filter")
    mode = max((int(view.sysctl(name, "0") or 0) for name in names), default=0)
    back = view.route(flow.source, link="")
    if back is not None and back.is_local:
        return Decision("arrival", f"the source {flow.source} is an address of the node itself", "route", back)
    if mode and (back is None or not back.is_usable or (mode == 1 and back.link != flow.link)):
        way = f"by link {back.link}" if back is not None and back.is_usable else "nowhere"
        name = max(names, key=lambda name: int(view.sysctl(name, "0") or 0))
        kind = "strict" if mode == 1 else "loose"
        text = (
            f"{kind} reverse path filtering ({name}={mode}) drops it: it arrives on link {flow.link},"
            f" and the route to {flow.source} leads {way}"
        )
        return Decision("arrival", text, "sysctl", name)
    return None


def _passing(view: NodeView, flow: Flow, outcome: Outcome, link: str) -> Path:
    """Return the path of a packet whose destination is not local: IPVS does not see it."""
    packet = outcome.packet
    if packet.is_dnat:
        target = direct_target(view, outcome, link)
        reason = f"a rule sends it to {target}, past IPVS"
        return Path(flow, DELIVERED, reason, (*outcome.decisions, *target.decisions), (target,), doubts=outcome.doubts)
    for after in pass_hook(view, "forward", outcome._replace(packet=packet._replace(out_link=link))):
        if after.verdict != "accept":
            return _stopped(flow, after)
    text = f"{packet.destination} is no address of the node: the packet leaves by link {link} without IPVS"
    return _ended(flow, outcome, UNBALANCED, Decision("route", text, "route", packet.destination))


def _input(view: NodeView, flow: Flow, outcome: Outcome) -> Iterable[Path]:
    """Follow a packet for the node through input, up to IPVS."""
    for after in pass_hook(view, "input", outcome, before=IPVS_INPUT):
        if after.verdict != "accept":
            yield _stopped(flow, after)
        else:
            yield from _balanced(view, flow, after)


def _leaving(view: NodeView, flow: Flow, start: Packet) -> Iterable[Path]:
    """Follow a packet that the node itself sends."""
    route = view.route(flow.destination, source=flow.source)
    if route is None or not route.is_usable:
        text = f"there is no route to {flow.destination}, and it is no address of the node"
        yield Path(flow, UNBALANCED, text, (Decision("route", text, "route", flow.destination),))
        return
    link = "lo" if route.is_local else route.link
    text = f"the node sends it from {flow.source} by link {link}"
    packet = start._replace(out_link=link)
    for outcome in pass_hook(
        view, "output", Outcome(packet, "", (Decision("route", text, "route", route),)), before=IPVS_OUTPUT
    ):
        if outcome.verdict != "accept":
            yield _stopped(flow, outcome)
            continue
        if outcome.packet.is_dnat:
            changed = view.route(outcome.packet.destination, source=outcome.packet.source, mark=outcome.packet.mark)
            if changed is not None and not changed.is_local:
                yield _passing(view, flow, outcome, changed.link)
                continue
        yield from _balanced(view, flow, outcome)


def _balanced(view: NodeView, flow: Flow, outcome: Outcome) -> Iterable[Path]:
    """Follow a packet that IPVS sees: to its real servers, to a process of the node, or out of it."""
    server = find_server(view, outcome.packet)
    if server is None:
        yield from _without_server(view, flow, outcome)
        return
    key, decisions = server
    outcome = outcome._replace(decisions=(*outcome.decisions, *decisions))
    choice = schedule(view, key, outcome.packet.source)
    outcome = outcome._replace(decisions=(*outcome.decisions, *choice.decisions))
    if not choice.candidates:
        last = choice.decisions[-1]
        yield Path(
            flow, REFUSED, last.text, outcome.decisions, draining=choice.draining, server=key, doubts=outcome.doubts
        )
        return
    if choice.refuses:
        outcome = outcome._replace(decisions=(*outcome.decisions, Decision("virtual server", choice.refuses)))
    targets = targets_of(view, outcome, key, choice.candidates)
    reason = f"{key} sends it to {', '.join(str(target) for target in targets[:5])}"
    if len(targets) > 5:
        reason += f" and {len(targets) - 5} others"
    decisions, draining, doubts = outcome.decisions, choice.draining, outcome.doubts
    yield Path(flow, DELIVERED, reason, decisions, targets, draining, key, doubts, choice.refuses)


def _without_server(view: NodeView, flow: Flow, outcome: Outcome) -> Iterable[Path]:
    packet = outcome.packet
    for after in pass_hook(view, "output", outcome, after=IPVS_OUTPUT) if not flow.link else [outcome]:
        if after.verdict != "accept":
            yield _stopped(flow, after)
        elif view.is_local(packet.destination):
            text = f"no virtual server has {flow.key._replace(address=packet.destination, port=packet.port)}"
            text += ": a process of the node itself gets the connection, or the node refuses it"
            yield _ended(flow, after, NODE, Decision("virtual server", text, "virtual_server", flow.key))
        else:
            text = f"no virtual server has {flow.key}: the packet leaves by link {packet.out_link} without IPVS"
            yield _ended(flow, after, UNBALANCED, Decision("virtual server", text, "virtual_server", flow.key))
