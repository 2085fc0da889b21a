# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded states of kube-proxy (tests/golden), and parsers of the native tools' text that drop volatile parts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import parse

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDINGS = sorted(GOLDEN.glob("*.json"))
Chains = dict[str, dict[str, list[str]]]


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text())
    return recording


def facts(recording: dict[str, Any]) -> NodeFacts:
    """Return the facts of the recorded node: its addresses as the kernel had them.

    Zone, pod CIDRs and primary addresses are the Node object's.
    """
    links = json.loads(recording["state"]["node"])
    addresses = tuple(
        (link["ifname"], address["local"])
        for link in links
        for address in link["addr_info"]
        if link["ifname"] != "kube-ipvs0"
    )
    return NodeFacts(name=recording["config"]["hostnameOverride"], addresses=addresses)


def cluster(recording: dict[str, Any]) -> Cluster:
    built = Cluster(parse([recording["config"], *recording.get("agent", ())])[0], facts(recording))
    for obj in recording["objects"]:
        built.put(obj)
    return built


def servers(text: str) -> dict[str, set[str]]:
    """Parse ``ipvsadm -Sn``: line of a virtual server -> options of its real servers."""
    reals_of: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("-A "):
            name = line.split()[2]
            reals_of[line] = set()
            current = line
        else:
            assert line.startswith("-a "), line
            assert line.split()[2] == name
            reals_of[current].add(line)
    return reals_of


def sets(text: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Parse ``ipset save``: headers without volatile options, and members."""
    headers: dict[str, str] = {}
    members: dict[str, set[str]] = {}
    for line in text.splitlines():
        verb, name, rest = line.split(" ", 2)
        if verb == "create":
            headers[name] = re.sub(r" (hashsize|initval) \S+", "", rest)
            members.setdefault(name, set())
        else:
            members[name].add(rest)
    return headers, members


def rules(text: str) -> Chains:
    """Parse ``iptables-save``: table -> chain -> rules, without counters, policies and tables that have no rules."""
    tables: Chains = {}
    for line in text.splitlines():
        if line.startswith("*"):
            table = tables.setdefault(line[1:], {})
        elif line.startswith(":"):
            table[line[1:].split()[0]] = []
        elif line.startswith("-A "):
            chain, rule = line[3:].split(" ", 1)
            table[chain].append(rule)
    tables = {name: chains for name, chains in tables.items() if any(chains.values())}
    tables["filter"]["KUBE-IPVS-OUT-FILTER"].sort()
    return tables


def addresses(text: str) -> set[str]:
    """Parse ``ip -j addr``: ``address/prefix`` of kube-ipvs0."""
    return {f"{item['local']}/{item['prefixlen']}" for link in json.loads(text) for item in link["addr_info"]}
