# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent whose rules are in tables of nftables: its choice, live switches, drift, foreign tables."""

from __future__ import annotations

import os
import shutil
import threading

import pytest
from support.agent.process import eventually
from support.processes.namespace import inside, sh
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import REFUSED, SILENCE, Target, ask
from support.traffic.network import HOSTS, NODE
from support.traffic.steady import Steady

WEB, ITSELF, PORT = 110, 111, 30110
MANY = 20  # requests after each switch
FOREIGN = "add table inet foreign; add set inet foreign kubenode { type ipv4_addr; }"
HARMS = (
    "flush set {family} kubenode cluster-ip",
    "flush chain {family} kubenode mark-masq",
    "flush chain {family} kubenode nat-prerouting",
    "insert rule {family} kubenode services return",
    "flush chain {family} kubenode nat-postrouting; delete chain {family} kubenode nat-postrouting",
    "add element {family} kubenode cluster-ip {{ {address} . tcp . 9 }}",
    "delete table {family} kubenode",
    "flush ruleset",
)


def claims(cluster: Cluster) -> set[str]:
    """Return the kinds that the agent claims in the ledger."""
    import sqlite3

    opened = sqlite3.connect(cluster.agent.run / "ledger.db")
    kinds = {row[0] for row in opened.execute("SELECT DISTINCT kind FROM claim")}
    opened.close()
    return kinds


def plan(cluster: Cluster) -> list[str]:
    """Return the steps that the node needs."""
    with inside(NODE):
        return cluster.agent.plan()


def clean(cluster: Cluster) -> None:
    """End the agent and remove its items."""
    assert cluster.agent.stop() == 0
    with inside(NODE):
        cluster.agent.command("cleanup", "--run-dir", str(cluster.agent.run))


def tables(cluster: Cluster) -> str:
    """Return the tables of nftables but iptables' own, which stay when they are empty."""
    return "".join(line for line in cluster.run("nft", "list", "tables").splitlines() if line.endswith("kubenode"))


@pytest.fixture(scope="module")
def cluster(bare_cluster: Cluster) -> Cluster:
    bare_cluster.write("web", service(WEB, ["r1"], node_port=PORT))
    bare_cluster.write("itself", service(ITSELF, ["p1"]))
    bare_cluster.configure(rules={"backend": "nftables"})
    bare_cluster.start()
    return bare_cluster


@pytest.fixture(autouse=True)
def _nftables(cluster: Cluster) -> None:
    """Begin each test with nftables and without drift."""
    cluster.reconfigure(rules={"backend": "nftables"})
    assert plan(cluster) == []


class Seen(threading.Thread):
    """Requests one after the other until :meth:`close`; ``answers`` are the different ones."""

    def __init__(self, namespace: str, target: Target) -> None:
        super().__init__(daemon=True)
        self.answers: set[str] = set()
        self._request = namespace, target
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ending.wait(0.005):
            self.answers.add(ask(*self._request))

    def close(self) -> None:
        self._ending.set()
        self.join()


def test_rules_and_sets_are_in_nftables_alone(cluster: Cluster) -> None:
    assert "KUBE-" not in cluster.run("iptables-save") + cluster.run("ip6tables-save") + cluster.run("ipset", "save")
    assert tables(cluster) == "table ip kubenodetable ip6 kubenode"
    assert claims(cluster) >= {"nft_table", "virtual_server"}
    assert not claims(cluster) & {"chain", "jump", "set"}


def test_live_switches_harm_no_connection(cluster: Cluster, family: int) -> None:
    """Connections stay, new ones succeed, and each is masqueraded: whichever rules are there do so."""
    steady = Steady("client1", cluster_ip(WEB, family))
    outside, itself = Seen("client1", node_port(PORT, family)), Seen("p1", cluster_ip(ITSELF, family))
    for backend in ("iptables", "nftables", "iptables", "nftables"):
        cluster.reconfigure(rules={"backend": backend})
        steady.more(MANY)
        assert plan(cluster) == []
        assert bool(tables(cluster)) == (backend == "nftables")
        assert ("KUBE-" in cluster.run("iptables-save")) == (backend == "iptables")
    for each in (steady, outside, itself):
        each.close()
    assert steady.failures == []
    assert (len(outside.answers), len(itself.answers)) == (1, 1), (outside.answers, itself.answers)
    assert outside.answers.pop() not in (f"r1 sees {HOSTS['client1'].ip[family]}", REFUSED, SILENCE)


@pytest.mark.parametrize("harm", HARMS)
def test_drift_is_repaired_by_events(cluster: Cluster, family: int, harm: str) -> None:
    """The agent compares once in 30 s without events, and this test waits for less."""
    address = cluster_ip(WEB, family).address
    before = ask("client1", node_port(PORT, family))
    cluster.run("nft", harm.format(family={4: "ip", 6: "ip6"}[family], address=address))
    eventually(lambda: plan(cluster) == [], 15)
    assert ask("client1", node_port(PORT, family)) == before


def test_own_transactions_cause_no_reading(cluster: Cluster) -> None:
    """The agent hears of its own transactions, too, and knows them by the generation."""
    for count in (1, 2, 3):
        cluster.write("web", service(WEB, ["r1", "r2"][: 1 + count % 2], node_port=PORT))
        eventually(lambda: plan(cluster) == [])
    log = cluster.agent.log.read_text()
    cluster.write("web", service(WEB, ["r1"], node_port=PORT))
    eventually(lambda: plan(cluster) == [])
    assert "drift" not in cluster.agent.log.read_text()[len(log) :]


def test_foreign_tables_stay_as_they_are(cluster: Cluster) -> None:
    cluster.run("nft", FOREIGN)
    before = cluster.run("nft", "list", "table", "inet", "foreign")
    cluster.reconfigure(rules={"backend": "iptables"})
    cluster.reconfigure(rules={"backend": "nftables"})
    cluster.restart()
    assert cluster.run("nft", "list", "table", "inet", "foreign") == before
    cluster.run("nft", "delete", "table", "inet", "foreign")


def test_auto_stays_with_what_is_there(cluster: Cluster) -> None:
    for backend in ("iptables", "nftables"):
        cluster.reconfigure(rules={"backend": backend})
        cluster.reconfigure(rules={"backend": "auto"})
        assert bool(tables(cluster)) == (backend == "nftables")


def test_auto_without_commands_takes_nftables(cluster: Cluster) -> None:
    clean(cluster)
    cluster.configure(rules={"backend": "auto"})
    hidden = [os.path.realpath(str(shutil.which(command))) for command in ("iptables", "ipset", "nft")]
    for program in hidden:
        sh("mount", "--bind", "/dev/null", program)
    try:
        cluster.start()
        assert 'reason="the node has no iptables and no ipset"' in cluster.agent.log.read_text()
        assert ask("client1", cluster_ip(WEB, 4)).startswith("r1 sees ")
        with inside(NODE):
            cluster.agent.command("check", *cluster.agent.options()[:2], *cluster.agent.options()[4:])
        assert plan(cluster) == []
        clean(cluster)
        with inside(NODE):
            cluster.agent.command("cleanup", "--run-dir", str(cluster.agent.run))  # again, with nothing left
        cluster.start()
    finally:
        for program in hidden:
            sh("umount", program)
    assert tables(cluster)


def test_a_foreign_table_of_this_name_is_a_conflict(cluster: Cluster) -> None:
    clean(cluster)
    cluster.run("nft", "add table ip kubenode; add chain ip kubenode theirs")
    before = cluster.run("nft", "list", "table", "ip", "kubenode")
    cluster.configure(rules={"backend": "nftables"})
    cluster.start()
    assert cluster.run("nft", "list", "table", "ip", "kubenode") == before
    assert "table ip kubenode exists already and has no owner" in cluster.agent.log.read_text()
    cluster.run("nft", "delete", "table", "ip", "kubenode")
    eventually(lambda: plan(cluster) == [])
