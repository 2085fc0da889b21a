# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the agent to kube-proxy's iptables and nftables modes without a reboot: kubenode cleanup --after.

Stand-ins write the rules of kube-proxy (support/kube_proxy/leftovers.py), for one Service of type NodePort.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent.process import NODE, AgentProcess, dump
from support.clusters import objects
from support.kube_proxy import leftovers
from support.kube_proxy.node import MODULES, NODE_IP, serve
from support.kube_proxy.node import network as kube_proxy_network
from support.processes.namespace import sh
from support.traffic.conversation import Servers, Talk, Target, ask
from support.traffic.steady import Steady

VIP, NODE_PORT, CIDR = "10.96.0.10", 30080, "10.244.0.0/16"
ENDPOINTS = ("10.244.1.11:8080", "10.244.2.11:8080")
TARGETS = (Target(VIP, 80), Target(NODE_IP, NODE_PORT))
BACKENDS = ("iptables", "nftables")


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that serves one Service with two endpoints, beside rules of other programs."""
    with kube_proxy_network():
        servers, process = Servers(), AgentProcess(tmp_path)
        serve(servers, list(ENDPOINTS))
        leftovers.load_foreign()
        ends = [objects.endpoint(endpoint.rpartition(":")[0], NODE) for endpoint in ENDPOINTS]
        process.write(
            "web.json",
            [
                objects.service("web", [VIP], [objects.port(80, "p", node_port=NODE_PORT)], kind="NodePort"),
                objects.piece("web", ends, [objects.port(8080, "p")]),
            ],
        )
        yield process
        process.close()
        servers.close()


def begin(agent: AgentProcess, backend: str) -> None:
    """Converge the node with one rules back end, then end the agent."""
    agent.configure({"clusterCIDR": CIDR}, rules={"backend": backend})
    agent.start()
    agent.stop()


def leave(agent: AgentProcess, mode: str, *, drain: int) -> subprocess.Popen[str]:
    """Begin the cleanup; return when it waits for kube-proxy."""
    words = ("cleanup", "--after", mode, "--drain", str(drain), "--run-dir", str(agent.run))
    leaving = subprocess.Popen(
        agent.words(*words), env=agent.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert leaving.stdout is not None
    assert leaving.stdout.readline() == f"waiting for kube-proxy in {mode} mode\n"
    return leaving


def last_line(leaving: subprocess.Popen[str]) -> str:
    """Wait for the end of a cleanup that must succeed; return the last line of its output."""
    output, _none = leaving.communicate(timeout=120)
    assert leaving.returncode == 0, output
    return output.splitlines()[-1]


def new_connections_arrive() -> None:
    """Let clients connect to the Service for a while, each seen with the node's address."""
    clients = [Steady(name, target) for name in ("client1", NODE) for target in TARGETS]
    try:
        for client in clients:
            client.more(10)
            assert (client.retransmitted, client.clients) == (0, {NODE_IP})
    finally:
        for client in clients:
            client.close()


def rules() -> list[str]:
    return sorted(line.split(" [")[0] for line in sh("iptables-save").splitlines() if line.startswith((":", "-A")))


def items_left() -> dict[str, Any]:
    """Return what the agent has left, without iptables' IPv4 rules."""
    left = dump()
    return {
        "ipvs": left["ipvs"],
        "sets": [name for name in sh("ipset", "list", "-n").split() if name.startswith("KUBE-")],
        "link": "kube-ipvs0" in left["links"],
        "IPv6 rules": "KUBE-" in left["ip6tables"],
        "tables": "kubenode" in sh("nft", "list", "tables"),
    }


NOTHING = {"ipvs": "", "sets": [], "link": False, "IPv6 rules": False, "tables": False}


@pytest.mark.parametrize("backend", BACKENDS)
def test_iptables_mode_takes_over_without_a_lost_request(agent: AgentProcess, tmp_path: Path, backend: str) -> None:
    mode = leftovers.iptables_mode(VIP, 80, NODE_PORT, ENDPOINTS, CIDR)
    leftovers.use_iptables_mode(mode, tmp_path)
    wanted = rules()  # of kube-proxy alone
    sh("iptables-restore", text="*nat\nCOMMIT\n*filter\nCOMMIT\n*mangle\nCOMMIT\n")
    leftovers.load_foreign()
    begin(agent, backend)
    clients = [Steady(name, target) for name in ("client1", NODE) for target in TARGETS]
    try:
        leaving = leave(agent, "iptables", drain=100)
        for client in clients:
            client.more(10)
        leftovers.use_iptables_mode(mode, tmp_path)
        for client in clients:
            client.more(20)
        assert leaving.poll() is None  # the kept connections are IPVS' own
    finally:
        for client in clients:
            client.close()
    assert [(client.failures, client.retransmitted, client.clients) for client in clients] == [([], 0, {NODE_IP})] * 4
    assert last_line(leaving) == "0 established connections were cut"
    assert (rules(), items_left()) == (wanted, NOTHING)
    new_connections_arrive()


def test_connections_that_do_not_end_are_counted_and_cut(agent: AgentProcess, tmp_path: Path) -> None:
    begin(agent, "iptables")
    talks = [Talk("client1", target) for target in TARGETS]
    for talk in talks:
        talk.say()
    leftovers.use_iptables_mode(leftovers.iptables_mode(VIP, 80, NODE_PORT, ENDPOINTS, CIDR), tmp_path)
    assert last_line(leave(agent, "iptables", drain=0)) == "2 established connections were cut"
    for talk in talks:
        with pytest.raises(ConnectionResetError):  # at once, not after the client's timeout
            talk.say()
        talk.close()
    assert items_left() == NOTHING
    new_connections_arrive()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nftables_mode_cuts_connections_that_are_counted(agent: AgentProcess, backend: str) -> None:
    begin(agent, backend)
    talks = [Talk("client1", target) for target in TARGETS]
    for talk in talks:
        talk.say()
    leaving = leave(agent, "nftables", drain=0)
    for talk in talks:
        talk.say()  # IPVS serves until kube-proxy starts; a connection that ends here may still count, or not
    leftovers.start_nftables_mode(VIP, 80, NODE_IP, NODE_PORT, ENDPOINTS[0], CIDR)
    assert last_line(leaving) == "2 established connections were cut"
    for talk in talks:
        talk.close()
    assert items_left() == NOTHING
    assert "table ip kube-proxy" in sh("nft", "list", "tables")
    new_connections_arrive()


@pytest.mark.parametrize("mode", BACKENDS)
def test_cleanup_without_kube_proxy_changes_nothing(agent: AgentProcess, mode: str) -> None:
    begin(agent, "iptables")
    before = dump()
    words = ("cleanup", "--after", mode, "--run-dir", str(agent.run))
    assert "- address 10.96.0.10/32 on kube-ipvs0" in agent.command(*words, "--check", expect=2).stdout
    error = agent.command(*words, "--wait", "0", expect=1).stderr
    assert f"kube-proxy has no rules of its {mode} mode for IPv4 after 0 s, so nothing was removed" in error
    assert dump() == before
    assert ask("client1", TARGETS[0]).endswith(f"sees {NODE_IP}")
