# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takeover of a node from kube-proxy by the agent, and the way back to kube-proxy.

The tests cover items that kube-proxy left, live traffic, and items of other processes.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, dump, eventually
from support.clusters import objects
from support.kube_proxy import leftovers, recorded
from support.kube_proxy.node import MODULES, NODE_IP, as_recorded, load_recording, serve
from support.kube_proxy.node import network as kube_proxy_network
from support.processes.namespace import sh
from support.traffic.conversation import Servers, Target
from support.traffic.steady import Steady

VIP, NODE_PORT = "10.96.0.10", 30080
RULES = {"iptables": ("+ chain", "~ chain", "+ rule"), "nftables": ("+ nftables chain", "~ nftables chain")}
ENDPOINTS = ("10.244.1.11:8080", "10.244.2.11:8080")


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture
def network() -> Iterator[None]:
    with kube_proxy_network():
        yield


@pytest.fixture
def servers(network: None) -> Iterator[Servers]:
    started = Servers()
    yield started
    started.close()


@pytest.fixture
def agent(tmp_path: Path, network: None) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path)
    yield process
    process.close()


def plan(agent: AgentProcess) -> list[str]:
    """Return the steps of a takeover without sysctls, and without the chain whose rules have no order."""
    words = ("plan", "--adopt", *agent.options(), "--objects", str(agent.manifests))
    lines = agent.command(*words, expect=2).stdout.splitlines()
    return [
        line
        for line in lines
        if " sysctl " not in line and "taken over as they are" not in line and "KUBE-IPVS-OUT-FILTER" not in line
    ]


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_converged_items_are_adopted_and_released_unchanged(path: Path, agent: AgentProcess) -> None:
    recording = load_recording(path, agent)
    assert plan(agent) == []
    agent.start("--adopt")
    as_recorded(recording)
    assert agent.plan() == []
    agent.stop()
    before = dump()
    agent.command("cleanup", "--forget", "--check", "--run-dir", str(agent.run), expect=2)
    agent.command("cleanup", "--forget", "--run-dir", str(agent.run))
    assert dump() == before
    agent.command("cleanup", "--check", "--run-dir", str(agent.run))
    agent.start("--adopt")
    assert agent.ask("status")["last_full_sync"]["steps"] == 0


def test_takeover_removes_kube_proxy_items_and_no_foreign_ones(agent: AgentProcess) -> None:
    recording = load_recording(recorded.GOLDEN / "clustercidr-0.json", agent)
    theirs = ["-A -t 203.0.113.250:443 -s wrr", "-a -t 203.0.113.250:443 -r 203.0.113.251:8443 -m -w 7"]
    sh("ipvsadm", "-R", text="\n".join(theirs) + "\n")
    # Services removed while kube-proxy was away: known by their address, or by their node port alone
    sh(
        "ipvsadm",
        "-R",
        text="-A -t 10.96.9.9:80 -s rr\n-a -t 10.96.9.9:80 -r 10.244.1.3:80 -m -w 1\n-A -t 10.99.0.11:32001 -s rr\n",
    )
    sh("ip", "addr", "add", "10.96.9.9/32", "dev", "kube-ipvs0")
    sh("ipset", "add", "KUBE-CLUSTER-IP", "10.96.9.9,tcp:80")
    sh("ipset", "add", "KUBE-NODE-PORT-TCP", "32001")
    sh("ipset", "create", "KUBE-LB-INGRESS-LOCAL", "hash:ip,port")
    sh("ipset", "create", "KUBE-MINE", "hash:ip")
    sh("iptables", "-N", "KUBE-FIREWALL")
    sh("iptables", "-A", "OUTPUT", "-j", "KUBE-FIREWALL")
    sh("iptables", "-t", "nat", "-N", "KUBE-NODEPORTS")
    assert {
        "- virtual server tcp 10.99.0.11:32001",
        "~ real server 10.244.1.3:80 of tcp 10.96.9.9:80: weight 1 masquerade -> weight 0 masquerade",
        "- chain IPv4 nat KUBE-NODEPORTS",
        "- set KUBE-LB-INGRESS-LOCAL",
    } <= set(plan(agent))
    agent.start("--adopt")
    eventually(lambda: "10.96.9.9" not in sh("ipvsadm", "-Sn") + sh("ip", "addr"))  # after it has drained
    assert set(theirs) <= set(sh("ipvsadm", "-Sn").splitlines())
    assert "KUBE-MINE" in sh("ipset", "list", "-n").split()
    assert "-A OUTPUT -j KUBE-FIREWALL" in sh("iptables-save")
    sh("ipvsadm", "-D", "-t", "203.0.113.250:443")
    sh("ipset", "destroy", "KUBE-MINE")
    sh("iptables", "-D", "OUTPUT", "-j", "KUBE-FIREWALL")
    sh("iptables", "-X", "KUBE-FIREWALL")
    as_recorded(recording)
    agent.stop()
    agent.command("cleanup", "--run-dir", str(agent.run))
    after = dump()
    assert not any("KUBE-" in after[part] for part in ("ipset", "iptables", "ip6tables"))
    assert (after["ipvs"], "kube-ipvs0" in after["links"]) == ("", False)


def switch(agent: AgentProcess, traffic: list[Steady]) -> None:
    """Take the node over under traffic, hand it back, take it over again."""
    for client in traffic:
        client.more(20)
    agent.start("--adopt")
    for client in traffic:
        client.more(20)
    assert agent.plan() == []
    agent.stop()
    agent.command("cleanup", "--forget", "--run-dir", str(agent.run))
    for client in traffic:
        client.more(20)
    agent.start("--adopt")
    assert agent.ask("status")["last_full_sync"]["steps"] == 0
    for client in traffic:
        client.more(20)
        assert (client.failures, client.retransmitted) == ([], 0)


def test_agent_prerequisites_are_checked_beside_kube_proxy(agent: AgentProcess, tmp_path: Path) -> None:
    program = tmp_path / "kube-proxy"
    shutil.copy("/bin/sleep", program)
    words = ("check", "--run-dir", str(agent.run))
    with subprocess.Popen([program, "infinity"]) as kube_proxy:
        alone = agent.command(*words, expect=1).stdout
        beside = agent.command(*words, "--beside-kube-proxy").stdout
        kube_proxy.kill()
    sentence = f"kube-proxy is running (pid {kube_proxy.pid})"
    assert f"FAIL  {sentence}" in alone
    assert f"note  {sentence}" in beside


def test_takeover_from_ipvs_mode_loses_no_traffic(agent: AgentProcess, servers: Servers) -> None:
    recording = load_recording(recorded.GOLDEN / "clustercidr-0.json", agent)
    target = Target("10.96.217.1", 1167)
    lines = [line for line in recording["state"]["ipvs"].splitlines() if line.startswith("-a -t 10.96.217.1:1167 ")]
    serve(servers, [line.split()[4] for line in lines])
    traffic = [Steady(name, target) for name in ("client1", NODE)]
    try:
        switch(agent, traffic)
    finally:
        for client in traffic:
            client.close()
    as_recorded(recording)


def test_nftables_leads_back_to_ipvs_mode_under_traffic(agent: AgentProcess, servers: Servers) -> None:
    """As migrate goes back: the rules first become kube-proxy's, which it takes over by their names."""
    recording = load_recording(recorded.GOLDEN / "clustercidr-0.json", agent)
    kube_proxy = {key: value for key, value in recording["config"].items() if key not in ("apiVersion", "kind")}
    lines = [line for line in recording["state"]["ipvs"].splitlines() if line.startswith("-a -t 10.96.217.1:1167 ")]
    serve(servers, [line.split()[4] for line in lines])
    traffic = [Steady(name, Target("10.96.217.1", 1167)) for name in ("client1", NODE)]
    try:
        agent.configure(kube_proxy, rules={"backend": "nftables"})
        agent.start("--adopt")
        for client in traffic:
            client.more(20)
        assert "KUBE-" not in sh("ipset", "save") + sh("iptables-save")
        agent.configure(kube_proxy, rules={"backend": "iptables"})
        agent.kill(signal.SIGHUP)
        eventually(lambda: "kubenode" not in sh("nft", "list", "tables"))
        agent.stop()
        agent.command("cleanup", "--forget", "--run-dir", str(agent.run))
        for client in traffic:
            client.more(20)
            assert (client.failures, client.retransmitted, client.clients) == ([], 0, {NODE_IP})
    finally:
        for client in traffic:
            client.close()
    assert "kubenode" not in sh("nft", "list", "tables")
    as_recorded(recording)


def connections() -> int:
    """Return how many connections IPVS has balanced so far.

    The count is the sum of the processors' counters, which IPVS increases with each connection. ``ipvsadm --stats``
    shows a sum that is up to two seconds old, so connections of an earlier phase would seem to come later.
    """
    lines = Path("/proc/thread-self/net/ip_vs_stats_percpu").read_text().split("~")[0].splitlines()[2:]
    return sum(int(line.split()[1], 16) for line in lines if line.strip())


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
def test_takeover_from_iptables_mode_and_back_under_traffic(
    agent: AgentProcess, servers: Servers, tmp_path: Path, backend: str
) -> None:
    serve(servers, list(ENDPOINTS))
    mode = leftovers.iptables_mode(VIP, 80, NODE_PORT, ENDPOINTS, "10.244.0.0/16")
    leftovers.load_foreign()
    leftovers.use_iptables_mode(mode, tmp_path)
    ports = [objects.port(80, "p", node_port=NODE_PORT)]
    ends = [objects.endpoint(endpoint.rpartition(":")[0], NODE) for endpoint in ENDPOINTS]
    agent.configure({"clusterCIDR": "10.244.0.0/16"}, rules={"backend": backend})
    agent.write(
        "web.json",
        [objects.service("web", [VIP], ports, kind="NodePort"), objects.piece("web", ends, [objects.port(8080, "p")])],
    )
    steps = plan(agent)
    rules = [number for number, line in enumerate(steps) if line.startswith(RULES[backend])]
    serving = [number for number, line in enumerate(steps) if line.startswith(("+ virtual", "+ real", "+ address"))]
    going = [number for number, line in enumerate(steps) if line.startswith("-")]
    assert max(*serving, *rules) < min(going)
    # kube-proxy's rules of the table nat balance until IPVS serves; those in nftables do not end them
    translating = [number for number in rules if " nat " in steps[number]]
    assert (min(translating) > max(serving)) if backend == "iptables" else (max(rules) < max(serving))

    traffic = [
        Steady(name, where) for name in ("client1", NODE) for where in (Target(VIP, 80), Target(NODE_IP, NODE_PORT))
    ]
    try:
        switch(agent, traffic)
        # back to kube-proxy: its rules precede the agent's virtual servers, which keep their open connections
        agent.stop()
        agent.command("cleanup", "--forget", "--run-dir", str(agent.run))
        leftovers.use_iptables_mode(mode, tmp_path)
        before = connections()
        for client in traffic:
            client.more(20)
        assert connections() == before
        agent.start("--adopt")
        for client in traffic:
            client.more(20)
            assert client.failures == []
            assert client.clients == {NODE_IP}  # masqueraded at every moment, by whichever rules were there
    finally:
        for client in traffic:
            client.close()
    left = [line for line in sh("iptables-save").splitlines() if line.startswith((":KUBE", ":THEIRS", "-A"))]
    rendered = ("render", "--objects", str(agent.manifests), "--config", str(agent.config), "--node", NODE)
    ours = agent.command(*rendered, "--node-address", NODE_IP, "--format", "iptables").stdout.splitlines()
    ours = [line for line in ours if line.startswith((":KUBE", "-A"))] if backend == "iptables" else []
    theirs = [line for lines in leftovers.FOREIGN.values() for line in lines]
    assert sorted(line.split(" [")[0] for line in left) == sorted(line.split(" [")[0] for line in [*ours, *theirs])
    assert f"-A -t {VIP}:80 -s rr" in sh("ipvsadm", "-Sn")
