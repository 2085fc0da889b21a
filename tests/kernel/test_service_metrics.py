# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics that name Services, of a running agent with real traffic."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.agent.process import eventually, metrics
from support.processes.namespace import inside, sh
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import Talk, asked
from support.traffic.network import NODE

WEB, QUIET = 30, 31
LABELS = {"namespace": "ns1", "service": f"svc{WEB}", "port": "p-tcp"}


@pytest.fixture(scope="module")
def cluster(bare_cluster: Cluster) -> Cluster:
    bare_cluster.write("web", service(WEB, ["p1", "r1"], node_port=30030))
    bare_cluster.write("quiet", service(QUIET, ["p1"]))
    bare_cluster.configure(metrics={"services": "all"})
    bare_cluster.start()
    return bare_cluster


def scrape(metric: str) -> dict[str, float]:
    """Return a metric of Services by the Service's name."""
    with inside(NODE):
        families = {family.name: family for family in text_string_to_metric_families(metrics())}
    family = families.get(f"kubenode_service_{metric}")
    return {sample.labels["service"]: sample.value for sample in family.samples} if family else {}


def set_estimation(value: int) -> None:
    """Let the kernel update its counters or not; before Linux 6.2, it always does."""
    with inside(NODE):
        setting = Path("/proc/sys/net/ipv4/vs/run_estimation")
        if setting.exists():
            setting.write_text(f"{value}\n")


def test_traffic_counts_for_its_service(cluster: Cluster) -> None:
    name = LABELS["service"]
    eventually(lambda: scrape("connections") == {name: 0, f"svc{QUIET}": 0})
    with inside(NODE):
        assert f'{{namespace="ns1",service="{name}",port="p-tcp"}}' in metrics()
    asked("client1", cluster_ip(WEB, 4), 3)
    asked("client1", node_port(30030, 4), 2)
    eventually(lambda: scrape("connections")[name] == 5)
    assert scrape("packets")[name] >= 5 * 6
    assert scrape("bytes")[name] > 1000
    talk = Talk("client1", cluster_ip(WEB, 6))
    eventually(lambda: scrape("active_connections")[name] == 1)
    time.sleep(2)  # the metrics are rendered once a second at most; no packet comes meanwhile
    assert scrape("active_connections")[name] == 1
    talk.abort()
    eventually(lambda: scrape("active_connections")[name] == 0)
    assert scrape("connections")[f"svc{QUIET}"] == 0


def test_active_connections_do_not_depend_on_counters(cluster: Cluster) -> None:
    name = LABELS["service"]
    set_estimation(0)
    try:
        talk = Talk("client1", cluster_ip(WEB, 4))
        eventually(lambda: scrape("active_connections")[name] == 1)
        talk.abort()
    finally:
        set_estimation(1)


def test_removed_virtual_server_takes_nothing_back(cluster: Cluster) -> None:
    name = LABELS["service"]
    before = scrape("connections")[name]
    target = cluster_ip(WEB, 4)
    with inside(NODE):
        sh("ipvsadm", "-D", "-t", f"{target.address}:{target.port}")
    cluster.agent.ask("sync")
    assert scrape("connections")[name] == before
    asked("client1", target, 2)
    eventually(lambda: scrape("connections")[name] >= before + 2)


def test_reload_changes_the_named_services(cluster: Cluster) -> None:
    cluster.reconfigure(metrics={"services": {"top": 1}})
    name = LABELS["service"]
    talk = Talk("client1", cluster_ip(WEB, 4))
    talk.say()
    eventually(lambda: scrape("active_connections") == {name: 1})
    talk.abort()
    cluster.reconfigure(metrics={"services": "off"})
    eventually(lambda: scrape("connections") == {})
