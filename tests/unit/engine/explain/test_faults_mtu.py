# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links of different MTU: a fault only if a rule surely drops the ICMP message that tells a sender."""

from __future__ import annotations

import pytest

from kubenode.engine.explain.faults import Case
from kubenode.engine.explain.faults.system import mtu
from kubenode.engine.explain.flow import Flow
from kubenode.engine.explain.predict import predict
from kubenode.engine.explain.routes import RouteEntry
from kubenode.engine.explain.view import LinkView, NodeView, host_of, rules_of
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey

CLIENTS = {4: "192.0.2.9", 6: "2001:db8::9"}
ADDRESSES = [
    *(("eth0", "10.0.0.1", 24), ("cni0", "10.244.1.254", 24), ("kube-ipvs0", "10.96.0.1", 32)),
    *(("eth0", "fd00::1", 64), ("cni0", "fd00:244:1::fffe", 64), ("kube-ipvs0", "fd00:96::1", 128)),
]
ROUTES = [
    RouteEntry("0.0.0.0/0", "unicast", "eth0", "10.0.0.254"),
    RouteEntry("::/0", "unicast", "eth0", "fd00::fe"),
]
SYSCTLS = {"net.ipv4.vs.conntrack": "1", "net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"}


def sentence(pod_mtu: int, *rules: str, family: int = 4, link: str = "eth0") -> str:
    """Return the sentence about a flow to a pod on a link of this MTU, with rules in OUTPUT; "" for no fault."""
    address, pod = {4: ("10.96.0.1", "10.244.1.5"), 6: ("fd00:96::1", "fd00:244:1::5")}[family]
    server = VirtualServerKey("tcp", address, 80, family)
    items = {
        "virtual_server": {server: VirtualServer("rr")},
        "real_server": {RealServerKey(server, pod, 8080): RealServer()},
        "chain": {ChainKey(family, "filter", "OUTPUT"): rules},
    }
    host = host_of(ADDRESSES, ROUTES)
    links = {**host.links, "cni0": LinkView("cni0", kind="bridge", mtu=pod_mtu)}
    view = NodeView(items, rules_of(items), {}, host._replace(links=links, sysctls=SYSCTLS))
    flow = Flow("tcp", CLIENTS[family] if link else "10.0.0.1", address, 80, link)
    path = predict(view, flow)
    assert path.arrives
    fault = mtu(Case(view, flow, path))
    return fault.sentence if fault is not None else ""


def test_dropped_icmp_names_sender_links_and_rule() -> None:
    assert sentence(1400, "-p icmp -j DROP") == (
        "packets of 192.0.2.9 above 1400 bytes are lost: link cni0 takes no larger ones, link eth0 takes 1500, and"
        " rule 1 of chain OUTPUT of table filter drops it: -p icmp -j DROP"
    )
    assert sentence(9000, "-o cni0 -p icmp -j DROP").startswith("packets of 10.244.1.5 above 1500 bytes are lost")
    assert sentence(1400, "-p ipv6-icmp -j DROP", family=6).startswith("packets of 2001:db8::9 above 1400 bytes")


@pytest.mark.parametrize(
    ("pod_mtu", "rules", "link"),
    [
        (1400, (), "eth0"),
        (1500, ("-p icmp -j DROP",), "eth0"),
        (9000, ("-o eth0 -p icmp -j DROP",), "eth0"),
        (1400, ("-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-p icmp -j DROP"), "eth0"),
        (1400, ("-p icmp -m icmp --icmp-type 8 -j DROP",), "eth0"),
        (1400, ("-p icmp -j DROP",), ""),
    ],
    ids=["no rule", "same MTU", "another link", "accepted before", "perhaps another type", "the node itself"],
)
def test_other_links_and_rules_are_not_accused(pod_mtu: int, rules: tuple[str, ...], link: str) -> None:
    assert sentence(pod_mtu, *rules, link=link) == ""
