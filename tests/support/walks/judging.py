# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the states during a plan: each flow gets what it gets before or after, or a refusal if one of them has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from kubenode.engine.desired.nft_sets import member_of
from kubenode.engine.explain.flow import DELIVERED, DROPPED, REFUSED, Flow, Path
from kubenode.engine.explain.predict import predict
from kubenode.engine.explain.view import NodeView
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.net import contains, family
from kubenode.engine.plan import Step

from .moments import WalkedNode
from .world import NODE_IPS, POD_NETS

OUTSIDE = {4: ("192.0.2.9", "10.99.0.50"), 6: ("2001:db8::9", "fd00:99::50")}
_WHOLE = ("chain", "jump", "nft_table", "nft_set", "nft_chain", "sysctl", "link")
_MOST = 10  # virtual servers of a walk


class Violation(NamedTuple):
    """A moment at which a flow gets what it gets neither before nor after."""

    flow: Flow
    steps: tuple[Step, ...]
    before: Path
    between: Path
    after: Path

    @property
    def words(self) -> str:
        """Return the violation in some lines."""
        lines = [f"{self.flow} on {self.flow.link or 'the node'} after {len(self.steps)} steps:"]
        lines += [f"  {step.describe()}" for step in self.steps[:6]]
        for name, path in (("before", self.before), ("between", self.between), ("after", self.after)):
            targets = [f"{t} sees {t.client}{' ! ' + t.problem if t.problem else ''}" for t in path.targets]
            lines.append(f"  {name}: {path.verdict} {targets or path.reason} {path.refuses}")
        return "\n".join(lines)


def servers_of(steps: Sequence[Step], states: Iterable[State], random: Random) -> list[VirtualServerKey]:
    """Return the virtual servers that the steps are about, and some others, at most ten."""
    every = sorted({key for state in states for key in state.get("virtual_server", {})})
    random.shuffle(every)
    named = {step.key for step in steps if step.kind == "virtual_server"}
    named |= {step.key.server for step in steps if step.kind == "real_server"}
    fields = [member.split(",") for member in map(_member, steps) if member]
    addresses = {parts[0] for parts in fields} | {step.key.address for step in steps if step.kind == "address"}
    every.sort(key=lambda key: not (key in named or key.address in addresses or str(key.port) in addresses))
    return every[:_MOST]


def flows_to(key: VirtualServerKey, localhost: bool) -> list[Flow]:
    """Return flows to a virtual server: from outside, from pods of the node, and from the node itself."""
    flows = [Flow(key.protocol, source, key.address, key.port, "eth0") for source in OUTSIDE[key.family]]
    flows += [Flow(key.protocol, POD_NETS[key.family].format(1, n), key.address, key.port, "cni0") for n in (1, 9)]
    flows.append(Flow(key.protocol, "", key.address, key.port))
    if localhost and key.address == NODE_IPS[0]:
        flows.append(Flow(key.protocol, "127.0.0.1", "127.0.0.1", key.port))
    return flows


def path_of(view: NodeView, flow: Flow) -> Path:
    """Return the predicted path; the node chooses its own address as it does in this state."""
    if not flow.source:
        route = view.route(flow.destination)
        if route is None or not route.is_usable:
            source = flow.destination
        else:
            source = flow.destination if route.is_local else view.source_on(route.link, flow.family)
        flow = flow._replace(source=source)
    return predict(view, flow)


def _member(step: Step) -> str:
    if step.kind == "member":
        return str(step.key.member)
    if step.kind == "nft_element":
        member = member_of(step.key)
        return member.member if member else ""
    return ""


def concerns(step: Step, flow: Flow) -> bool:
    """Tell whether a step may change a flow's path."""
    if step.kind in _WHOLE or (step.kind == "set" and step.verb == "change"):
        return True
    if step.kind == "virtual_server":
        return bool(step.key == flow.key)
    if step.kind == "real_server":
        return bool(step.key.server == flow.key)
    if step.kind in ("address", "route"):
        network = step.key.network if step.kind == "route" else step.key.address
        base = network.partition("/")[0]
        return family(base) == flow.family and (
            contains(network, flow.destination) if "/" in network else base == flow.destination
        )
    parts = _member(step).split(",")
    return parts[0] in (flow.destination, str(flow.port)) or flow.source in parts


def walk(node: WalkedNode, plan: Any, flows: Sequence[Flow]) -> list[Violation]:
    """Execute a plan on the node, and judge each flow at each moment that may matter to it."""
    view = node.view()
    before = {flow: path_of(view, flow) for flow in flows}
    present = dict(before)
    met: list[tuple[Flow, tuple[Step, ...], Path]] = []
    for steps in node.execute(plan):
        view = node.view(steps)
        for flow in flows:
            if any(concerns(step, flow) for step in steps):
                path = path_of(view, flow)
                if _signature(path) != _signature(present[flow]):
                    met.append((flow, tuple(steps), path))
                    present[flow] = path
    after = present
    return [
        Violation(flow, steps, before[flow], path, after[flow])
        for flow, steps, path in met
        if not is_right(before[flow], path, after[flow])
    ]


def _targets(path: Path) -> set[tuple[Any, ...]]:
    return {(t.address, t.port, t.client, bool(t.problem)) for t in path.targets}


def is_served(path: Path) -> bool:
    """Tell whether a real server gets the connection."""
    return path.verdict == DELIVERED and not all(target.problem for target in path.targets)


def _are_allowed(path: Path, sides: Sequence[Path]) -> bool:
    """Tell whether each real server of a path is one of a side, with the same client address or its own one in both.

    The node itself chooses another source address where a virtual address is not bound.
    """
    allowed = set().union(*map(_targets, sides))
    kept = {
        (t.address, t.port, bool(t.problem)) for side in sides for t in side.targets if t.client == side.flow.source
    }
    if any(is_served(side) for side in sides):  # the source ranges of one side do not admit the client, perhaps
        allowed |= {(address, port, client, False) for address, port, client, _problem in allowed}
    lost = {t.problem for side in sides for t in side.targets}
    return bool(path.targets) and all(
        (t.address, t.port, t.client, bool(t.problem)) in allowed
        or (t.client == path.flow.source and (t.address, t.port, bool(t.problem)) in kept)
        or (t.problem and t.problem in lost)
        for t in path.targets
    )


def _reaches(path: Path, side: Path) -> bool:
    """Tell whether each real server of a path is one of a side, and answers, whatever client address it sees."""
    real_servers = {(target.address, target.port) for target in side.targets}
    return all((each.address, each.port) in real_servers and not each.problem for each in path.targets)


def _signature(path: Path) -> tuple[Any, ...]:
    return path.verdict, frozenset(_targets(path)), bool(path.refuses)


def is_right(before: Path, between: Path, after: Path) -> bool:
    """Tell whether a flow gets between two states what it may get.

    Its real servers are those of before or after, each with the address of the client that it sees there. It is refused
    only if one of the two states does not serve it. Otherwise, its path is the one of the state that does not.
    """
    sides = (before, after)
    if _signature(between) in map(_signature, sides):
        return True
    served = [path for path in sides if is_served(path)]
    if between.verdict == DELIVERED:
        if between.refuses and not any(path.refuses for path in sides) and len(served) == len(sides):
            return False
        return _are_allowed(between, sides) or (len(served) == 1 and _reaches(between, served[0]))
    if between.verdict == DROPPED and not served:
        return True
    return between.verdict == REFUSED and len(served) < len(sides)
