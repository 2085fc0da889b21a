# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent with live connections: graceful termination, stale UDP flows, health and metrics."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.processes.kernel_modules import no_module_loads
from support.processes.namespace import fresh, sh
from support.traffic.pods import PORT, Pods

MODULES = (
    "ip_vs",
    "ip_vs_rr",
    "nf_conntrack",
    "nf_conntrack_netlink",
    "ip_set",
    "xt_set",
    "dummy",
    "br_netfilter",
    "veth",
)
VIP = "10.96.0.10"


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture
def pods() -> Iterator[Pods]:
    fresh()
    sh("ip", "link", "set", "lo", "up")
    started = Pods(2)
    yield started
    started.close()


@pytest.fixture
def agent(tmp_path: Path, pods: Pods) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path)
    process.write("web.json", service(pods.addresses))
    yield process
    process.close()


def service(addresses: list[str], protocol: str = "TCP", **spec: Any) -> list[objects.Object]:
    ports = [objects.port(80, "p", protocol)]
    inside = [objects.port(PORT, "p", protocol)]
    return [
        objects.service("web", [VIP], ports, **spec),
        objects.piece("web", [objects.endpoint(address, NODE) for address in addresses], inside),
    ]


def connect() -> tuple[socket.socket, str]:
    """Connect through the virtual server; return the socket and the address of the pod that answers."""
    client = socket.create_connection((VIP, 80), 5)
    return client, say(client)


def say(client: socket.socket) -> str:
    client.settimeout(60)
    client.send(b"who?")
    return client.recv(100).decode()


def abort(client: socket.socket) -> None:
    """Reset the connection: IPVS forgets it after ten seconds instead of the two minutes of TIME_WAIT."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def answers(times: int) -> set[str]:
    """Return the pods that answer new connections."""
    names = set()
    for _time in range(times):
        client, who = connect()
        abort(client)
        names.add(who)
    return names


def weights() -> dict[str, str]:
    weight_of = {}
    for line in sh("ipvsadm", "-Sn").splitlines():
        words = line.split()
        if words[0] == "-a":
            weight_of[words[4].rpartition(":")[0]] = words[7]
    return weight_of


def test_connection_survives_endpoint_and_service_removal(agent: AgentProcess, pods: Pods) -> None:
    agent.start()
    client, mine = connect()
    (other,) = set(pods.addresses) - {mine}
    agent.write("web.json", service([other]))
    eventually(lambda: weights() == {mine: "0", other: "1"})
    time.sleep(1.5)  # longer than until the agent first counts connections
    assert weights() == {mine: "0", other: "1"}
    assert say(client) == mine
    assert answers(4) == {other}
    assert [item["real_server"] for item in agent.ask("status")["draining"]] == [f"{mine}:{PORT} of tcp {VIP}:80"]

    agent.stop()
    agent.start()
    assert weights() == {mine: "0", other: "1"}
    assert say(client) == mine
    assert agent.plan() == []

    agent.write("web.json", service(pods.addresses))
    eventually(lambda: weights() == {mine: "1", other: "1"})
    assert say(client) == mine  # the agent restored its weight in place
    assert agent.ask("status")["draining"] == []

    (agent.manifests / "web.json").unlink()
    eventually(lambda: weights().get(mine) == "0")
    eventually(lambda: "until its connections end" in agent.command("show", *agent.options()).stdout)
    assert say(client) == mine
    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection((VIP, 80), 2)
    abort(client)
    eventually(lambda: sh("ipvsadm", "-Sn") == "")
    assert f"{VIP}/32" not in sh("ip", "addr")
    assert agent.plan() == []


def test_drain_ends_at_the_configured_bound(agent: AgentProcess, pods: Pods) -> None:
    agent.configure({}, gracefulTermination={"maxDuration": "2s"})
    agent.start()
    client, mine = connect()
    agent.write("web.json", service([address for address in pods.addresses if address != mine]))
    eventually(lambda: weights().get(mine) == "0")
    assert {item["most"] for item in agent.ask("status")["draining"]} == {2.0}
    assert say(client) == mine
    eventually(lambda: mine not in weights())
    client.close()


def test_endpoint_without_connections_is_removed_soon(agent: AgentProcess, pods: Pods) -> None:
    agent.start()
    agent.write("web.json", service(pods.addresses[:1]))
    eventually(lambda: pods.addresses[1] not in weights())
    assert agent.ask("status")["draining"] == []


def test_udp_client_with_a_fixed_port_follows_endpoints(agent: AgentProcess, pods: Pods) -> None:
    agent.write("web.json", service(pods.addresses, "UDP"))
    agent.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((VIP, 80))
        mine = say(client)
        assert say(client) == mine
        (other,) = set(pods.addresses) - {mine}
        agent.write("web.json", service([other], "UDP"))
        eventually(lambda: set(weights()) == {other})
        eventually(lambda: f"src={mine}" not in sh("conntrack", "-L", "-p", "udp"))

        def answered() -> bool:
            """the other endpoint answers the same socket"""
            try:
                return say(client) == other
            except OSError:
                return False

        eventually(answered)


def test_stale_udp_flows_are_removed_where_the_kernel_keeps_them(agent: AgentProcess, pods: Pods) -> None:
    agent.write("web.json", service(pods.addresses, "UDP"))
    agent.start()
    # from Linux 5.9 on IPVS would delete the flow together with the connection
    sh("sysctl", "-w", "net.ipv4.vs.expire_nodest_conn=0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((VIP, 80))
        mine = say(client)
        assert f"src={mine}" in sh("conntrack", "-L", "-p", "udp")
        agent.write("web.json", service([address for address in pods.addresses if address != mine], "UDP"))
        eventually(lambda: f"src={mine}" not in sh("conntrack", "-L", "-p", "udp"))
    deleted = [line for line in get(10249, "/metrics")[2].splitlines() if "reconciler_deleted_entries_total{" in line]
    assert deleted == ['kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 1']


def test_failed_stale_udp_flow_removal_is_retried(agent: AgentProcess, pods: Pods) -> None:
    agent.write("web.json", service(pods.addresses, "UDP"))
    sh("modprobe", "-r", "nf_conntrack_netlink")
    with no_module_loads():
        agent.start()
        sh("sysctl", "-w", "net.ipv4.vs.expire_nodest_conn=0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect((VIP, 80))
            mine = say(client)
        agent.write("web.json", service([address for address in pods.addresses if address != mine], "UDP"))
        eventually(lambda: set(weights()) == {address for address in pods.addresses if address != mine})
        eventually(lambda: "stale UDP flows cannot be removed" in agent.log.read_text())
        agent.kill(signal.SIGSTOP)  # the agent retries by itself as soon as the module is there
    sh("modprobe", "nf_conntrack_netlink")
    assert f"src={mine}" in sh("conntrack", "-L", "-p", "udp")
    agent.kill(signal.SIGCONT)
    agent.kill(signal.SIGHUP)
    eventually(lambda: f"src={mine}" not in sh("conntrack", "-L", "-p", "udp"))


def get(port: int, path: str, address: str = "127.0.0.1") -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer."""
    connection = HTTPConnection(address, port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_health_and_metrics(agent: AgentProcess, pods: Pods) -> None:
    ports = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32111, "kind": "LoadBalancer"}
    agent.write("web.json", service(pods.addresses, **ports))
    agent.start()
    status, headers, body = get(10256, "/healthz")
    assert (status, headers["Content-Type"], headers["X-Content-Type-Options"]) == (200, "application/json", "nosniff")
    health = json.loads(body)
    assert health["nodeEligible"] is True
    assert list(health) == ["lastUpdated", "currentTime", "nodeEligible", "healthy", "status"]
    assert set(health["status"]) == {"IPv4", "IPv6"}
    assert list(json.loads(get(10256, "/livez")[2])) == ["lastUpdated", "currentTime", "healthy", "status"]
    assert get(10256, "/other")[0] == 404

    status, headers, body = get(32111, "/whatever")
    assert (status, headers["X-Load-Balancing-Endpoint-Weight"]) == (200, "2")
    assert (
        body == '{\n\t"service": {\n\t\t"namespace": "ns1",\n\t\t"name": "web"\n\t},\n\t"localEndpoints":'
        ' 2,\n\t"serviceProxyHealthy": true\n}'
    )
    agent.write("web.json", service([], **ports))
    eventually(lambda: get(32111, "/")[0] == 503)
    assert get(32111, "/")[1]["X-Load-Balancing-Endpoint-Weight"] == "0"

    assert get(10249, "/proxyMode")[2] == "ipvs"
    text = get(10249, "/metrics")[2]
    assert 'kubeproxy_proxy_healthz_total{code="200"} 1' in text
    assert "kubeproxy_sync_proxy_rules_endpoint_changes_total 1" in text
    assert 'kubenode_steps_total{kind="virtual_server",verb="create"} 1' in text

    node = objects.node(NODE)
    node["spec"] = {
        **node.get("spec", {}),
        "taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}],
    }
    agent.write("node.json", [node])
    eventually(lambda: get(10256, "/healthz")[0] == 503)
    assert get(10256, "/livez")[0] == 200
    (agent.manifests / "web.json").unlink()

    def gone() -> bool:
        """nobody listens on the health check node port any more"""
        try:
            get(32111, "/")
        except OSError:
            return True
        return False

    eventually(gone)
