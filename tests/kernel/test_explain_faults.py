# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubenode explain`` names the culprit of each injected fault, and accuses nobody of a healthy flow.

The agent has made the node's state and has ended, so that it repairs nothing. With ``--write-faults``, the last test
writes docs/reference/faults.md.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes.namespace import inside, sh
from support.traffic import fault_page, faults
from support.traffic.cluster import Cluster, balancer_ip, cluster_ip, external_ip, node_port, service
from support.traffic.conversation import ask
from support.traffic.explained import explained, words_of
from support.traffic.faults import INJECTED, Injected
from support.traffic.faults.injected import GOOD, STICKY, TAKEN, VIP
from support.traffic.network import HOSTS, NODE

from kubenode.cli import main

SETTINGS = {
    "localhostNodePorts": True,
    "allowedExternalIPs": ["198.51.100.0/24", "2001:db8:51::/64", f"{VIP}/32"],
}
KUBE_PROXY = {"nodePortAddresses": ["10.99.0.0/24", "fd00:99::/64"], "ipvs": {"strictARP": True}}
PAGE = Path(__file__).parents[2] / "docs/reference/faults.md"
SENTENCES: dict[str, dict[str, str]] = {}  # by the fault's title, then by back end
BACK_ENDS = ("iptables", "nftables")


@pytest.fixture(scope="module")
def _tables(servers: object) -> None:
    """Use every table once: it stays after its first use, empty."""
    with inside(NODE):
        for table in ("raw", "mangle"):
            sh("iptables", "-t", table, "-S")


@pytest.fixture(scope="module", params=BACK_ENDS)
def cluster(request: pytest.FixtureRequest, _tables: None, bare_cluster: Cluster) -> Iterator[Cluster]:
    """Make the node's state in one back end after the other; the agent ends before the tests."""
    before = {name: bare_cluster.run("sysctl", "-n", name).strip() for name in ("net.ipv4.conf.all.rp_filter",)}
    bare_cluster.write("faults", faults.fill())
    taken = cluster_ip(TAKEN, 4).address
    bare_cluster.backend = request.param
    bare_cluster.configure(KUBE_PROXY, **SETTINGS)
    bare_cluster.run("ipvsadm", "-A", "-t", f"{taken}:80", "-s", "rr")
    bare_cluster.start()
    assert bare_cluster.agent.stop() == 0
    assert before == {"net.ipv4.conf.all.rp_filter": "0"}
    yield bare_cluster
    with inside(NODE):
        bare_cluster.agent.command("cleanup", "--run-dir", str(bare_cluster.agent.run))
    bare_cluster.run("ipvsadm", "-D", "-t", f"{taken}:80")


def do(cluster: Cluster, commands: tuple[str, ...]) -> None:
    """Run commands on node1, or outside of all namespaces; nft takes its words as one."""
    for command in commands:
        if command.startswith("root "):
            sh(*shlex.split(command)[1:])
        else:
            cluster.run(*(("nft", command[4:]) if command.startswith("nft ") else shlex.split(command)))


def restore(cluster: Cluster) -> None:
    """Let the command line repair the agent's items."""
    words = ["apply", *cluster.agent.options(), "--objects", str(cluster.agent.manifests)]
    with inside(NODE), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(words)


def flow(fault: Injected) -> tuple[str, ...]:
    six = fault.target.startswith("[")
    if fault.client == NODE:
        source = "node"
    else:
        source = HOSTS[fault.client].ip[6 if six else 4] if fault.client in HOSTS else fault.client
    return ("tcp", source, fault.target, *fault.words)


@pytest.mark.parametrize("fault", INJECTED, ids=lambda fault: fault.title)
def test_injected_fault_is_named(cluster: Cluster, fault: Injected) -> None:
    back_end = cluster.backend
    if back_end not in fault.back_ends:
        return  # its counterpart for this back end is another entry
    do(cluster, fault.make)
    try:
        answer = explained(cluster, *flow(fault))
    finally:
        do(cluster, fault.undo)
        if fault in faults.KERNEL or "agent's chain" in fault.title:
            restore(cluster)
    named = answer["fault"]
    assert named is not None, answer["summary"]
    assert named["name"] in fault.names, named
    assert fault.phrase in named["text"], named
    text = re.sub(r"full: \d+ of", "full: 1 of", named["text"])  # how many entries there are depends on the moment
    SENTENCES.setdefault(fault.title, {})[back_end] = f"{text}; {named['remedy']}"


def test_client_pinned_to_a_draining_pod_is_named(cluster: Cluster) -> None:
    target = cluster_ip(STICKY, 4)
    name = ask("client1", target).split()[0]
    other = {"p1": "p2", "p2": "p1"}[name]
    server = f"{target.address}:80"
    rest = [item for item in faults.fill() if not item["metadata"]["name"].startswith(f"svc{STICKY}")]
    cluster.write("faults", [*rest, *service(STICKY, [other], sessionAffinity="ClientIP")])
    do(cluster, (f"ipvsadm -e -t {server} -r {HOSTS[name].ip[4]}:8080 -m -w 0",))
    do(cluster, ("sysctl -qw net.ipv4.vs.expire_quiescent_template=0",))
    try:
        answer = explained(cluster, *flow(faults.PINNED))
        assert ask("client1", target).split()[0] == name
    finally:
        cluster.write("faults", faults.fill())
        do(cluster, ("sysctl -qw net.ipv4.vs.expire_quiescent_template=1",))
        restore(cluster)
    named = answer["fault"]
    assert named is not None, answer["summary"]
    assert named["name"] in faults.PINNED.names, named
    text = named["text"].replace(HOSTS[name].ip[4], "10.244.1.11")
    SENTENCES.setdefault(faults.PINNED.title, {})[cluster.backend] = f"{text}; {named['remedy']}"


def test_client_pinned_to_a_ready_pod_is_not_accused(cluster: Cluster) -> None:
    target = cluster_ip(STICKY, 4)
    name = ask("client1", target).split()[0]
    answer = explained(cluster, *words_of("client1", target))
    assert (answer["verdict"], answer["fault"]) == ("arrives", None), answer["summary"]
    assert [each["real_server"] for each in answer["targets"]] == [f"{HOSTS[name].ip[4]}:8080"]


def healthy() -> list[tuple[str, object]]:
    flows = []
    for family in (4, 6):
        for where in ("p1", "p3", NODE, "client1"):
            for protocol in ("tcp", "udp"):
                flows.append((where, cluster_ip(GOOD, family, protocol=protocol)))
                flows.append((where, node_port(30120, family, protocol)))
            flows.append((where, external_ip(GOOD, family)))
            flows.append((where, balancer_ip(GOOD, family)))
    return flows


def test_healthy_flows_are_not_accused(cluster: Cluster) -> None:
    flows = healthy()
    assert len(flows) >= 40
    accused = []
    for where, target in flows:
        assert " sees " in ask(where, target)
        answer = explained(cluster, *words_of(where, target))
        if answer["verdict"] != "arrives":
            accused.append((where, target, answer["summary"]))
    assert accused == []


def test_node_is_as_before_after_all_faults(cluster: Cluster) -> None:
    with inside(NODE):
        assert cluster.agent.plan() == []


def test_page_of_faults_is_up_to_date(cluster: Cluster, pytestconfig: pytest.Config) -> None:
    if cluster.backend != BACK_ENDS[-1] or len(SENTENCES) <= len(INJECTED):
        return  # the page has both back ends
    text = fault_page.page(SENTENCES)
    if pytestconfig.getoption("--write-faults"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text
