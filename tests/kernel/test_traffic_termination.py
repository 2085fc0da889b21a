# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Graceful termination of real connections that outlive their endpoint.

The tests cover restarts of the agent, and draining with and without a bound.
"""

from __future__ import annotations

import time

import pytest
from support.agent.process import eventually
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import REFUSED, Talk, Target, ask, asked
from support.traffic.network import GATEWAY, HOSTS, NODE

LEAVES, RETURNS, DELETED, LAST, IDLE, BOUND, ROLLING, SCTP, ENDS = 70, 71, 72, 73, 74, 75, 76, 77, 78
FAMILIES = (4, 6)
CLOSED = 10  # seconds for which IPVS counts a connection that was reset


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    rules_cluster.start()
    return rules_cluster


def serve(cluster: Cluster, number: int, pods: list[str], protocol: str = "tcp") -> None:
    """Serve a Service by these pods, and return once no other pod has a weight above 0."""
    cluster.write(f"svc{number}", service(number, pods, protocols=[protocol], node_port=30000 + number))
    for family in FAMILIES:
        for target in (cluster_ip(number, family, protocol=protocol), node_port(30000 + number, family, protocol)):
            eventually(
                lambda target=target: {pod for pod, weight in cluster.weights(target).items() if weight} == set(pods)
            )


def connections(number: int, pod: str, protocol: str = "tcp") -> list[Talk]:
    """Return connections to one pod of a Service, two in each family.

    One goes from a pod to the cluster IP, one from outside to the node port.
    """
    connected = []
    for family in FAMILIES:
        for where, target in (
            ("p3", cluster_ip(number, family, protocol=protocol)),
            ("client1", node_port(30000 + number, family, protocol)),
        ):
            talk = Talk(where, target)
            if talk.say().name != pod:
                talk.abort()
                talk = Talk(where, target)  # round robin: the next pod
            connected.append(talk)
    assert names(connected) == [pod] * 4
    return connected


def names(talks: list[Talk]) -> list[str]:
    return [talk.say().name for talk in talks]


def virtual_servers(number: int) -> list[Target]:
    return [target for family in FAMILIES for target in (cluster_ip(number, family), node_port(30000 + number, family))]


def test_connection_survives_endpoint_removal_and_restart(cluster: Cluster) -> None:
    serve(cluster, LEAVES, ["p1", "p2"])
    talks = connections(LEAVES, "p1")
    serve(cluster, LEAVES, ["p2"])
    for target in virtual_servers(LEAVES):
        assert cluster.weights(target) == {"p1": 0, "p2": 1}, target
    assert names(talks) == ["p1"] * 4
    for target in virtual_servers(LEAVES):
        assert asked("client2", target) == {f"p2 sees {GATEWAY[target.family]}": 4}
    # before the agent first counts connections, and after it
    time.sleep(1.5)
    assert names(talks) == ["p1"] * 4
    draining = cluster.agent.ask("status")["draining"]
    assert len([item for item in draining if ":8080" in item["real_server"]]) >= 4

    cluster.restart()
    for target in virtual_servers(LEAVES):
        assert cluster.weights(target) == {"p1": 0, "p2": 1}, target
        assert asked("client2", target, 2) == {f"p2 sees {GATEWAY[target.family]}": 2}
    assert names(talks) == ["p1"] * 4
    # the time from before the restart counts
    assert min(item["seconds"] for item in cluster.agent.ask("status")["draining"]) >= 1

    for talk in talks:
        talk.abort()


def test_returning_endpoint_regains_its_weight(cluster: Cluster) -> None:
    serve(cluster, RETURNS, ["p1", "p2"])
    talks = connections(RETURNS, "p1")
    serve(cluster, RETURNS, ["p2"])
    serve(cluster, RETURNS, ["p1", "p2"])
    assert names(talks) == ["p1"] * 4
    for target in virtual_servers(RETURNS):
        assert cluster.weights(target) == {"p1": 1, "p2": 1}
        assert sorted(asked("client2", target)) == [
            f"p1 sees {GATEWAY[target.family]}",
            f"p2 sees {GATEWAY[target.family]}",
        ]
    assert not [
        item for item in cluster.agent.ask("status")["draining"] if f"10.96.0.{RETURNS}:" in item["real_server"]
    ]
    time.sleep(1.5)
    assert names(talks) == ["p1"] * 4
    for talk in talks:
        talk.abort()


def test_connections_of_deleted_service_drain_completely(cluster: Cluster) -> None:
    serve(cluster, DELETED, ["p1"])
    talks = connections(DELETED, "p1")
    cluster.write(f"svc{DELETED}", [])
    for target in virtual_servers(DELETED):
        cluster.becomes(target, {"p1": 0})
    time.sleep(1.5)
    assert names(talks) == ["p1"] * 4
    for target in virtual_servers(DELETED):
        assert ask("client2", target) == REFUSED, target
    serve(cluster, ENDS, ["p1", "p2"])
    talks += connections(ENDS, "p1")
    serve(cluster, ENDS, ["p2"])

    start = time.monotonic()
    for talk in talks:
        talk.abort()
    for target in virtual_servers(ENDS):
        cluster.becomes(target, {"p2": 1})
    assert time.monotonic() - start > CLOSED / 2  # not before the kernel counts no connection
    for target in virtual_servers(DELETED):
        cluster.becomes(target, {})
    listed = cluster.run("ipvsadm", "-Sn")
    for target in virtual_servers(DELETED):
        assert f"{target.address}:{target.port} " not in listed.replace("[", "").replace("]", "")
    addresses = cluster.run("ip", "addr", "show", "dev", "kube-ipvs0")
    assert f"10.96.0.{DELETED}/32" not in addresses
    assert f"fd00:96::{DELETED}/128" not in addresses


def test_connections_survive_removal_of_the_last_endpoint(cluster: Cluster) -> None:
    serve(cluster, LAST, ["p1"])
    talks = connections(LAST, "p1")
    serve(cluster, LAST, [])
    assert names(talks) == ["p1"] * 4
    for target in virtual_servers(LAST):
        assert ask("client2", target) == REFUSED, target
    serve(cluster, LAST, ["p1"])
    assert names(talks) == ["p1"] * 4
    for talk in talks:
        talk.abort()


def test_endpoint_without_connections_is_removed_soon(cluster: Cluster) -> None:
    serve(cluster, IDLE, ["p1", "p2"])
    serve(cluster, IDLE, ["p2"])
    for target in virtual_servers(IDLE):
        cluster.becomes(target, {"p2": 1})


def test_sctp_does_not_drain(cluster: Cluster) -> None:
    serve(cluster, SCTP, ["p1", "p2"], "sctp")
    talks = connections(SCTP, "p1", "sctp")
    serve(cluster, SCTP, ["p2"], "sctp")
    for family in FAMILIES:
        assert cluster.weights(cluster_ip(SCTP, family, protocol="sctp")) == {"p2": 1}
        assert ask("client1", cluster_ip(SCTP, family, protocol="sctp")) == f"p2 sees {GATEWAY[family]}"
    for talk in talks:
        talk.abort()


def test_no_request_is_lost_while_endpoints_come_and_go(cluster: Cluster) -> None:
    serve(cluster, ROLLING, ["p1", "p2"])
    counts: dict[str, int] = {}
    for pods in (["p2", "p3"], ["p3", "p1"], ["r1"], ["r1", "r2"], ["p1", "p2", "p3"], ["p2"]):
        cluster.write(f"svc{ROLLING}", service(ROLLING, pods, node_port=30000 + ROLLING))
        for _time in range(8):  # while the agent applies the change
            for target in virtual_servers(ROLLING):
                answer = ask("client1", target)
                counts[answer] = counts.get(answer, 0) + 1
        serve(cluster, ROLLING, pods)
    seen = {*GATEWAY.values(), *HOSTS[NODE].ip.values()}
    assert not [answer for answer in counts if answer.split(" sees ")[-1] not in seen], counts


def test_drain_bound_ends_the_connection(cluster: Cluster) -> None:
    cluster.reconfigure(gracefulTermination={"maxDuration": "3s"})
    serve(cluster, BOUND, ["p1", "p2"])
    talks = connections(BOUND, "p1")
    start = time.monotonic()
    serve(cluster, BOUND, ["p2"])
    for talk, target in zip(talks, virtual_servers(BOUND), strict=True):
        try:
            assert talk.say().name == "p1"
        except OSError:  # on a slow machine the bound may already be over
            assert cluster.weights(target) == {"p2": 1}
    for target in virtual_servers(BOUND):
        cluster.becomes(target, {"p2": 1})
    assert time.monotonic() - start > 2
    for talk in talks:
        with pytest.raises(OSError):  # noqa: PT011 (reset, or no answer any more)
            talk.say()
        talk.close()
