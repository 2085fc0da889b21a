# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The predictor on random clusters: each flow that the desired state serves is delivered, alike in both back ends."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clusters import plain_cluster
from support.properties import of_a_kernel  # noqa: F401  (loads the profile)

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import parse
from kubenode.engine.explain.flow import DELIVERED, DROPPED, REFUSED, Flow, Path
from kubenode.engine.explain.predict import predict
from kubenode.engine.explain.routes import RouteEntry
from kubenode.engine.explain.view import Host, LinkView, host_of, view_of
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.net import contains, family

LOCAL_PODS = {4: "10.244.1.0/24", 6: "fd00:244::/64"}
PREFIX = {4: 24, 6: 64}
OUTSIDE = {4: ("10.99.0.50", "192.0.2.9"), 6: ("fd00:99::50", "2001:db8::9")}
POD = {4: "10.244.1.9", 6: "fd00:244::99"}


def built(seed: int) -> Cluster:
    """Return a random cluster on the node n1."""
    things, kube_proxy = plain_cluster.a_cluster(Random(seed))
    config, _warnings = parse([kube_proxy, plain_cluster.ALLOWED])
    facts = NodeFacts(plain_cluster.NODE, plain_cluster.ADDRESSES, ("10.99.0.11", "fd00:99::11"))
    cluster = Cluster(config, facts)
    for item in things:
        cluster.put(item)
    return cluster


def host() -> Host:
    """Return the node: its addresses, a pod bridge, and a default route."""
    addresses = [
        (link, address, 128 if address == "::1" else 8 if address == "127.0.0.1" else PREFIX[family(address)])
        for link, address in plain_cluster.ADDRESSES
    ]
    addresses += [("cni0", "10.244.1.254", 24), ("cni0", "fd00:244::fffe", 64)]
    routes = [
        RouteEntry("0.0.0.0/0", "unicast", "eth0", "10.99.0.1"),
        RouteEntry("::/0", "unicast", "eth0", "fd00:99::1"),
        RouteEntry("10.244.2.0/24", "unicast", "eth0", "10.99.0.12"),
    ]
    found = host_of(addresses, routes)
    links = {**found.links, "cni0": LinkView("cni0", kind="bridge")}
    bridge = {f"net.bridge.bridge-nf-call-{name}": "1" for name in ("iptables", "ip6tables")}
    return found._replace(links=links, sysctls={"net.ipv6.conf.all.forwarding": "1", **bridge})


def flows(key: VirtualServerKey) -> list[Flow]:
    """Return flows to a virtual server from outside, from a pod of the node, and from the node itself."""
    found = [Flow(key.protocol, source, key.address, key.port, "eth0") for source in OUTSIDE[key.family]]
    found.append(Flow(key.protocol, POD[key.family], key.address, key.port, "cni0"))
    found.append(Flow(key.protocol, key.address, key.address, key.port))
    return found


def admits(cluster: Cluster, flow: Flow) -> bool:
    """Tell, from the objects, whether the source ranges of a load balancer admit a client."""
    for service in cluster._services.values():
        if flow.destination not in service.load_balancer_ips:
            continue
        if all((port.protocol, port.port) != (flow.protocol, flow.port) for port in service.ports):
            continue
        if cluster.port_of(flow.key).split(":")[0] != f"{service.namespace}/{service.name}":
            continue
        ranges = [net for net in service.source_ranges if family(net) == flow.family]
        if not flow.link:
            node = next(ip for ip in cluster.facts.node_ips if family(ip) == flow.family)
            return not ranges or any(contains(net, node) for net in ranges)
        return not ranges or any(contains(net, flow.source) for net in ranges)
    return True


def check(cluster: Cluster, path: Path, state: State) -> None:
    wanted = {(real.address, real.port) for real, value in state["real_server"].items() if real.server == path.flow.key}
    if not admits(cluster, path.flow) and (path.flow.link or wanted):
        refused = path.verdict == DROPPED or any(
            "IPVS-OUT-FILTER" in t.problem or "ipvs-out" in t.problem for t in path.targets
        )
        assert refused, path
    elif not wanted:
        assert path.verdict == REFUSED, path
    else:
        assert path.verdict == DELIVERED, path
        assert {(target.address, target.port) for target in path.targets} == wanted


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_served_flows_are_delivered_in_both_back_ends(seed: int) -> None:
    cluster = built(seed)
    state = cluster.state()
    node: Any = host()
    views = [view_of(state, node), view_of(nft_state(state), node)]
    for key in state["virtual_server"]:
        for flow in flows(key):
            by_iptables, by_nftables = (predict(view, flow) for view in views)
            check(cluster, by_iptables, state)
            assert by_iptables.outcome() == by_nftables.outcome()
            assert by_iptables.is_certain
            assert by_nftables.is_certain
