# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the traffic tests: one cluster network, and an agent for each test file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.agent.container import AgentContainer
from support.agent.process import AgentProcess
from support.containers import images
from support.containers.containerd import Containerd
from support.kube_proxy.node import MODULES
from support.processes.kernel import IPTABLES, NFT, TOOLS
from support.processes.namespace import inside, sh
from support.processes.started import Started
from support.traffic.cluster import Cluster, serve_pods
from support.traffic.conversation import Servers
from support.traffic.network import HOSTS, NODE, Network

_MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "nf_conntrack", "nf_conntrack_netlink")
_MODULES += ("dummy", "veth", "bridge", "br_netfilter", "sctp")
# A kernel without the modules of iptables and ipset has one back end for rules.
BACKENDS = ("nftables",) if IPTABLES == "none" else ("iptables", "nftables")
if IPTABLES != "none":
    _MODULES += ("ip_set", "xt_set", "xt_ipvs")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for the length of the soak test (`make soak`), and for the number of faults and kills to try."""
    parser.addoption(
        "--soak", type=int, default=0, metavar="SECONDS", help="how long test_agent_soak.py goes on (a few rounds)"
    )
    parser.addoption(
        "--every-fault", action="store_true", help="each error at each system call (test_faults_everywhere.py)"
    )
    parser.addoption(
        "--kills",
        type=int,
        default=3,
        metavar="N",
        help="at how many moments each of test_kills.py kills (%(default)s)",
    )
    parser.addoption(
        "--kill-seed", default="20261124", metavar="SEED[/N]", help="seed of test_kills.py, and its first round"
    )
    parser.addoption(
        "--flows",
        type=int,
        default=60,
        metavar="N",
        help="how many random flows test_explain.py compares (%(default)s)",
    )
    parser.addoption(
        "--container", action="store_true", help="the agent of the traffic tests runs in the DaemonSet's container"
    )
    parser.addoption("--write-faults", action="store_true", help="let test_explain_faults.py write its page")
    parser.addoption(
        "--faults", type=int, default=1, metavar="N", help="at how many places each fault strikes (%(default)s)"
    )


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Start the network with a server in every pod."""
    subprocess.run(["modprobe", "-a", *_MODULES], check=True)
    network = Network()
    started = Servers()
    serve_pods(started)
    yield started
    started.close()
    network.close()


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """Start containerd with the agent's images."""
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    archive = images.Archive(images.built())
    daemon = Containerd()
    try:
        for content in (images.built().read_bytes(), *images.variants(archive)):
            daemon.load(content)
        yield daemon
    finally:
        daemon.close()


@pytest.fixture(scope="session")
def new_agent(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], AgentProcess]:
    """Return a function that makes an agent for the traffic of ``servers``: a process, or a container."""
    if not request.config.getoption("--container"):
        return lambda: AgentProcess(tmp_path_factory.mktemp("cluster"))
    containerd = request.getfixturevalue("containerd")
    with inside(NODE):
        for tool in TOOLS:  # the kubelet's chain: it tells a container the node's variant of iptables
            sh(tool, "-t", "mangle", "-N", "KUBE-IPTABLES-HINT")
    return lambda: AgentContainer(tmp_path_factory.mktemp("cluster"), containerd)


@pytest.fixture(scope="module")
def bare_cluster(servers: Servers, new_agent: Callable[[], AgentProcess]) -> Iterator[Cluster]:
    """Make a cluster whose agent has not been started; restore the node when the module ends."""
    with _restored(Cluster(new_agent(), servers)) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=BACKENDS)
def rules_cluster(
    request: pytest.FixtureRequest, servers: Servers, new_agent: Callable[[], AgentProcess]
) -> Iterator[Cluster]:
    """Make a cluster as bare_cluster, once for each back end for rules: all tests of the module run with each."""
    with _restored(Cluster(new_agent(), servers, request.param)) as cluster:
        yield cluster
    cluster.run("conntrack", "-F")  # rules look at the first packet of a flow, so each cluster begins without any


@pytest.fixture(scope="module")
def nft_cluster(servers: Servers, new_agent: Callable[[], AgentProcess]) -> Iterator[Cluster]:
    """Make a cluster as bare_cluster, whose agent will have its rules in nftables."""
    with _restored(Cluster(new_agent(), servers, "nftables")) as cluster:
        yield cluster


@contextmanager
def _restored(cluster: Cluster) -> Iterator[Cluster]:
    """Give a cluster; end it, and see that the node is as before."""
    before = cluster.node()
    yield cluster
    cluster.close()
    assert cluster.node() == before
    assert "kubenode" not in cluster.run(NFT, "list", "tables")


@pytest.fixture
def intruder(cluster: Cluster) -> Iterator[str]:
    """Add a machine in the node's network that sends packets for 127.0.0.1 to the node."""
    name, node = "client2", HOSTS[NODE].ip[4]
    with inside(name):
        sh("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
        sh("ip", "addr", "del", "127.0.0.1/8", "dev", "lo")
        sh("ip", "route", "add", "127.0.0.1/32", "via", node, "src", HOSTS[name].ip[4])
    yield name
    with inside(name):
        sh("ip", "route", "del", "127.0.0.1/32")
        sh("ip", "addr", "add", "127.0.0.1/8", "dev", "lo")
        sh("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=0")
    cluster.run("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=0")


@pytest.fixture
def empty_ipvs() -> Iterator[None]:
    """Empty IPVS's table before and after the test."""
    from kubenode.engine.kernel.ipvs import control

    control.flush()
    yield
    control.flush()


@pytest.fixture
def no_sets_left() -> Iterator[None]:
    """Remove the module's sets after the test, and then all others, which the test made."""
    from kernel.modules import run

    yield
    run("ipsets", purge="owned")
    sh("ipset", "destroy")


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def family(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Record which tools of the kernel's tables are started within its block."""
    return Started(tmp_path)
