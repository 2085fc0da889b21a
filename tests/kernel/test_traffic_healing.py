# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift that traffic notices: another process harms the agent's items, and the agent restores traffic soon."""

from __future__ import annotations

import itertools
import signal
from typing import NamedTuple

import pytest
from support.agent.process import eventually
from support.processes.kernel import NFT
from support.traffic.cluster import Cluster, balancer_ip, cluster_ip, node_port, service
from support.traffic.conversation import ANSWER, SILENCE, Talk, Target, ask
from support.traffic.network import GATEWAY, HOSTS, NODE

WEB, GUARDED, ITSELF = 90, 91, 92
SYNC_PERIOD = 1  # seconds
QUICK = 0.5  # seconds without an answer that count as harm


class Harm(NamedTuple):
    """Commands on the node ({} is the family's part of an address or name), and a request whose answer they change."""

    name: str
    commands: tuple[str, ...]
    where: str
    what: str
    nft: str = ""  # words for nft in place of the commands, where the agent's rules are in nftables
    at_once: bool = False  # the kernel sends an event to the agent
    connections: bool = True  # open connections survive it
    silent: bool = False  # no answer comes until the harm is done


HARMS = (
    Harm("deleted virtual server", ("ipvsadm -D -t {cluster}",), "client1", "cluster", connections=False),
    Harm("deleted real server", ("ipvsadm -d -t {cluster} -r {real}",), "client1", "cluster", connections=False),
    Harm("real server without weight", ("ipvsadm -e -t {cluster} -r {real} -m -w 0",), "client1", "cluster"),
    Harm(
        "flushed set",
        ("ipset flush {set}CLUSTER-IP",),
        "p3",
        "cluster",
        nft="flush set {table} cluster-ip",
    ),
    Harm(
        "flushed set of a firewall",
        ("ipset flush {source set}",),
        "client1",
        "guarded",
        nft="flush set {table} load-balancer-source-cidr",
    ),
    Harm(
        "rule of a chain",
        ("{iptables} -t nat -D KUBE-MARK-MASQ 1",),
        "client1",
        "node port",
        nft="flush chain {table} mark-masq",
    ),
    Harm(
        "flushed chain",
        ("{iptables} -t nat -F KUBE-POSTROUTING",),
        "client1",
        "node port",
        nft="flush chain {table} postrouting",
    ),
    Harm(
        "firewall gone",
        ("{iptables} -F KUBE-PROXY-FIREWALL",),
        "client2",
        "guarded",
        nft="flush chain {table} proxy-firewall",
        silent=True,
    ),
    Harm(
        "jump of PREROUTING",
        ("{iptables} -t nat -F PREROUTING",),
        "client1",
        "node port",
        nft="flush chain {table} nat-prerouting",
    ),
    Harm(
        "jump of POSTROUTING",
        ("{iptables} -t nat -F POSTROUTING",),
        "p1",
        "itself",
        nft="flush chain {table} nat-postrouting",
    ),
    Harm(
        "deleted chains",
        (
            "{iptables} -t nat -F PREROUTING",
            "{iptables} -t nat -F OUTPUT",
            "{iptables} -t nat -F KUBE-SERVICES",
            "{iptables} -t nat -X KUBE-SERVICES",
        ),
        "client1",
        "node port",
        nft="delete table {table}",
    ),
    Harm("address", ("ip addr del {cluster address} dev kube-ipvs0",), "client1", "cluster", at_once=True),
)
# Harms that do not depend on a family.
ONCE = (
    Harm("flushed IPVS table", ("ipvsadm -C",), "client1", "cluster", connections=False),
    Harm("link", ("ip link del kube-ipvs0",), "client1", "cluster", at_once=True),
    Harm("sysctl of IPVS", ("sysctl -qw net.ipv4.vs.conntrack=0",), "client1", "node port"),
    Harm("forwarding", ("sysctl -qw net.ipv4.ip_forward=0",), "client1", "node port"),
)


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    cluster = rules_cluster
    only = [f"{HOSTS['client1'].ip[4]}/32", f"{HOSTS['client1'].ip[6]}/128"]
    cluster.write("web", service(WEB, ["r1"], node_port=30090))
    cluster.write("guarded", service(GUARDED, ["p2"], balancer=True, loadBalancerSourceRanges=only))
    cluster.write("itself", service(ITSELF, ["p1"]))
    cluster.configure({"ipvs": {"syncPeriod": f"{SYNC_PERIOD}s"}})
    cluster.start()
    return cluster


def target_of(what: str, family: int) -> Target:
    table = {
        "cluster": cluster_ip(WEB, family),
        "guarded": balancer_ip(GUARDED, family),
        "itself": cluster_ip(ITSELF, family),
        "node port": node_port(30090, family),
    }
    return table[what]


def words(command: str, family: int) -> list[str]:
    """Return the words of a command for one family."""
    bracket = "{}" if family == 4 else "[{}]"
    virtual, real = cluster_ip(WEB, family), HOSTS["r1"].ip[family]
    values = {
        "cluster": f"{bracket.format(virtual.address)}:{virtual.port}",
        "cluster address": f"{virtual.address}/{32 if family == 4 else 128}",
        "real": f"{bracket.format(real)}:8080",
        "set": "KUBE-" if family == 4 else "KUBE-6-",
        "source set": "KUBE-LOAD-BALANCER-SOURCE-CIDR" if family == 4 else "KUBE-6-LOAD-BALANCER-SOURCE-CID",
        "iptables": "iptables" if family == 4 else "ip6tables",
        "table": f"ip{'' if family == 4 else '6'} kubenode",
    }
    for key, value in values.items():
        command = command.replace(f"{{{key}}}", value)
    return command.split()


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.name)
def test_traffic_recovers_after_drift(cluster: Cluster, family: int, harm: Harm) -> None:
    do_and_see(cluster, family, harm)


@pytest.mark.parametrize("harm", ONCE, ids=lambda harm: harm.name)
def test_traffic_of_both_families_recovers_after_drift(cluster: Cluster, harm: Harm) -> None:
    do_and_see(cluster, 4, harm)
    assert ask(harm.where, target_of(harm.what, 6)) == f"r1 sees {HOSTS[NODE].ip[6]}"


def do(cluster: Cluster, family: int, harm: Harm) -> None:
    """Do harm to the items of the agent's back end for rules."""
    commands = (f"{NFT} {harm.nft}",) if harm.nft and cluster.backend == "nftables" else harm.commands
    for command in commands:
        cluster.run(*words(command, family))


def do_and_see(cluster: Cluster, family: int, harm: Harm) -> None:
    """Do harm, see it in traffic, and see it repaired."""
    target = target_of(harm.what, family)
    # an expected answer gets a long timeout, an expected silence a short one
    answered, harmed = (ANSWER, QUICK) if not harm.silent else (QUICK, ANSWER)
    before = ask(harm.where, target, timeout=answered)
    assert (before == SILENCE) is harm.silent
    talk = Talk("client1", cluster_ip(WEB, family))
    try:
        assert talk.say().name == "r1"
        cluster.agent.kill(signal.SIGSTOP)  # the agent must not repair the harm before the test sees it
        try:
            do(cluster, family, harm)
            assert ask(harm.where, target, timeout=harmed) != before, "no harm was done"
        finally:
            cluster.agent.kill(signal.SIGCONT)
        waits = itertools.count(1)  # short at first: a request of before the repair stays without an answer
        eventually(lambda: ask(harm.where, target, timeout=min(answered, 5, next(waits) / 4)) == before)
        assert harm.connections is False or talk.say().name == "r1"
    finally:
        talk.abort()


@pytest.mark.parametrize("harm", [harm for harm in (*HARMS, *ONCE) if harm.at_once], ids=lambda harm: harm.name)
def test_drift_with_a_kernel_event_is_reverted_at_once(cluster: Cluster, family: int, harm: Harm) -> None:
    cluster.reconfigure({"ipvs": {"syncPeriod": "1h"}})
    target = target_of(harm.what, family)
    do(cluster, family, harm)
    eventually(lambda: ask(harm.where, target, timeout=5) == f"r1 sees {HOSTS[NODE].ip[family]}")


def test_a_new_address_of_the_node_gets_node_ports(cluster: Cluster, family: int) -> None:
    cluster.reconfigure({"ipvs": {"syncPeriod": "1h"}})
    address = {4: "10.99.0.77/24", 6: "fd00:99::77/64"}[family]
    target = Target(address.partition("/")[0], 30090)
    cluster.run("ip", "addr", "add", address, "dev", "eth0", *(["nodad"] if family == 6 else []))
    try:
        eventually(lambda: ask("client1", target, timeout=5).startswith("r1 sees "))
    finally:
        cluster.run("ip", "addr", "del", address, "dev", "eth0")
    eventually(lambda: not any(cluster.weights(target).values()))


def test_traffic_continues_while_the_agent_is_stopped(cluster: Cluster, family: int) -> None:
    assert cluster.agent.stop() == 0
    assert ask("client1", node_port(30090, family)) == f"r1 sees {HOSTS[NODE].ip[family]}"
    assert ask("p1", cluster_ip(ITSELF, family)) == f"p1 sees {GATEWAY[family]}"
    cluster.start()
    assert cluster.agent.ask("status")["last_full_sync"]["steps"] == 0
