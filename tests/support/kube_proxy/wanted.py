# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accessors of a desired state, in the terms of kube-proxy's own tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import endpoint

NODE = "test-node"


def node(*node_ips: str, **more: Any) -> NodeFacts:
    """Return kube-proxy's test node: addresses on eth0, and loopback."""
    addresses = [("lo", "127.0.0.1"), ("lo", "::1"), *(("eth0", ip) for ip in node_ips)]
    firsts = [ip for ip in node_ips if ":" not in ip][:1] + [ip for ip in node_ips if ":" in ip][:1]
    return NodeFacts(NODE, tuple(addresses), tuple(firsts), **more)


def cluster(objects: Iterable[dict[str, Any]], facts: NodeFacts | None = None, config: Config | None = None) -> Cluster:
    built = Cluster(config or Config(), facts or node())
    for obj in objects:
        built.put(obj)
    return built


def servers(state: State, family: int = 4) -> dict[str, list[str]]:
    """Return ``tcp 10.0.0.1:80`` -> sorted real servers, of one family. Assert weight 1 and scheduler rr."""
    reals_of: dict[str, list[str]] = {}
    for key, value in state["virtual_server"].items():
        if key.family == family:
            assert (value.scheduler, value.flags, value.timeout) == ("rr", 0, 0)
            reals_of[str(key)] = []
    for key, value in state["real_server"].items():
        if key.server.family == family:
            assert value.weight == 1
            reals_of[str(key.server)].append(endpoint(key.address, key.port))
    return {key: sorted(reals) for key, reals in reals_of.items()}


def members(state: State, name: str) -> list[str]:
    assert name in state["set"], name
    return sorted(key.member for key in state["member"] if key.set == name)


def chain(state: State, name: str, family: int = 4) -> list[str]:
    """Return the rules of a chain, nat first, then filter, as ``TARGET SET`` (the set without KUBE- and KUBE-6-)."""
    lines = []
    for table in ("nat", "filter"):
        for key, rules in state["chain"].items():
            if (key.family, key.table, key.chain) == (family, table, name):
                for rule in rules:
                    used = re.search(r"--match-set KUBE-(?:6-)?(\S+)", rule)
                    target = re.search(r"-j (\S+)", rule)
                    assert target
                    lines.append(f"{target[1]} {used[1] if used else ''}".strip())
    return lines
