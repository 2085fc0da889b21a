# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small random cluster, and random changes of it: objects, settings and the rules back end."""

from __future__ import annotations

from random import Random
from typing import Any

from support.clusters import objects

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import parse
from kubenode.engine.explain.routes import RouteEntry
from kubenode.engine.explain.view import Host, LinkView, host_of
from kubenode.engine.model import State

NODE = "n1"
NODE_IPS = ("10.99.0.11", "fd00:99::11")
POD_NETS = {4: "10.244.{}.{}", 6: "fd00:244:{}::{}"}
CLUSTER_CIDRS = "10.244.0.0/16,fd00:244::/32"
EXTERNAL_IPS = ("203.0.113.1", "203.0.113.2", "2001:db8:e::1")
BALANCER_IPS = ("198.51.100.1", "198.51.100.2", "2001:db8:b::1")
RANGES = ([], ["192.0.2.0/24", "2001:db8::/32"], ["10.99.0.0/16", "fd00:99::/64"], ["203.0.113.7/32"], ["192.0.2.9/32"])
_FAMILY = {4: "IPv4", 6: "IPv6"}


class World:
    """Objects and settings of a cluster; a change replaces some of them."""

    def __init__(self, random: Random, services: int) -> None:
        self.random = random
        self.services: dict[int, dict[str, Any]] = {}
        self.slices: dict[tuple[int, int], dict[str, Any]] = {}
        self.zone = random.choice(("a", "b", ""))
        self.proxy: dict[str, Any] = {}
        self.agent: dict[str, Any] = {}
        self.backend = random.choice(("iptables", "nftables"))
        for number in range(services):
            add_service(self, number)
        configure(self)

    def cluster(self, *, as_kube_proxy: bool = False) -> Cluster:
        """Return the cluster as this node sees it; ``as_kube_proxy``: without the settings that kube-proxy lacks."""
        kube_proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "ipvs",
            **self.proxy,
        }
        agent = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration"}
        config, _warnings = parse([kube_proxy, agent if as_kube_proxy else {**agent, **self.agent}])
        addresses = (("lo", "127.0.0.1"), ("lo", "::1"), ("eth0", NODE_IPS[0]), ("eth0", NODE_IPS[1]))
        built = Cluster(config, NodeFacts(NODE, addresses, NODE_IPS))
        built.put(objects.node(NODE, zone=self.zone, pod_cidrs=["10.244.1.0/24"], addresses=list(NODE_IPS)))
        for item in (*self.services.values(), *self.slices.values()):
            built.put(item)
        return built

    def state(self) -> State:
        """Return the agent's desired state, in the items of the rules back end."""
        state = self.cluster().state()
        return nft_state(state) if self.backend == "nftables" else state


def host() -> Host:
    """Return the node without any service proxy: its addresses, a pod bridge, routes to another node's pods."""
    addresses = [
        *(("lo", "127.0.0.1", 8), ("lo", "::1", 128), ("eth0", NODE_IPS[0], 24), ("eth0", NODE_IPS[1], 64)),
        *(("cni0", "10.244.1.254", 24), ("cni0", "fd00:244:1::fffe", 64)),
    ]
    routes = [
        RouteEntry("0.0.0.0/0", "unicast", "eth0", "10.99.0.1"),
        RouteEntry("::/0", "unicast", "eth0", "fd00:99::1"),
        RouteEntry("10.244.2.0/24", "unicast", "eth0", "10.99.0.12"),
        RouteEntry("fd00:244:2::/64", "unicast", "eth0", "fd00:99::12"),
    ]
    bare = host_of(addresses, routes)
    bridge = {f"net.bridge.bridge-nf-call-{name}": "1" for name in ("iptables", "ip6tables")}
    links = {**bare.links, "cni0": LinkView("cni0", kind="bridge")}
    sysctls = {"net.ipv6.conf.all.forwarding": "1", "net.ipv4.ip_forward": "1", **bridge}
    return bare._replace(links=links, sysctls=sysctls)


# changes


def configure(world: World) -> None:
    """Choose other settings."""
    pick = world.random.choice
    world.proxy = {
        "clusterCIDR": pick((CLUSTER_CIDRS, CLUSTER_CIDRS, "10.244.0.0/16", "")),
        "nodePortAddresses": pick(([], [], ["primary"])),
        "iptables": {"masqueradeAll": pick((False, False, True)), "masqueradeBit": pick((14, 14, 15))},
        "ipvs": {"scheduler": pick(("rr", "rr", "mh", "sh"))},
    }
    world.agent = {
        "noEndpoints": pick(("none", "reject")),
        "localhostNodePorts": pick((False, False, True)),
        "localFallback": pick(("cluster", "drop")),
        **pick(({}, {}, {"vipBinding": "routes"}, {"vipBinding": "routes", "serviceCIDRs": ["10.96.0.0/16"]})),
    }


def add_service(world: World, number: int) -> None:
    """Add a Service, or give the one with this number other ports, addresses, type and policies."""
    pick, random = world.random.choice, world.random
    kind = pick(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"))
    ports = [
        objects.port(
            80 + 10 * number + index,
            f"p{index}",
            pick(("TCP", "TCP", "UDP", "SCTP")),
            30000 + 10 * number + index if kind != "ClusterIP" else 0,
        )
        for index in range(random.randint(1, 2))
    ]
    families = pick(((4,), (4,), (6,), (4, 6)))
    ips = [{4: f"10.96.0.{number + 1}", 6: f"fd00:96::{number + 1}"}[family] for family in families]
    spec: dict[str, Any] = {
        "externalTrafficPolicy": pick(("Cluster", "Local")),
        "internalTrafficPolicy": pick(("Cluster", "Cluster", "Local")),
        "ipFamilies": [_FAMILY[family] for family in families],
    }
    if random.random() < 0.3:
        spec["externalIPs"] = random.sample(EXTERNAL_IPS, random.randint(1, 2))
    if random.random() < 0.2:
        spec["sessionAffinity"] = "ClientIP"
    ingress = []
    if kind == "LoadBalancer":
        spec["loadBalancerSourceRanges"] = pick(RANGES)
        ingress = [{"ip": ip} for ip in random.sample(BALANCER_IPS, random.randint(1, 2))]
    world.services[number] = objects.service(f"s{number}", ips, ports, kind=kind, ingress=ingress, **spec)
    if not any(key[0] == number for key in world.slices):
        add_endpoints(world, number)
    else:
        _follow_ports(world, number)


def add_endpoints(world: World, number: int) -> None:
    """Replace the endpoints of a Service."""
    pick, random = world.random.choice, world.random
    target = pick((8080, 8080, 9090))
    hints = random.random() < 0.2
    for which in (4, 6):
        endpoints = []
        for net, host_number in random.sample([(net, n) for net in (1, 2) for n in (1, 2, 3)], random.randint(0, 4)):
            endpoints.append(
                objects.endpoint(
                    POD_NETS[which].format(net, host_number),
                    NODE if net == 1 else "n2",
                    ready=pick((True, True, True, False)),
                    serving=pick((True, False)),
                    terminating=pick((False, False, False, True)),
                    zones=[pick("ab")] if hints else None,
                )
            )
        service = world.services[number]["metadata"]["name"]
        world.slices[number, which] = objects.piece(service, endpoints, [], name=f"{service}-{which}", family=which)
        world.slices[number, which]["_target"] = target
    _follow_ports(world, number)


def _follow_ports(world: World, number: int) -> None:
    for which in (4, 6):
        piece = world.slices[number, which]
        piece["ports"] = [
            {"name": port["name"], "protocol": port["protocol"], "port": piece["_target"] + index}
            for index, port in enumerate(world.services[number]["spec"]["ports"])
        ]


def change_endpoint(world: World, number: int) -> None:
    """Let one endpoint go, drain, become ready, or come."""
    random = world.random
    piece = world.slices[number, random.choice((4, 6))]
    endpoints = [dict(endpoint) for endpoint in piece["endpoints"]]
    if endpoints:
        chosen = random.randrange(len(endpoints))
        what = random.choice(("go", "drain", "ready"))
        if what == "go":
            del endpoints[chosen]
        else:
            conditions = {"ready": what == "ready", "serving": True, "terminating": what == "drain"}
            endpoints[chosen] = {**endpoints[chosen], "conditions": conditions}
    piece["endpoints"] = endpoints


def _with_spec(world: World, number: int, **fields: Any) -> None:
    service = world.services[number]
    world.services[number] = {**service, "spec": {**service["spec"], **fields}}


def change_policy(world: World, number: int) -> None:
    """Turn one of the traffic policies."""
    field = world.random.choice(("externalTrafficPolicy", "externalTrafficPolicy", "internalTrafficPolicy"))
    other = {"Cluster": "Local", "Local": "Cluster"}[world.services[number]["spec"][field]]
    _with_spec(world, number, **{field: other})


def change_ranges(world: World, number: int) -> None:
    """Change the source ranges of a load balancer."""
    if world.services[number]["spec"]["type"] == "LoadBalancer":
        _with_spec(world, number, loadBalancerSourceRanges=world.random.choice(RANGES))


def change_affinity(world: World, number: int) -> None:
    """Turn session affinity."""
    other = "None" if world.services[number]["spec"].get("sessionAffinity") == "ClientIP" else "ClientIP"
    _with_spec(world, number, sessionAffinity=other)


def move_address(world: World, number: int) -> None:
    """Make an external IP of a Service a load balancer address of it, or the reverse."""
    service = world.services[number]
    if service["spec"]["type"] != "LoadBalancer":
        return
    external = service["spec"].get("externalIPs", [])
    ingress = [item["ip"] for item in service["status"]["loadBalancer"].get("ingress", [])]
    status = {"loadBalancer": {"ingress": [{"ip": ip} for ip in external]}}
    world.services[number] = {**service, "spec": {**service["spec"], "externalIPs": ingress}, "status": status}


def replace_service(world: World, number: int) -> None:
    """Replace a Service by another one, with other endpoints, that has its addresses and ports but the cluster IPs."""
    service = world.services[number]
    families = [field[-1] for field in service["spec"]["ipFamilies"]]
    other = world.random.randint(20, 40)
    ips = [{"4": f"10.96.0.{other}", "6": f"fd00:96::{other}"}[family] for family in families]
    metadata = {**service["metadata"], "name": f"{service['metadata']['name']}-{other}"}
    spec = {**service["spec"], "clusterIP": ips[0], "clusterIPs": ips}
    world.services[number] = {**service, "metadata": metadata, "spec": spec}
    add_endpoints(world, number)


def remove_service(world: World, number: int) -> None:
    """Remove a Service with its endpoints."""
    del world.services[number]
    for which in (4, 6):
        del world.slices[number, which]


def change_zone(world: World, _number: int) -> None:
    """Put the node into another zone."""
    world.zone = {"a": "b", "b": "", "": "a"}[world.zone]


def change_settings(world: World, _number: int) -> None:
    """Choose other settings, as at a restart of the agent."""
    configure(world)


def switch_backend(world: World, _number: int) -> None:
    """Switch the rules back end."""
    world.backend = {"iptables": "nftables", "nftables": "iptables"}[world.backend]


CHANGES = {
    function.__name__: function
    for function in (
        change_endpoint,
        add_endpoints,
        change_policy,
        change_ranges,
        change_affinity,
        move_address,
        add_service,
        replace_service,
        remove_service,
        change_zone,
        change_settings,
        switch_backend,
    )
}


def change(world: World, name: str, number: int) -> None:
    """Make one change; one of a Service that is not there adds it."""
    of_service = name not in ("change_zone", "change_settings", "switch_backend")
    if of_service and number not in world.services:
        add_service(world, number)
    else:
        CHANGES[name](world, number)
