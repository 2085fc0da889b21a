# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters with valid objects, as in an API server.

Every field varies, and no two objects claim the same address and port.
"""

from __future__ import annotations

from random import Random
from typing import Any

from . import objects

NODE = "n1"
ADDRESSES = (
    ("lo", "127.0.0.1"),
    ("lo", "::1"),
    ("eth0", "10.99.0.11"),
    ("eth0", "fd00:99::11"),
    ("eth0", "fe80::1"),
    ("eth1", "10.99.7.11"),
    ("eth1", "169.254.3.4"),
    ("eth1", "203.0.113.3"),
    ("eth1", "2001:db8:e::3"),
)
PODS = {
    4: [f"10.244.{net}.{host}" for net in (1, 2) for host in range(1, 6)],
    6: [f"fd00:244::{host}" for host in range(1, 9)],
}
DETECT: tuple[dict[str, Any], ...] = (
    {},
    {"clusterCIDR": "10.244.0.0/16"},
    {"clusterCIDR": "fd00:244::/32,10.244.0.0/16"},
    {"detectLocalMode": "NodeCIDR"},
    {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
    {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "cali"}},
)
NODE_PORT_ADDRESSES = (
    [],
    ["primary"],
    ["10.99.0.0/24", "fd00:99::/64"],
    ["10.99.0.0/16"],
    ["0.0.0.0/0", "fe80::/10"],
    ["192.0.2.0/24"],
)
# spellings in Services that were stored before addresses were validated strictly
SPELLINGS = (
    lambda ip: ip,
    lambda ip: ip,
    lambda ip: f"::ffff:{ip}" if "." in ip else ip.replace(":", ":0000", 1),
    lambda ip: ".".join(part.zfill(3) for part in ip.split(".")) if "." in ip else ip,
)
RANGES = (
    ["192.0.2.0/24"],
    [" 10.99.0.0/16 ", "fd00:99::/64"],
    ["203.0.113.7/32", "2001:db8::7/128"],
    ["10.99.1.2/8"],
    ["::1/128"],
    ["192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32"],
    ["", "192.000.002.0/24", " "],
    ["::ffff:10.99.0.0/112", "2001:db8::/032"],
)
# Addresses that kube-proxy serves: the node's own addresses, too.
ALLOWED = {
    "apiVersion": "kubenode.ipvs/v1alpha1",
    "kind": "AgentConfiguration",
    "allowedExternalIPs": ["203.0.113.0/24", "2001:db8:e::/64"],
    "allowedLoadBalancerIPs": ["198.51.100.0/24", "10.99.7.11/32", "2001:db8:b::/64"],
}
IP_MODES = ({}, {"ipMode": "VIP"}, {"ipMode": "Proxy"})


def respelled(random: Random, ip: str) -> str:
    """Return the address, sometimes with leading zeros or IPv4-mapped."""
    return random.choice(SPELLINGS)(ip)


def some(random: Random, values: Any, most: int) -> list[Any]:
    return random.sample(list(values), random.randint(0, most))


def a_service(random: Random, index: int) -> dict[str, Any]:
    """Return a Service with ports of its own, so that no two Services conflict on a shared address."""
    pick = random.choice
    kind = pick(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"))
    ports = []
    for number in range(random.randint(1, 3)):
        protocol = pick(("TCP", "UDP", "SCTP"))
        node_port = 30000 + index * 10 + number if kind != "ClusterIP" and random.random() < 0.7 else 0
        ports.append(objects.port(1000 + index * 10 + number, f"p{number}", protocol, node_port))
    families = pick(((4,), (6,), (4, 6), (6, 4)))
    ips = [{4: f"10.96.0.{index + 1}", 6: f"fd00:96::{index + 1}"}[family] for family in families]
    ips = [respelled(random, ip) for ip in ips]
    spec: dict[str, Any] = {
        "externalTrafficPolicy": pick(("Cluster", "Local")),
        "internalTrafficPolicy": pick(("Cluster", "Local")),
    }
    if random.random() < 0.4:
        external = some(random, [f"203.0.113.{n}" for n in range(1, 5)] + [f"2001:db8:e::{n}" for n in range(1, 5)], 3)
        spec["externalIPs"] = [*(respelled(random, ip) for ip in external), *pick(([], [], [""], ["", " "]))]
    if random.random() < 0.3:
        spec["sessionAffinity"] = "ClientIP"
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": pick((60, 10800, 86400))}}
    spec["ipFamilies"] = [{4: "IPv4", 6: "IPv6"}[family] for family in families]
    if kind == "LoadBalancer":
        spec["healthCheckNodePort"] = pick((0, 32000 + index))
        if random.random() < 0.5:
            spec["loadBalancerSourceRanges"] = pick(RANGES)
    ingress = [
        {"ip": respelled(random, ip), **pick(IP_MODES)}
        for ip in some(random, ("198.51.100.1", "198.51.100.2", "2001:db8:b::1", "10.99.7.11"), 3)
    ]
    service = objects.service(f"s{index}", ips, ports, kind=kind, ingress=[*ingress, {"hostname": "x"}], **spec)
    oddity = random.randrange(30)
    if oddity == 0:
        service["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = ""
    elif oddity == 1:
        service["spec"].update(clusterIP="None", clusterIPs=["None"])
    elif oddity == 2:
        service["spec"]["type"] = "ExternalName"
    elif oddity < 6:
        service["metadata"]["labels"]["service.kubernetes.io/headless"] = ""
    return service


def a_slice(random: Random, index: int, number: int) -> dict[str, Any]:
    pick = random.choice
    family = pick((4, 4, 6))
    hinted = pick(("", "zones", "zones", "nodes", "both"))
    endpoints = []
    for ip in some(random, PODS[family], 4):
        ready = pick((None, True, True, False))
        endpoints.append(
            objects.endpoint(
                ip,
                pick((None, NODE, NODE, "n2")),
                ready=ready,
                serving=pick((None, True, False)),
                terminating=pick((None, False, True)),
                zones=pick((["a"], ["b"], ["a", "b"]))
                if hinted in ("zones", "both") and random.random() < 0.95
                else None,
                nodes=pick(([NODE], ["n2"])) if hinted in ("nodes", "both") and random.random() < 0.95 else None,
            )
        )
    ports = [
        {"name": f"p{n}", "protocol": pick(("TCP", "UDP", "SCTP")), "port": pick((8080, 8080, 9090 + n, None))}
        for n in range(3)
    ]
    foreign = {"service.kubernetes.io/service-proxy-name": "x"}
    labels = pick(({}, {}, {}, {}, {}, foreign, {"service.kubernetes.io/headless": ""}))
    # a slice cannot change its family, so one of another family has another name
    return objects.piece(
        f"s{index}", endpoints, ports, name=f"s{index}-{number}-{family}", family=family, labels=labels
    )


def one_running(random: Random, slices: list[dict[str, Any]]) -> None:
    """Make exactly one of the endpoints with one address not terminating, and the others equal.

    Otherwise kube-proxy chooses any of them.
    """
    listed: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in slices:
        for endpoint in item["endpoints"]:
            name = item["metadata"]["labels"]["kubernetes.io/service-name"]
            listed.setdefault((name, endpoint["addresses"][0]), []).append(endpoint)
    for several in listed.values():
        if len(several) > 1:
            random.shuffle(several)
            several[0]["conditions"]["terminating"] = False
            for endpoint in several[1:]:
                endpoint.update(several[1])
                endpoint["conditions"]["terminating"] = True


def a_config(random: Random) -> dict[str, Any]:
    pick = random.choice
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "ipvs",
        **pick(DETECT),
        "nodePortAddresses": pick(NODE_PORT_ADDRESSES),
        "iptables": {"masqueradeAll": pick((False, False, True)), "masqueradeBit": pick((14, 14, 0, 31))},
        "ipvs": {"scheduler": pick(("", "rr", "mh", "sh", "wlc"))},
    }


def a_cluster(random: Random) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return objects and a KubeProxyConfiguration."""
    slices = [a_slice(random, index, number) for index in range(6) for number in range(random.randint(0, 3))]
    one_running(random, slices)
    for item in slices:
        for endpoint in item["endpoints"]:
            endpoint["addresses"] = [respelled(random, ip) for ip in endpoint["addresses"]]
    things = [*(a_service(random, index) for index in range(6)), *slices]
    # kube-proxy does not start on a node without a pod network of the family of its first address
    networks, primary = random.choice(
        (
            (["10.244.1.0/24"], ["10.99.0.11", "fd00:99::11"]),
            (["fd00:244:1::/64", "10.244.1.0/24"], ["fd00:99::11", "10.99.7.11"]),
        )
    )
    reported = [respelled(random, ip) for ip in primary]
    things.append(objects.node(NODE, zone=random.choice(("a", "b", "")), pod_cidrs=networks, addresses=reported))
    random.shuffle(things)
    return things, a_config(random)
