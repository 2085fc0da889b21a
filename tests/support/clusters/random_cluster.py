# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random streams of events on a small cluster.

Names, addresses and ports are few, so that objects often conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from kubenode.engine.desired.node_facts import NodeFacts

from . import objects

NAMES = ("a", "b", "c", "d")
SLICES = ("s1", "s2", "s3", "s4", "s5")
CLUSTER_IPS = (("10.96.0.1", "10.96.0.2", "10.96.0.3"), ("fd00::1", "fd00::2", "fd00::3"))
EXTERNAL_IPS = ("203.0.113.1", "203.0.113.2", "2001:db8::1", "10.99.0.11", "127.0.0.1", "10.96.0.1")
BALANCER_IPS = ("198.51.100.1", "198.51.100.2", "2001:db8:b::1", "203.0.113.1")
PODS = {4: ("10.244.1.1", "10.244.1.2", "10.244.2.1"), 6: ("fd00:244::1", "fd00:244::2", "fd00:244::3")}
RANGES = ([], ["192.0.2.0/24"], ["10.99.0.0/16", "fd00:99::/64"], ["192.0.2.7/32"], ["2001:db8:c::/64"])
FACTS = (
    NodeFacts(
        "n1", (("lo", "127.0.0.1"), ("eth0", "10.99.0.11"), ("eth0", "fd00:99::11")), ("10.99.0.11", "fd00:99::11"), "a"
    ),
    NodeFacts("n1", (("eth0", "10.99.0.11"), ("eth0", "10.99.0.12"), ("eth1", "203.0.113.1")), ("10.99.0.11",)),
    NodeFacts("n1"),
)
# Invalid fields of a Service's spec: field, value.
_BREAKS: tuple[tuple[str, Any], ...] = (
    ("clusterIPs", ["10.96.0.256"]),
    ("clusterIPs", []),
    ("ports", []),
    ("ports", [objects.port(70000)]),
    ("ports", [objects.port(protocol="ICMP")]),
    ("ports", 7),
    ("externalIPs", ["broken"]),
    ("loadBalancerSourceRanges", ["10.0.0.0/33"]),
    ("externalTrafficPolicy", "Lokal"),
    ("sessionAffinity", True),
)


class RandomCluster:
    """A source of random objects and events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def some(self, values: tuple[Any, ...], most: int) -> list[Any]:
        return self.random.sample(values, self.random.randint(0, most))

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def service(self) -> dict[str, Any]:
        pick = self.random.choice
        families = pick(((0,), (0, 1), (1,), (1, 0)))
        kind = pick(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"))
        ports = []
        for name in self.random.sample(("p", "q", ""), self.random.randint(1, 3)):
            node_port = pick((0, 30001, 30002)) if kind != "ClusterIP" else 0
            ports.append(objects.port(pick((80, 443)), name, pick(("TCP", "UDP", "SCTP")), node_port))
        item = objects.service(
            pick(NAMES),
            [pick(CLUSTER_IPS[family]) for family in families],
            ports,
            kind=kind,
            creationTimestamp=f"2026-01-0{self.random.randint(1, 3)}T00:00:00Z",
            annotations=pick(({}, {}, {"kubenode.ipvs/scheduler": "wrr"}, {"kubenode.ipvs/scheduler-flags": "flag-1"})),
            ingress=[{"ip": ip, "ipMode": pick(("VIP", "VIP", "Proxy"))} for ip in self.some(BALANCER_IPS, 2)],
            externalIPs=self.some(EXTERNAL_IPS, 3),
            externalTrafficPolicy=pick(("Cluster", "Local")),
            internalTrafficPolicy=pick(("Cluster", "Local")),
            sessionAffinity=pick(("None", "ClientIP")),
            healthCheckNodePort=pick((0, 32000, 32001)),
            loadBalancerSourceRanges=pick(RANGES),
        )
        if self.chance(5):
            item["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = "other"
        if self.chance(5):
            item["spec"].update(pick(({"clusterIP": "None", "clusterIPs": ["None"]}, {"type": "ExternalName"})))
        if self.chance(15):
            field, value = pick(_BREAKS)
            item["spec"][field] = value
            if field == "clusterIPs" and not value:
                item["spec"]["clusterIP"] = ""
        return item

    def piece(self) -> dict[str, Any]:
        pick = self.random.choice
        family = pick((4, 4, 6))
        item = objects.piece(
            pick(NAMES),
            [self.endpoint(family) for _ in range(self.random.randint(0, 4))],
            [
                {"name": name, "protocol": pick(("TCP", "UDP", "SCTP")), "port": pick((8080, 8081))}
                for name in ("p", "q", "")
                if self.chance(80)
            ],
            name=pick(SLICES),
            family=family,
            annotations=pick(({}, {}, {"kubenode.ipvs/weight": "5"})),
        )
        if self.chance(10):
            pick(
                (
                    lambda: item["metadata"]["labels"].update({"service.kubernetes.io/headless": ""}),
                    lambda: item["metadata"].update(labels=None),
                    lambda: item.update(addressType=pick(("FQDN", "IPv5"))),
                    lambda: item.update(ports=[{"name": "p", "port": 70000}]),
                    lambda: item.update(endpoints=[{}, *item["endpoints"]]),
                    lambda: item.update(endpoints=None),
                    lambda: item["metadata"].update(annotations={"kubenode.ipvs/weight": "-1"}),
                )
            )()
        return item

    def endpoint(self, family: int) -> dict[str, Any]:
        pick = self.random.choice
        return objects.endpoint(
            pick(PODS[10 - family if self.chance(5) else family]),
            pick((None, "n1", "n1", "n2")),
            ready=pick((None, True, True, False)),
            serving=pick((None, True, False)),
            terminating=pick((None, False, True)),
            zones=pick((None, ["a"], ["a"], ["b"], ["a", "b"])),
            nodes=pick((None, None, ["n1"], ["n2"])),
        )

    def node(self) -> dict[str, Any]:
        pick = self.random.choice
        return objects.node(
            pick(("n1", "n1", "n2")),
            zone=pick(("", "a", "b")),
            pod_cidrs=pick(([], ["10.244.1.0/24"], ["10.244.1.0/24", "fd00:244::/64"], ["?"])),
            addresses=pick(([], ["10.99.0.11"], ["192.0.2.7", "fd00:99::11"])),
        )

    def events(self, count: int) -> Iterator[tuple[str, Any]]:
        """Yield ("put", object), ("remove", (kind, namespace, name)), ("facts", facts) and ("look", None)."""
        pick = self.random.choice
        for _ in range(count):
            what = self.random.randrange(100)
            if what < 40:
                yield "put", self.service()
            elif what < 75:
                yield "put", self.piece()
            elif what < 78:
                yield "put", self.node()
            elif what < 84:
                yield "remove", ("Service", "ns1", pick(NAMES))
            elif what < 88:
                yield "remove", ("EndpointSlice", "ns1", pick(SLICES))
            elif what < 89:
                yield "remove", ("Node", "default", "n1")
            elif what < 92:
                yield "facts", pick(FACTS)
            else:
                yield "look", None
