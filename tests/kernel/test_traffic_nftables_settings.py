# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of settings on traffic as with iptables, on a node whose rules and sets are tables of nftables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel import test_traffic_routes as routes
from kernel import test_traffic_settings as settings
from support.traffic.cluster import Cluster, cluster_ip, node_port
from support.traffic.conversation import FORBIDDEN, REFUSED, ask, asked
from support.traffic.network import NODE

# These read iptables' text and counters, or add a rule of iptables.
_OTHERS = {
    "test_masquerade_bit_changes_the_mark",
    "test_reject_refuses_connections_without_endpoints",
    "test_rule_of_role_prepare_protects_loopback",
}
intruder = settings.intruder


@pytest.fixture(scope="module")
def cluster(nft_cluster: Cluster) -> Iterator[Cluster]:
    settings.fill(nft_cluster)
    nft_cluster.start()
    yield nft_cluster
    settings.clear(nft_cluster)


globals().update(
    {name: test for name, test in vars(settings).items() if name.startswith("test_") and name not in _OTHERS}
)


def test_another_mark_in_nftables(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"iptables": {"masqueradeBit": 20}})
    assert "0x00100000" in cluster.run("nft", "list", "chain", "ip", "kubenode", "mark-masq")
    assert asked("client1", node_port(30080, family)) == settings.masqueraded(family)


@pytest.mark.parametrize("where", ["client1", "p3", NODE])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_reject_without_endpoints_in_nftables(cluster: Cluster, family: int, protocol: str, where: str) -> None:
    cluster.reconfigure(noEndpoints="reject")
    wanted = FORBIDDEN if (where, protocol) == (NODE, "udp") else REFUSED
    for target in (cluster_ip(settings.EMPTY, family, protocol=protocol), node_port(30081, family, protocol)):
        assert ask(where, target) == wanted, target
    assert asked("client1", cluster_ip(settings.WEB, family)) == settings.masqueraded(family)


@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_routes_in_the_place_of_addresses(cluster: Cluster, family: int, protocol: str) -> None:
    cluster.reconfigure(**routes.ROUTES)
    assert "inet" not in cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    routes.test_routed_vips_are_reached_by_all_clients(cluster, family, protocol)


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_unused_addresses_of_a_routed_network_are_refused(cluster: Cluster, family: int, protocol: str) -> None:
    cluster.reconfigure(**routes.ROUTES)
    for port in (80, settings.HOST_PORT):
        for where in ("client1", "p3"):
            assert ask(where, cluster_ip(routes.UNUSED, family, port, protocol)) == REFUSED, (port, where)
