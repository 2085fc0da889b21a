# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP endpoints of node1: health check node ports, /healthz, /livez and /metrics.

Load balancers, kubelets and Prometheus use them.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.agent.process import eventually
from support.clusters import objects
from support.processes.kernel import NFT
from support.processes.namespace import inside
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import REFUSED, SILENCE, Talk, Target, ask
from support.traffic.network import GATEWAY, HOSTS, NODE

LOCAL, ABSENT, CLUSTER_WIDE, UDP, FLOW, TAKEN = 100, 101, 102, 103, 104, 105
CHECKED, CHECKED_ABSENT, NOT_CHECKED = 32100, 32101, 32102
FIREWALL = """
add table inet firewall
add chain inet firewall input { type filter hook input priority filter; policy drop; }
add rule inet firewall input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@pytest.fixture(scope="module")
def cluster(rules_cluster: Cluster) -> Cluster:
    cluster = rules_cluster
    local = {"balancer": True, "externalTrafficPolicy": "Local"}
    cluster.write("node", [objects.node(NODE)])
    cluster.write("local", service(LOCAL, ["p1", "p2", "r1"], node_port=30100, healthCheckNodePort=CHECKED, **local))
    cluster.write("absent", service(ABSENT, ["r1"], node_port=30101, healthCheckNodePort=CHECKED_ABSENT, **local))
    cluster.write("wide", service(CLUSTER_WIDE, ["p1"], balancer=True, healthCheckNodePort=NOT_CHECKED))
    cluster.configure({"ipvs": {"syncPeriod": "1h"}})  # changes must come from events, not from a full sync
    cluster.start()
    return cluster


@pytest.fixture
def firewall(cluster: Cluster, family: int) -> Iterator[None]:
    """Set up a host firewall that drops all traffic that no rule accepts, as careful operators do.

    A rule accepts neighbour discovery. The firewall's tool is the one of the agent's back end.
    """
    if cluster.backend == "nftables":
        cluster.run(NFT, FIREWALL)
        yield
        cluster.run(NFT, "delete table inet firewall")
        return
    tool = "iptables" if family == 4 else "ip6tables"
    discovery = ("INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT")
    if family == 6:
        cluster.run(tool, "-A", *discovery)
    cluster.run(tool, "-P", "INPUT", "DROP")
    yield
    cluster.run(tool, "-P", "INPUT", "ACCEPT")
    if family == 6:
        cluster.run(tool, "-D", *discovery)


def get(where: str, address: str, port: int, path: str, method: str = "GET") -> Answer:
    """Send an HTTP request from a namespace."""
    with inside(where):
        client = socket.create_connection((address, port), timeout=60)
    connection = http.client.HTTPConnection(address, port)
    connection.sock = client
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())
    finally:
        connection.close()


# health check node ports


def test_a_health_check_passes_the_host_firewall(cluster: Cluster, firewall: None, family: int) -> None:
    """Pass one of iptables: in nftables, no table accepts what another one drops (docs/explanation/nftables.md)."""
    assert ask("balancer", Target(HOSTS[NODE].ip[family], 10256), timeout=0.5) == SILENCE  # a blocked port
    if cluster.backend == "nftables":
        assert ask("balancer", Target(HOSTS[NODE].ip[family], CHECKED), timeout=0.5) == SILENCE
        cluster.run(NFT, f"insert rule inet firewall input tcp dport {CHECKED} accept")
    assert get("balancer", HOSTS[NODE].ip[family], CHECKED, "/").status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_health_check_counts_local_endpoints(cluster: Cluster, family: int, method: str) -> None:
    answer = get("balancer", HOSTS[NODE].ip[family], CHECKED, "/any/path", method)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Load-Balancing-Endpoint-Weight"] == "2"
    service_name = {"namespace": "ns1", "name": f"svc{LOCAL}"}
    assert method == "HEAD" or answer.json == {
        "service": service_name,
        "localEndpoints": 2,
        "serviceProxyHealthy": True,
    }


def test_health_check_fails_without_local_endpoint(cluster: Cluster, family: int) -> None:
    answer = get("balancer", HOSTS[NODE].ip[family], CHECKED_ABSENT, "/")
    assert (answer.status, answer.json["localEndpoints"]) == (503, 0)
    assert answer.headers["X-Load-Balancing-Endpoint-Weight"] == "0"


def test_health_check_follows_the_endpoints(cluster: Cluster) -> None:
    def weight() -> tuple[int, str]:
        answer = get("balancer", HOSTS[NODE].ip[4], CHECKED_ABSENT, "/")
        return answer.status, answer.headers["X-Load-Balancing-Endpoint-Weight"]

    things = {
        "node_port": 30101,
        "healthCheckNodePort": CHECKED_ABSENT,
        "balancer": True,
        "externalTrafficPolicy": "Local",
    }
    cluster.write("absent", service(ABSENT, ["r1", "p3"], **things))
    eventually(lambda: weight() == (200, "1"))
    cluster.write("absent", service(ABSENT, ["r1"], **things))
    eventually(lambda: weight() == (503, "0"))


def test_health_check_on_used_port_is_reported_and_retried(cluster: Cluster) -> None:
    name, port = f"ns1/svc{TAKEN}", 32105
    with inside(NODE):
        taken = socket.create_server(("0.0.0.0", port))
    cluster.write(
        "taken", service(TAKEN, ["p1"], balancer=True, externalTrafficPolicy="Local", healthCheckNodePort=port)
    )
    (problem,) = eventually(lambda: [item for item in cluster.agent.ask("status")["problems"] if item["name"] == name])
    assert f"spec.healthCheckNodePort is {port}, expected a port that the agent can listen on" in problem["text"]
    taken.close()
    eventually(lambda: not cluster.agent.ask("status")["problems"])
    assert get("balancer", HOSTS[NODE].ip[4], port, "/").status == 200
    cluster.remove("taken", cluster_ip(TAKEN, 4))


def test_health_check_needs_load_balancer_with_policy_local(cluster: Cluster) -> None:
    assert ask(NODE, Target("127.0.0.1", NOT_CHECKED)) == REFUSED


# the proxy's own health


def test_healthz_fails_for_a_node_to_be_deleted(cluster: Cluster) -> None:
    def asked(path: str) -> Answer:
        return get(NODE, "127.0.0.1", 10256, path)

    answer = asked("/healthz")
    assert answer.status == 200
    assert answer.json["nodeEligible"] is True
    assert {family["healthy"] for family in answer.json["status"].values()} == {True}
    assert answer.json["status"].keys() == {"IPv4", "IPv6"}
    live = asked("/livez")
    assert (live.status, "nodeEligible" in live.json) == (200, False)
    assert asked("/nothing").status == 404

    leaving = objects.node(NODE)
    leaving["spec"]["taints"] = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    cluster.write("node", [leaving])
    eventually(lambda: asked("/healthz").status == 503)
    assert asked("/healthz").json["nodeEligible"] is False
    assert asked("/livez").status == 200
    # the load balancer still gets the endpoints of this node
    assert get("balancer", HOSTS[NODE].ip[4], CHECKED, "/").status == 200
    cluster.write("node", [objects.node(NODE)])
    eventually(lambda: asked("/healthz").status == 200)
    cluster.write("node", [])  # the Node object was removed
    eventually(lambda: asked("/healthz").status == 503)
    assert asked("/livez").status == 200
    cluster.write("node", [objects.node(NODE)])
    eventually(lambda: asked("/healthz").status == 200)


# metrics


def scrape() -> tuple[dict[str, str], dict[str, float]]:
    """Return the metrics as Prometheus reads them: each metric's type, and each sample."""
    answer = get(NODE, "127.0.0.1", 10249, "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answer.text, re.MULTILINE))
    samples = {}
    for line in answer.text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in samples
            samples[name] = float(value)
    return types, samples


def test_metrics_have_the_names_and_types_of_kube_proxy(cluster: Cluster) -> None:
    """The list is that of a kube-proxy that has served TCP and UDP and answered health checks."""
    cluster.write("flow", service(FLOW, ["p1"], protocols=["udp"]))
    cluster.becomes(cluster_ip(FLOW, 4, protocol="udp"), {"p1": 1})
    get(NODE, "127.0.0.1", 10256, "/healthz")
    get(NODE, "127.0.0.1", 10256, "/livez")
    types, samples = scrape()
    sync = "kubeproxy_sync_proxy_rules_"
    wanted = {
        f"{sync}duration_seconds": "histogram",
        f"{sync}last_timestamp_seconds": "gauge",
        f"{sync}last_queued_timestamp_seconds": "gauge",
        f"{sync}endpoint_changes_pending": "gauge",
        f"{sync}endpoint_changes_total": "counter",
        f"{sync}service_changes_pending": "gauge",
        f"{sync}service_changes_total": "counter",
        f"{sync}no_local_endpoints_total": "gauge",
        "kubeproxy_proxy_healthz_total": "counter",
        "kubeproxy_proxy_livez_total": "counter",
        "kubeproxy_conntrack_reconciler_sync_duration_seconds": "histogram",
        "kubeproxy_conntrack_reconciler_deleted_entries_total": "counter",
    }
    assert {name: types.get(name) for name in wanted} == wanted
    assert samples['kubeproxy_proxy_healthz_total{code="200"}'] >= 1
    assert samples['kubeproxy_proxy_livez_total{code="200"}'] >= 1
    assert samples[f'{sync}duration_seconds_count{{ip_family="IPv6"}}'] >= 1
    assert samples[f'{sync}duration_seconds_bucket{{ip_family="IPv4",le="16.384"}}'] >= 1


def test_metrics_count_changes(cluster: Cluster, family: int) -> None:
    label = f'ip_family="IPv{family}"'
    gauge = f'kubeproxy_sync_proxy_rules_no_local_endpoints_total{{{label},traffic_policy="external"}}'
    eventually(lambda: scrape()[1]["kubenode_draining_real_servers"] == 0)  # drained after earlier tests
    _types, before = scrape()
    assert before[gauge] == 1  # ABSENT

    # drift
    drift = 'kubenode_drift_healed_total{kind="real_server"}'
    bracket = "{}" if family == 4 else "[{}]"
    virtual, real = (bracket.format(ip) for ip in (cluster_ip(LOCAL, family).address, HOSTS["r1"].ip[family]))
    cluster.run("ipvsadm", "-d", "-t", f"{virtual}:80", "-r", f"{real}:8080")
    cluster.agent.kill(signal.SIGHUP)  # compare every table
    eventually(lambda: scrape()[1].get(drift, 0) == before.get(drift, 0) + 1)

    # a draining real server
    cluster.write("wide", service(CLUSTER_WIDE, ["p1"], balancer=True))
    talk = Talk("p3", cluster_ip(CLUSTER_WIDE, family))
    assert talk.say().name == "p1"
    cluster.write("wide", service(CLUSTER_WIDE, ["p2"], balancer=True))
    cluster.becomes(cluster_ip(CLUSTER_WIDE, family), {"p1": 0, "p2": 1})
    eventually(lambda: scrape()[1]["kubenode_draining_real_servers"] >= 1)
    talk.abort()
    cluster.write("wide", service(CLUSTER_WIDE, ["p1"], balancer=True))
    eventually(lambda: scrape()[1]["kubenode_draining_real_servers"] == 0)
    assert scrape()[1].get(drift, 0) == before.get(drift, 0) + 1  # the end of draining is no drift


def test_forgotten_udp_flows_are_counted(cluster: Cluster, family: int) -> None:
    name = f'kubeproxy_conntrack_reconciler_deleted_entries_total{{ip_family="IPv{family}"}}'
    before = scrape()[1].get(name, 0)
    target = node_port(30103, family, "udp")
    talk = Talk("client1", target)
    try:
        with pytest.raises(ConnectionRefusedError):
            talk.say()
        cluster.write("udp", service(UDP, ["p1"], protocols=["udp"], node_port=30103))
        cluster.becomes(target, {"p1": 1})
        eventually(lambda: scrape()[1].get(name, 0) == before + 1)
        assert talk.say().client == GATEWAY[family]
    finally:
        talk.close()
    cluster.remove("udp", target)


def test_proxy_mode_is_served(cluster: Cluster) -> None:
    assert get(NODE, "127.0.0.1", 10249, "/proxyMode").text == "ipvs"
