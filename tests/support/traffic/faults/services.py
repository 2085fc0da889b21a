# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of the faults."""

from __future__ import annotations

from ...clusters.objects import Object
from ..cluster import pod, service
from ..network import APPLIANCE_IP, HOSTS
from .injected import (
    BROKEN_SLICE,
    CONFLICT,
    DEAF,
    EXTERNAL,
    FOUR,
    GOOD,
    INTERNAL,
    ITSELF,
    LOOPBACK,
    MAGLEV,
    NO_ENDPOINTS,
    NO_SLICE,
    NOT_READY,
    ONE,
    OTHER,
    PORT_NAME,
    PROXY,
    RANGES,
    REFUSED,
    STICKY,
    TAKEN,
    TERMINATING,
    TUNNEL,
    VIP,
    WEIGHTLESS,
)


def fill() -> list[Object]:
    """Return the Services of the faults."""
    dying = {"ready": False, "serving": False, "terminating": True}
    only = [f"{HOSTS['client2'].ip[4]}/32", f"{HOSTS['client2'].ip[6]}/128"]
    things = [
        *service(GOOD, ["p1", "r1"], protocols=("tcp", "udp"), node_port=30120, external=True, balancer=True),
        *service(NO_SLICE, [])[:1],
        *service(NO_ENDPOINTS, []),
        *service(NOT_READY, [pod("p1", ready=False), pod("r1", ready=False, serving=False)]),
        *service(TERMINATING, [pod("p1", **dying)]),
        *renamed(service(PORT_NAME, ["p1"])),
        *service(INTERNAL, ["r1"], internalTrafficPolicy="Local"),
        *service(EXTERNAL, ["r1"], node_port=30127, externalTrafficPolicy="Local"),
        *service(RANGES, ["p1"], balancer=True, loadBalancerSourceRanges=only),
        *service(WEIGHTLESS, ["p1"], weights={"p1": "0"}),
        *service(REFUSED, ["p1"], externalTrafficPolicy="Lokal"),
        *service(BROKEN_SLICE, ["p1"], weights={"p1": "-1"}),
        *service(OTHER, ["p1"], labels={"service.kubernetes.io/service-proxy-name": "another"}),
        *service(PROXY, ["p1"], kind="LoadBalancer", ingress=[{"ip": APPLIANCE_IP[4].format(9), "ipMode": "Proxy"}]),
        *service(CONFLICT, ["p1"], externalIPs=[VIP]),
        *service(LOOPBACK, ["p1"], externalIPs=["127.0.0.2"]),
        *service(FOUR, ["p1"], node_port=30136),
        *service(STICKY, ["p1", "p2"], sessionAffinity="ClientIP"),
        *service(
            MAGLEV, ["p1", "p2"], weights={"p1": "0"},
            annotations={"kubenode.ipvs/scheduler": "mh", "kubenode.ipvs/scheduler-flags": "mh-port"},
        ),
        *service(ITSELF, ["p1"]),
        *service(TAKEN, ["p1"]),
        *service(DEAF, ["p1"]),
        *service(ONE, ["p1", "p2"]),
        *service(TUNNEL, ["p1"]),
    ]  # fmt: skip
    for thing in things:
        name, spec = thing["metadata"]["name"], thing.get("spec", {})
        if name == f"svc{FOUR}" and spec:
            spec["clusterIPs"] = spec["clusterIPs"][:1]
        if name == f"svc{TUNNEL}":
            spec["ports"][0]["port"] = 8080
        if name.startswith(f"svc{DEAF}-"):
            thing["ports"][0]["port"] = 9999
    return things


def renamed(things: list[Object]) -> list[Object]:
    """Give the ports of EndpointSlices another name."""
    for thing in things[1:]:
        thing["ports"][0]["name"] = "web"
    return things
