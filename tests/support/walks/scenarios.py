# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks: random changes of a cluster, takeovers from kube-proxy and back, and the removal of everything."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from support.kube_proxy.iptables_state import iptables_state

from kubenode.engine.model import State
from kubenode.engine.plan import Step
from kubenode.engine.proxy.drain.policy import Drain
from kubenode.engine.proxy.handover import IPTABLES, families, handed_over

from .judging import Violation, flows_to, servers_of, walk
from .moments import WalkedNode
from .world import World, change, host


def owned_node(state: State) -> WalkedNode:
    """Return a node in a state of the agent's own."""
    node = WalkedNode(state, host())
    node.owned = {kind: set(items) for kind, items in state.items()}
    return node


def walk_to(node: WalkedNode, want: State, random: Random, drains: bool = False) -> list[Violation]:
    """Let the agent plan and execute; with ``drains`` once more, when the connections of real servers have ended."""
    violations: list[Violation] = []
    drain = Drain({}, 0.0, 0.0, (lambda _servers: {}) if drains else None)
    for _pass in range(2 if drains else 1):
        plan, since = node.plan(want, drain)
        servers = servers_of(plan.steps, [node.state, want], random)
        flows = [flow for key in servers for flow in flows_to(key, localhost=True)]
        violations += walk(node, plan, flows)
        drain = drain._replace(since=since)
    assert not drains or not node.plan(want, drain)[0].steps
    return violations


def changed(seed: int, services: int, changes: Sequence[tuple[str, int]]) -> list[Violation]:
    """Walk through changes of a random cluster, all in one plan; each has a name and the number of a Service."""
    random = Random(seed)
    world = World(random, services)
    node = owned_node(world.state())
    for name, number in changes:
        change(world, name, number)
    return walk_to(node, world.state(), random, drains=random.random() < 0.7)


def taken_over(seed: int, mode: str) -> list[Violation]:
    """Walk through a takeover from kube-proxy in a mode, with the agent's own settings."""
    random = Random(seed)
    world = World(random, 2)
    return walk_to(kube_proxy_node(world, mode), world.state(), random)


def kube_proxy_node(world: World, mode: str) -> WalkedNode:
    """Return a node that kube-proxy has left, to be adopted."""
    cluster = world.cluster(as_kube_proxy=True)
    state: Any = cluster.state() if mode == "ipvs" else iptables_state(cluster)
    node = WalkedNode(state, host())
    node.adopt = True
    return node


def cleaned(seed: int) -> list[Violation]:
    """Walk through the removal of everything."""
    random = Random(seed)
    return walk_to(owned_node(World(random, 2).state()), {}, random)


def handed_back(world: World) -> list[Violation]:
    """Walk through ``kubenode cleanup --after iptables``: kube-proxy in iptables mode has written its rules before."""
    node = owned_node(world.state())
    rules = iptables_state(world.cluster(as_kube_proxy=True))
    chains, jumps, present = rules["chain"], rules["jump"], node.state
    steps = [Step("chain", key, present["chain"].get(key), value) for key, value in chains.items()]
    new = sorted((key for key in jumps if key not in present["jump"]), key=lambda key: jumps[key].order)
    steps += [Step("jump", key, None, 1) for key in reversed(new)]  # kube-proxy inserts each at the beginning
    assert not node.apply(steps, False).failed
    for kind, keys in handed_over(node.owned, IPTABLES, families(node.owned)).items():
        node.owned[kind] = node.owned.get(kind, set()) - keys
    return walk_to(node, {}, world.random)
