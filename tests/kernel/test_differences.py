# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Optional differences from kube-proxy, tested with packets on a real kernel.

The network has one node, one pod on it and one client next to it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clusters import objects
from support.processes.namespace import fresh, sh

from kubenode.engine.apply import execute
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.kernel.tables import TABLES
from kubenode.engine.ledger import Ledger
from kubenode.engine.plan import plan

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "veth")
POD, NODE, VIP, PORT = "10.244.1.2", "10.99.0.11", "10.96.0.10", 30080
# Answers every connection with the client's address.
SERVER = """
import socket
server = socket.create_server(("0.0.0.0", 8080))
while True:
    peer, address = server.accept()
    peer.sendall(address[0].encode())
    peer.close()
"""
ASK = """
import socket, sys
try:
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
    print(peer.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""
# Prints the type of the ICMP answer: 0 is an echo reply, 3 is unreachable.
PING = """
import socket, struct, sys
peer = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
peer.settimeout(2)
body = struct.pack("!HH", 7, 1)
total = 0x0800 + sum(struct.unpack("!HH", body))
peer.sendto(struct.pack("!BBH", 8, 0, ~((total >> 16) + total & 0xFFFF) & 0xFFFF) + body, (sys.argv[1], 0))
try:
    print(peer.recv(2000)[20])
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """Make this test's namespace the node; ``pod`` and ``client`` are namespaces with one link to it each."""
    fresh()
    sh("ip", "link", "set", "lo", "up")
    for name, mine, theirs in (("pod", "10.244.1.1", POD), ("client", NODE, "10.99.0.1")):
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "addr", "add", f"{mine}/24", "dev", f"to-{name}")
        sh("ip", "link", "set", f"to-{name}", "up")
        sh("ip", "-n", name, "addr", "add", f"{theirs}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")
        sh("ip", "-n", name, "route", "add", "default", "via", mine)
    server = subprocess.Popen(["ip", "netns", "exec", "pod", sys.executable, "-c", SERVER])
    for _ in range(50):
        if ":8080" in sh("ip", "netns", "exec", "pod", "ss", "-tln"):
            break
        time.sleep(0.1)
    yield tmp_path
    server.kill()
    server.wait()
    for name in ("pod", "client"):
        sh("ip", "netns", "del", name)


def converge(directory: Path, config: Config, *, endpoints: int = 1, **spec: Any) -> None:
    facts = NodeFacts("n1", (("to-client", NODE), ("to-pod", "10.244.1.1")), (NODE,))
    cluster = Cluster(config, facts)
    ports = [objects.port(80, "p", node_port=PORT)]
    cluster.put(objects.service("web", [VIP], ports, kind="NodePort", **spec))
    ends = [objects.endpoint(POD, "n1")][:endpoints]
    cluster.put(objects.piece("web", ends, [{"name": "p", "protocol": "TCP", "port": 8080}]))
    assert cluster.problems == {}
    state = cluster.state()
    state["sysctl"] = {name: value for name, value in state["sysctl"].items() if "nf_conntrack" not in name}
    ledger = Ledger(str(directory))
    execute(plan({}, state, {}), TABLES, ledger, "test")
    ledger.close()


def ask(address: str, port: int, *, namespace: str = "") -> str:
    """Return the client's address as the pod saw it, or the name of the error."""
    command = [sys.executable, "-c", ASK, address, str(port)]
    return sh(*(["ip", "netns", "exec", namespace] if namespace else []), *command).strip()


def pings(address: str) -> bool:
    """Return whether the client's echo request gets an echo reply."""
    answer = sh("ip", "netns", "exec", "client", sys.executable, "-c", PING, address).strip()
    assert answer in ("0", "3", "TimeoutError"), answer
    return answer == "0"


def test_default_settings_behave_as_kube_proxy(node: Path) -> None:
    converge(node, Config())
    assert ask(VIP, 80) == "10.244.1.1"
    assert ask(VIP, 80, namespace="client") == "10.99.0.1"
    assert ask(NODE, PORT, namespace="client") == "10.244.1.1"
    assert ask("127.0.0.1", PORT) in ("ConnectionRefusedError", "TimeoutError")
    assert not pings(VIP)
    assert pings(NODE)


def test_vip_ping_setting_answers_echo_requests(node: Path) -> None:
    converge(node, Config(vip_ping=True))
    assert pings(VIP)
    assert ask(VIP, 81, namespace="client") == "ConnectionRefusedError"


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_localhost_node_ports_setting_serves_loopback(node: Path, policy: str) -> None:
    converge(node, Config(localhost_node_ports=True), externalTrafficPolicy=policy)
    assert ask("127.0.0.1", PORT) == "10.244.1.1"
    assert ask(NODE, PORT, namespace="client") == ("10.244.1.1" if policy == "Cluster" else "10.99.0.1")
    # no other host reaches 127.0.0.1: neither the node port nor a program that listens there
    sh("ip", "-n", "client", "route", "add", "127.0.0.1", "via", NODE, "table", "7")
    sh("ip", "-n", "client", "rule", "add", "to", "127.0.0.1", "table", "7", "priority", "1")
    sh("ip", "-n", "client", "rule", "add", "lookup", "local", "priority", "2")
    sh("ip", "-n", "client", "rule", "del", "lookup", "local", "priority", "0")
    sh("ip", "netns", "exec", "client", "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    assert ask("127.0.0.1", PORT, namespace="client") == "TimeoutError"


def test_reject_setting_refuses_without_endpoints(node: Path) -> None:
    converge(node, Config(no_endpoints="reject"), endpoints=0)
    for namespace in ("", "client"):
        assert ask(VIP, 80, namespace=namespace) == "ConnectionRefusedError"
        assert ask(NODE, PORT, namespace=namespace) == "ConnectionRefusedError"
    rules = [line for line in sh("iptables-save", "-c").splitlines() if "--match-set KUBE-NO-ENDPOINTS" in line]
    counts = {rule.split()[-1]: int(rule[1:].split(":")[0]) for rule in rules}
    assert counts == {"tcp-reset": 2, "icmp-port-unreachable": 0}  # the client's; IPVS refuses the node's own
