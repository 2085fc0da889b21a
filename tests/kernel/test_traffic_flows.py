# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stickiness of clients to pods: session affinity, UDP flows of a removed pod, schedulers and weights."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.agent.process import eventually
from support.traffic.cluster import Cluster, balancer_ip, cluster_ip, external_ip, node_port, pod, service
from support.traffic.conversation import Talk, Target, asked
from support.traffic.network import GATEWAY, HOSTS, NODE

STICKY, STICKY_UDP, STICKY_GONE = 60, 61, 62
FLOW, STEADY, LATE, SERVING = 63, 64, 68, 69
WEIGHTED, HASHED, UNWEIGHTED = 65, 66, 67
LOCAL_UDP = 70
AFFINITY = 4  # seconds
CLIENT_IP = {"sessionAffinity": "ClientIP"}


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    cluster = rules_cluster
    # only the agent removes a flow; a slow machine must not let it time out
    cluster.run(
        "sysctl",
        "-qw",
        "net.netfilter.nf_conntrack_udp_timeout=3600",
        "net.netfilter.nf_conntrack_udp_timeout_stream=3600",
    )
    short = {"clientIP": {"timeoutSeconds": AFFINITY}}
    pods = ["p1", "p2"]
    cluster.write(
        "sticky", service(STICKY, pods, node_port=30060, balancer=True, externalTrafficPolicy="Local", **CLIENT_IP)
    )
    cluster.write("sticky-udp", service(STICKY_UDP, pods, protocols=["udp"], **CLIENT_IP, sessionAffinityConfig=short))
    wrr = {"kubenode.ipvs/scheduler": "wrr"}
    cluster.write("weighted", service(WEIGHTED, ["p1", "p2", "p3"], annotations=wrr, weights={"p1": "3", "p3": "0"}))
    cluster.write("hashed", service(HASHED, ["p1", "p2", "p3"], annotations={"kubenode.ipvs/scheduler": "sh"}))
    cluster.write("unweighted", service(UNWEIGHTED, ["p1", "p2"], weights={"p1": "3"}))
    # A comparison would reset the sysctls that a test changes (`keeping`). With iptables-nft, the agent's own change
    # of a chain causes one. So the first UDP node port with the policy Local, which adds a rule, is here before.
    cluster.write(
        "local-udp", service(LOCAL_UDP, pods, protocols=["udp"], node_port=30070, externalTrafficPolicy="Local")
    )
    cluster.configure({"ipvs": {"syncPeriod": "1h"}})
    cluster.start()
    return cluster


def pods_of(cluster: Cluster, where: str, target: Target, times: int = 4) -> list[str]:
    """Return the names of the pods that answer, each once."""
    return sorted({answer.split()[0] for answer in asked(where, target, times)})


# session affinity


@pytest.mark.parametrize("where", ["cluster IP", "node port", "balancer IP"])
def test_affinity_keeps_each_client_with_its_pod(cluster: Cluster, family: int, where: str) -> None:
    chosen = {"cluster IP": cluster_ip(STICKY, family), "balancer IP": balancer_ip(STICKY, family)}
    target = chosen.get(where, node_port(30060, family))
    first, second = pods_of(cluster, "client1", target), pods_of(cluster, "client2", target)
    assert sorted(first + second) == ["p1", "p2"]
    assert pods_of(cluster, "client1", target) == first


def test_affinity_moves_client_of_a_removed_pod_at_once(cluster: Cluster, family: int) -> None:
    target = cluster_ip(STICKY_GONE, family)
    cluster.write("sticky-gone", service(STICKY_GONE, ["p1", "p2"], **CLIENT_IP))
    cluster.becomes(target, {"p1": 1, "p2": 1})
    (mine,) = pods_of(cluster, "client1", target)
    (other,) = {"p1", "p2"} - {mine}
    cluster.write("sticky-gone", service(STICKY_GONE, [other], **CLIENT_IP))
    cluster.becomes(target, {mine: 0, other: 1})
    assert pods_of(cluster, "client1", target) == [other]
    cluster.remove("sticky-gone", target)


# UDP


def tracked(cluster: Cluster, family: int, pod: str) -> list[str]:
    """Return the UDP flows that a pod answers."""
    option = "ipv4" if family == 4 else "ipv6"
    return [
        line
        for line in cluster.run("conntrack", "-L", "-f", option, "-p", "udp").splitlines()
        if f"src={HOSTS[pod].ip[family]} dst=" in line.partition("dport=")[2]
    ]


def test_udp_client_of_removed_pod_reaches_another_pod(cluster: Cluster, family: int) -> None:
    every = {"protocols": ["udp"], "node_port": 30063, "external": True, "balancer": True}
    cluster.write("flow", service(FLOW, ["p1"], **every))
    targets = [
        cluster_ip(FLOW, family, protocol="udp"),
        external_ip(FLOW, family, protocol="udp"),
        balancer_ip(FLOW, family, protocol="udp"),
        node_port(30063, family, "udp"),
    ]
    for target in targets:
        cluster.becomes(target, {"p1": 1})
    talks = [Talk("client1", target) for target in targets]
    try:
        assert [(answer.name, answer.client) for answer in (talk.say() for talk in talks)] == [
            ("p1", GATEWAY[family])
        ] * 4
        assert len(tracked(cluster, family, "p1")) == 4
        cluster.write("flow", service(FLOW, ["r1"], **every))
        for target in targets:
            cluster.becomes(target, {"r1": 1})
        eventually(lambda: not tracked(cluster, family, "p1"))
        # no datagram is lost once the agent has deleted the flow
        assert [(answer.name, answer.client) for answer in (talk.say() for talk in talks)] == [
            ("r1", HOSTS[NODE].ip[family])
        ] * 4
    finally:
        for talk in talks:
            talk.close()


def test_udp_client_reaches_a_service_created_later(cluster: Cluster, family: int) -> None:
    """A flow that connection tracking saw before the virtual server existed would never be masqueraded."""
    target = node_port(30068, family, "udp")
    talk = Talk("client1", target)
    try:
        with pytest.raises(ConnectionRefusedError):
            talk.say()
        own = f"src={target.address} dst={HOSTS['client1'].ip[family]}"
        flows = ["conntrack", "-L", "-f", f"ipv{family}", "-p", "udp", "--orig-port-dst", "30068"]
        assert own in cluster.run(*flows)
        cluster.write("late", service(LATE, ["r1"], protocols=["udp"], node_port=30068))
        cluster.becomes(target, {"r1": 1})
        eventually(lambda: own not in cluster.run(*flows))
        answer = talk.say()
        assert (answer.name, answer.client) == ("r1", HOSTS[NODE].ip[family])
    finally:
        talk.close()
    cluster.remove("late", target)


def test_udp_flows_of_remaining_pods_stay(cluster: Cluster, family: int) -> None:
    target = cluster_ip(STEADY, family, protocol="udp")
    cluster.write("steady", service(STEADY, ["p1"], protocols=["udp"]))
    cluster.becomes(target, {"p1": 1})
    talk = Talk("p3", target)
    try:
        first = talk.say()
        cluster.write("steady", service(STEADY, ["p1", "p2"], protocols=["udp"]))
        cluster.becomes(target, {"p1": 1, "p2": 1})
        assert len(tracked(cluster, family, "p1")) == 1
        assert talk.say() == first
    finally:
        talk.close()
    cluster.remove("steady", target)


@pytest.fixture
def keeping(cluster: Cluster) -> Iterator[None]:
    """Keep the kernel from deleting the flows of a removed real server."""
    cluster.run("sysctl", "-qw", "net.ipv4.vs.expire_nodest_conn=0")
    yield
    cluster.run("sysctl", "-qw", "net.ipv4.vs.expire_nodest_conn=1")


def test_udp_flows_of_unserving_endpoint_are_removed(cluster: Cluster, keeping: None, family: int) -> None:
    """Not when another endpoint is preferred, but when it stops serving, although no real server changes then."""
    target = node_port(30069, family, "udp")
    given = {"protocols": ["udp"], "node_port": 30069, "externalTrafficPolicy": "Local"}
    cluster.write("serving", service(SERVING, ["r1"], **given))
    cluster.becomes(target, {"r1": 1})
    talk = Talk("p3", target)

    def answered_by_r1() -> list[str]:
        return [line for line in tracked(cluster, family, "r1") if " dport=30069 " in line]

    try:
        assert talk.say().name == "r1"
        cluster.write("serving", service(SERVING, ["r1", "p1"], **given))
        cluster.becomes(target, {"p1": 1})
        assert len(answered_by_r1()) == 1
        dying = {"ready": False, "serving": True, "terminating": True}
        cluster.write("serving", service(SERVING, [pod("r1", **dying), "p1"], **given))
        cluster.becomes(cluster_ip(SERVING, family, protocol="udp"), {"p1": 1})
        assert len(answered_by_r1()) == 1
        cluster.write("serving", service(SERVING, ["p1"], **given))
        eventually(lambda: not answered_by_r1())
    finally:
        talk.close()
    cluster.remove("serving", target)


# schedulers and weights


def test_weights_distribute_connections(cluster: Cluster, family: int) -> None:
    seen = GATEWAY[family]
    assert asked("client1", cluster_ip(WEIGHTED, family), 8) == {f"p1 sees {seen}": 6, f"p2 sees {seen}": 2}


def test_default_scheduler_ignores_weights(cluster: Cluster, family: int) -> None:
    seen = GATEWAY[family]
    assert cluster.weights(cluster_ip(UNWEIGHTED, family)) == {"p1": 3, "p2": 1}
    assert asked("client1", cluster_ip(UNWEIGHTED, family), 8) == {f"p1 sees {seen}": 4, f"p2 sees {seen}": 4}


def test_source_hashing_keeps_a_client_with_its_pod(cluster: Cluster, family: int) -> None:
    assert len(pods_of(cluster, "client1", cluster_ip(HASHED, family), 6)) == 1


# the last test: it changes the configuration


def test_affinity_ends_after_its_timeout(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"ipvs": {"udpTimeout": "1s"}})  # affinity lasts at least as long as the client's connections
    target = cluster_ip(STICKY_UDP, family, protocol="udp")
    first = pods_of(cluster, "client1", target)
    assert len(first) == 1
    time.sleep(AFFINITY / 4)
    assert pods_of(cluster, "client1", target) == first
    time.sleep(AFFINITY + 1.5)
    second = pods_of(cluster, "client1", target)
    assert sorted(first + second) == ["p1", "p2"]
