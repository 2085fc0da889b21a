# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""firewalld with its nftables back end beside an agent with tables of nftables: its reloads leave no gap."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from kernel.test_firewalld import CLOSED, PORT, WEB, Firewalld, answers, create_tables
from support.agent.process import eventually
from support.processes.namespace import inside
from support.traffic.cluster import Cluster, cluster_ip, service
from support.traffic.conversation import ask
from support.traffic.network import NODE
from support.traffic.steady import Steady


def listed(cluster: Cluster) -> list[str]:
    """Return the agent's tables as nft lists them."""
    return [cluster.run("nft", "list", "table", family, "kubenode") for family in ("ip", "ip6")]


@pytest.fixture(scope="module")
def tables(servers: object) -> None:
    create_tables()


@pytest.fixture(scope="module")
def cluster(tables: None, nft_cluster: Cluster) -> Cluster:
    nft_cluster.write("web", service(WEB, ["r1"], node_port=PORT))
    nft_cluster.start()
    nft_cluster.servers.add("itself", NODE, CLOSED)
    return nft_cluster


@pytest.fixture(scope="module")
def without(cluster: Cluster) -> dict[str, str]:
    """Return the answers without firewalld."""
    return answers()


@pytest.fixture(scope="module")
def firewalld(cluster: Cluster, without: dict[str, str]) -> Iterator[Firewalld]:
    found = Firewalld("nftables")
    yield found
    found.close()


def test_its_files_let_through_what_firewalld_refuses(
    cluster: Cluster, without: dict[str, str], firewalld: Firewalld
) -> None:
    assert all(" sees " in answer for answer in without.values()), without
    refused = answers()
    assert not any(" sees " in answer for answer in refused.values()), refused
    firewalld.tell()
    eventually(lambda: answers() == without)
    assert " sees " not in ask("client1", CLOSED, timeout=1)


@pytest.mark.parametrize("how", ["--reload", "--complete-reload"])
def test_reload_leaves_no_gap(cluster: Cluster, without: dict[str, str], firewalld: Firewalld, how: str) -> None:
    """The agent is stopped: so nothing has to be repaired."""
    firewalld.tell()
    eventually(lambda: answers() == without)
    before = listed(cluster)
    steady = Steady("client1", cluster_ip(WEB, 4))
    cluster.agent.kill(signal.SIGSTOP)
    try:
        steady.more(20)
        firewalld.root.run("firewall-cmd", how)
        steady.more(20)
        assert listed(cluster) == before
        assert answers() == without
        assert steady.failures == []
    finally:
        cluster.agent.kill(signal.SIGCONT)
        steady.close()
    with inside(NODE):
        assert cluster.agent.plan() == []
