# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from IPVS to a real server: with rules that masquerade everything."""

from __future__ import annotations

import pytest

from kubenode.engine.explain.flow import Flow
from kubenode.engine.explain.predict import predict
from kubenode.engine.explain.routes import RouteEntry
from kubenode.engine.explain.view import NodeView, host_of, rules_of
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey

SERVER = VirtualServerKey("tcp", "10.96.0.1", 80, 4)
CLIENT = "192.0.2.9"


def seen_client(real_server: str, flow: Flow) -> tuple[str, bool]:
    """Return the client's address that a real server sees, and whether it is masqueraded."""
    items = {
        "virtual_server": {SERVER: VirtualServer("rr")},
        "real_server": {RealServerKey(SERVER, real_server, 8080): RealServer()},
        "chain": {ChainKey(4, "nat", "POSTROUTING"): ("-j MASQUERADE",)},
    }
    addresses = [("eth0", "10.0.0.1", 24), ("cni0", "10.244.1.254", 24), ("kube-ipvs0", "10.96.0.1", 32)]
    host = host_of(addresses, [RouteEntry("0.0.0.0/0", "unicast", "eth0", "10.0.0.254")])
    host = host._replace(sysctls={"net.ipv4.vs.conntrack": "1", "net.ipv4.ip_forward": "1"})
    (target,) = predict(NodeView(items, rules_of(items), {}, host), flow).targets
    assert not target.problem
    return target.client, target.is_masqueraded


@pytest.mark.parametrize(
    ("real_server", "source", "link", "wanted"),
    [
        ("10.244.1.5", CLIENT, "eth0", ("10.244.1.254", True)),
        ("10.0.0.1", CLIENT, "eth0", (CLIENT, False)),
        ("10.0.0.1", "10.96.0.1", "", ("10.0.0.1", True)),
    ],
    ids=["pod", "node", "node from itself"],
)
def test_real_server_on_the_node_sees_the_client(
    real_server: str, source: str, link: str, wanted: tuple[str, bool]
) -> None:
    assert seen_client(real_server, Flow("tcp", source, "10.96.0.1", 80, link)) == wanted
