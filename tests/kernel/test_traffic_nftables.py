# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic as with iptables, on a node whose rules and sets are tables of nftables.

The tests are those of the other files, with a cluster that has neither iptables rules nor IP sets.
"""

from __future__ import annotations

import pytest
from kernel import test_traffic_policies as policies
from kernel import test_traffic_services as services
from support.traffic.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(nft_cluster: Cluster) -> Cluster:
    services.fill(nft_cluster)
    policies.fill(nft_cluster)
    nft_cluster.configure(allowedExternalIPs=services.ALLOWED)
    nft_cluster.start()
    return nft_cluster


for _module in (services, policies):
    globals().update({name: test for name, test in vars(_module).items() if name.startswith("test_")})


def test_rules_and_sets_are_in_nftables_alone(cluster: Cluster) -> None:
    assert "KUBE-" not in cluster.run("iptables-save") + cluster.run("ip6tables-save") + cluster.run("ipset", "save")
    assert "jump services" in cluster.run("nft", "list", "table", "ip", "kubenode")
