# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubenode explain`` against a real kernel: predictions equal what packets do, in both rules back ends."""

from __future__ import annotations

from random import Random

import pytest
from kernel import test_traffic_policies as policies
from kernel import test_traffic_services as services
from support.traffic.cluster import Cluster, balancer_ip, cluster_ip, external_ip, node_port
from support.traffic.conversation import Target
from support.traffic.explained import asked, explained, wanted_answers, words_of
from support.traffic.network import NODE

CLIENTS = ("p1", "p3", NODE, "client1", "client2")
NUMBERS = (9, 10, 11, 12, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34, 40, 41, 42, 43, 50, 51, 52, 53)
NODE_PORTS = (30009, 30010, 30011, 30012, 30014, 30020, 30021, 30022, 30024, 30030, 30031, 30042)


@pytest.fixture(scope="module", params=["iptables", "nftables"])
def cluster(request: pytest.FixtureRequest, bare_cluster: Cluster) -> Cluster:
    """Make a node with all Services of the traffic tests, in one back end after the other."""
    if request.param == "iptables":
        services.fill(bare_cluster)
        policies.fill(bare_cluster)
    bare_cluster.configure(allowedExternalIPs=services.ALLOWED, rules={"backend": request.param})
    if bare_cluster.agent.process is None:
        bare_cluster.start()
    else:
        bare_cluster.reconfigure(allowedExternalIPs=services.ALLOWED, rules={"backend": request.param})
    return bare_cluster


def random_flow(random: Random) -> tuple[str, Target]:
    family, protocol = random.choice((4, 6)), random.choice(("tcp", "tcp", "udp"))
    number = random.choice(NUMBERS)
    target = random.choice(
        (
            cluster_ip(number, family, protocol=protocol),
            external_ip(number, family, protocol=protocol),
            balancer_ip(number, family, protocol=protocol),
            node_port(random.choice(NODE_PORTS), family, protocol),
            cluster_ip(number, family, 81, protocol),
        )
    )
    return random.choice(CLIENTS), target


def test_prediction_equals_what_a_packet_does(cluster: Cluster, pytestconfig: pytest.Config) -> None:
    random = Random(20261124)
    wrong = []
    for _flow in range(pytestconfig.getoption("--flows")):
        where, target = random_flow(random)
        answer = explained(cluster, *words_of(where, target))
        wanted = wanted_answers(answer)
        got = asked(where, target, wanted)
        if got not in wanted:
            wrong.append((where, target, wanted, got, answer["summary"]))
    assert wrong == []
