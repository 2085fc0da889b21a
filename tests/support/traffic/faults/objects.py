# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of objects: Services, EndpointSlices, their fields."""

from __future__ import annotations

from ..network import APPLIANCE_IP, BALANCER_IP, GATEWAY, HOSTS, NODE
from .injected import (
    BROKEN_SLICE,
    CLIENT,
    DEAF,
    GOOD,
    INTERNAL,
    MAGLEV,
    NO_ENDPOINTS,
    NO_SLICE,
    NOT_READY,
    OTHER,
    PORT_NAME,
    RANGES,
    REFUSED,
    TAKEN,
    TERMINATING,
    VIP,
    WEIGHTLESS,
    Injected,
    to,
)

OBJECTS = (
    Injected("no EndpointSlice", "client1", to(NO_SLICE), ("no-slice",), "there is no EndpointSlice"),
    Injected("an EndpointSlice without endpoints", "p3", to(NO_ENDPOINTS), ("no-endpoints",), "lists none"),
    Injected("endpoints that are not ready", "client1", to(NOT_READY), ("not-ready",), "10.244.1.11 is not ready"),
    Injected("an endpoint that terminates", NODE, to(TERMINATING), ("not-ready",), "terminating and not serving"),
    Injected(
        "another port name in the EndpointSlice", "client1", to(PORT_NAME), ("port-name",), "p-tcp (it has tcp web)"
    ),
    Injected(
        "internalTrafficPolicy Local without a local endpoint",
        "p3",
        to(INTERNAL),
        ("policy-local",),
        "10.244.2.11 on node2",
    ),
    Injected(
        "externalTrafficPolicy Local without a local endpoint",
        "client1",
        f"{HOSTS[NODE].ip[4]}:30127",
        ("local-fallback",),
        "externalTrafficPolicy",
    ),
    Injected(
        "source ranges without the client", "client1", f"{BALANCER_IP[4].format(RANGES)}:80", ("source-range",), CLIENT
    ),
    Injected(
        "source ranges without the node",
        NODE,
        f"{BALANCER_IP[4].format(RANGES)}:80",
        ("source-range",),
        "the node itself",
    ),
    Injected("weight 0 of an EndpointSlice", "client1", to(WEIGHTLESS), ("weight-annotation",), "kubenode.ipvs/weight"),
    Injected(
        "a Service that the agent refuses",
        "client1",
        to(REFUSED),
        ("service-refused",),
        "spec.externalTrafficPolicy is 'Lokal'",
    ),
    Injected(
        "an EndpointSlice that the agent refuses",
        "client1",
        to(BROKEN_SLICE),
        ("slice-refused",),
        "kubenode.ipvs/weight",
    ),
    Injected("a Service of another proxy", "client1", to(OTHER), ("other-proxy",), "service-proxy-name=another"),
    Injected(
        "a load balancer address with ipMode Proxy",
        "client1",
        f"{APPLIANCE_IP[4].format(9)}:80",
        ("proxy-mode",),
        "ipMode Proxy",
    ),
    Injected("an external IP that the agent refuses", NODE, "127.0.0.2:80", ("service-refused",), "127.0.0.2"),
    Injected(
        "a Service without the family",
        "client1",
        f"[{HOSTS[NODE].ip[6]}]:30136",
        ("other-family",),
        "no cluster IP of IPv6",
    ),
    Injected("a port that the Service does not have", "client1", to(GOOD, 81), ("wrong-port",), "no port tcp 81"),
    Injected("an address that no Service has", "client1", "10.96.0.250:80", ("no-service",), "no Service has"),
    Injected(
        "nodePortAddresses without the address",
        "p3",
        f"{GATEWAY[4]}:30120",
        ("node-port-address",),
        "nodePortAddresses",
    ),
    Injected("a hashing scheduler without fallback", "client1", to(MAGLEV), ("no-fallback",), "no fallback"),
    Injected("a virtual server of another program", "client1", to(TAKEN), ("server-foreign",), "not in the ledger"),
    Injected(
        "a pod that does not listen",
        "p3",
        to(DEAF),
        ("pod-refuses",),
        "no process listens",
        words=("--probe", "--netns", "p3"),
    ),
    Injected(
        "a client without a route back",
        "192.168.77.7",
        f"{VIP}:80",
        ("client-route",),
        "192.168.77.7",
        words=("--in-interface", "eth0"),
    ),
)
