# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubenode explain --observe`` traces packets through nftables, names the rule that drops them, leaves no table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes.kernel import IPTABLES
from support.processes.namespace import inside, sh
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import ask
from support.traffic.explained import QUICK, explain, explained, words_of
from support.traffic.network import HOSTS, NODE
from support.waiting import PATIENCE, eventually

from kubenode.cli import explain_observe
from kubenode.engine.kernel import nftables
from kubenode.engine.kernel.iptables import choose
from kubenode.engine.kernel.nftables import tracer
from kubenode.engine.model.nft_trace import TABLE_PREFIX

WEB = 7
TARGET = cluster_ip(WEB, 4)
SERVICE = f"Service ns1/svc{WEB} port p-tcp"
# Rules with a match that the prediction does not judge, and other things that must stay as they are.
FOREIGN = (
    "table inet foreign {\n"
    "\tset wanted {\n\t\ttype inet_service\n\t\telements = { 22, 80 }\n\t}\n\n"
    "\tchain input {\n\t\ttype filter hook input priority -10; policy accept;\n"
    "\t\tmeta length > 4000 tcp dport @wanted accept\n"
    "\t\tmeta length > 20 ip daddr 10.96.0.7 drop\n\t}\n}\n"
)
POLICY = (
    "add table ip foreign; add chain ip foreign input { type filter hook input priority -10; policy drop; };"
    " add rule ip foreign input ip daddr != 10.96.0.7 accept"
)


@pytest.fixture(scope="module")
def cluster(nft_cluster: Cluster) -> Cluster:
    """Make a node with one Service and nftables alone; the agent has ended."""
    nft_cluster.write("web", service(WEB, ["p1", "p3", "r1"], type="NodePort", node_port=30007))
    nft_cluster.start()
    assert nft_cluster.agent.stop() == 0
    return nft_cluster


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for a probe without an answer, and not for the kernel's counters."""
    monkeypatch.setattr(explain_observe, "_PATIENCE", QUICK)
    monkeypatch.setattr(explain_observe, "_COUNTER_PERIOD", 0)


@pytest.fixture
def foreign(cluster: Cluster) -> Iterator[None]:
    """Add another program's table, which must be the same afterwards, byte for byte."""
    with inside(NODE):
        sh("nft", "-f", "-", text=FOREIGN)
    before = cluster.run("nft", "--handle", "list", "table", "inet", "foreign")
    yield
    assert cluster.run("nft", "--handle", "list", "table", "inet", "foreign") == before
    cluster.run("nft", "delete table inet foreign")


def traced(cluster: Cluster, where: str, target: Any = TARGET, *words: str) -> dict[str, Any]:
    """Return the explanation of a flow with a trace of one connection."""
    netns = () if where == NODE else ("--netns", HOSTS[where].namespace)
    answer = explained(cluster, *words_of(where, target), "--observe", "--probe", *netns, *words)
    assert TABLE_PREFIX not in cluster.run("nft", "list", "tables")
    return answer


def steps(answer: dict[str, Any], direction: str = "request") -> list[dict[str, Any]]:
    """Return the steps of the first packet of a direction."""
    packets = answer["observed"]["trace"]["packets"]
    return next(list(packet["steps"]) for packet in packets if packet["direction"] == direction)


@pytest.mark.parametrize("where", ["client1", "p2", NODE])
@pytest.mark.parametrize("version", [4, 6])
def test_trace_shows_each_packet_to_its_end(cluster: Cluster, where: str, version: int) -> None:
    answer = traced(cluster, where, cluster_ip(WEB, version))
    packets = answer["observed"]["trace"]["packets"]
    assert answer["verdict"] == "arrives"
    assert answer["observed"]["probe"] == "connected"
    assert {packet["direction"] for packet in packets} == {"request", "reply"}
    assert {(packet["direction"], packet["end"]) for packet in packets} == {
        ("request", "sent"),
        ("reply", "delivered" if where == NODE else "sent"),
    }, packets
    assert packets[0]["flags"] == "SYN"
    accepted = [step for step in steps(answer) if step.get("verdict") == "accept" and step["chain"] == "services"]
    assert [(step["owner"], step["rule"]) for step in accepted] == [(f"agent, {SERVICE}", 4)]
    reached = [step["text"] for step in steps(answer) if step["text"].startswith("IPVS sends it to ")]
    assert reached[0].removeprefix("IPVS sends it to ") in {target["real_server"] for target in answer["targets"]}


def test_trace_shows_mark_and_masquerading(cluster: Cluster) -> None:
    answer = traced(cluster, "client1", node_port(30007, 4))
    marks = [step["mark"] for step in steps(answer) if "sets the mark" in step["text"]]
    assert marks == [0x4000, 0]
    last = [step for step in steps(answer) if step.get("chain") == "postrouting"][-1]
    assert (last["verdict"], "masquerade fully-random" in last["text"]) == ("accept", True)
    assert all(step["owner"].startswith("agent") for step in steps(answer) if "table" in step)


def test_foreign_rule_that_drops_is_named(cluster: Cluster, foreign: None) -> None:
    answer = traced(cluster, "client1")
    assert answer["fault"]["name"] == "foreign-rule"
    handle = steps(answer)[-1]["handle"]
    rule = f"rule 2 (handle {handle}) of chain inet foreign input drops it: meta length > 20 ip daddr 10.96.0.7 drop"
    assert answer["fault"]["text"] == f"the trace shows that another program drops its packets: {rule}"
    assert f"{rule.rpartition(': ')[2]} # handle {handle}" in cluster.run("nft", "-a", "list", "ruleset")
    assert {packet["end"] for packet in answer["observed"]["trace"]["packets"]} == {"dropped"}
    assert steps(answer)[-1]["owner"] == "another program"


def test_foreign_policy_that_drops_is_named(cluster: Cluster) -> None:
    cluster.run("nft", POLICY)
    try:
        packets = traced(cluster, "client1")["observed"]["trace"]["packets"]
    finally:
        cluster.run("nft", "delete table ip foreign")
    assert packets[0]["result"] == "the policy of chain ip foreign input drops it"


def test_rule_of_iptables_nft_is_named_with_its_text(cluster: Cluster) -> None:
    rule = ("INPUT", "-d", TARGET.address, "-m", "length", "--length", "20:4000", "-j", "DROP")
    cluster.run("iptables-nft", "-I", *rule)
    choose("nft")
    try:
        dropped = steps(traced(cluster, "client1"))[-1]
    finally:
        choose("")
        cluster.run("iptables-nft", "-D", *rule)
        cluster.run("nft", "delete table ip filter")
    assert dropped["table"] == "ip filter"
    assert dropped["text"].endswith("drops it: -d 10.96.0.7/32 -m length --length 20:4000 -j DROP")


def test_rule_of_iptables_nft_beside_legacy_is_named(cluster: Cluster) -> None:
    cluster.run("iptables-legacy", "-I", "INPUT", "-d", "192.0.2.99", "-j", "ACCEPT")
    cluster.run("iptables-nft", "-I", "INPUT", "-d", TARGET.address, "-j", "DROP")
    try:
        dropped = steps(traced(cluster, "client1"))[-1]
    finally:
        cluster.run("iptables-legacy", "-D", "INPUT", "-d", "192.0.2.99", "-j", "ACCEPT")
        cluster.run("nft", "delete table ip filter")
    # The node's own iptables shows its own rules; those of the other one are shown as nftables has them.
    shown = {"legacy": "drops it: ip daddr 10.96.0.7 counter packets", "nft": "drops it: -d 10.96.0.7/32 -j DROP"}
    assert shown[IPTABLES] in dropped["text"]


def test_counter_shows_the_connection_of_the_probe(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_observe, "_COUNTER_PERIOD", PATIENCE)
    # A probe's answer may also count connections of earlier tests, which the kernel had not added yet.
    eventually(lambda: traced(cluster, "client1")["observed"]["counter"].endswith(", 1 of them meanwhile"))


def test_flow_without_packets_is_said(cluster: Cluster) -> None:
    answer = explained(cluster, *words_of("client1", TARGET), "--observe", "--wait", "1")
    assert answer["observed"]["trace"]["packets"] == []
    note = answer["observed"]["trace"]["notes"][-1]
    assert note == f"no tcp packet from {HOSTS['client1'].ip[4]} to {TARGET.address} port 80 was seen within 1 s"


def test_busy_flow_gives_a_bounded_number_of_packets(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a machine with other work, the client may pause for longer than the connection's usual rest.
    monkeypatch.setattr(tracer, "_QUIET", 5.0)
    monkeypatch.setattr(tracer, "_LONGEST", PATIENCE)
    ended = threading.Event()
    asking = threading.Thread(target=lambda: [ask("client1", TARGET) for _ in iter(ended.is_set, True)])
    asking.start()
    try:
        answer = explained(cluster, *words_of("client1", TARGET), "--observe", "--wait", "20")
    finally:
        ended.set()
        asking.join()
    packets = answer["observed"]["trace"]["packets"]
    requests = [packet for packet in packets if packet["direction"] == "request"]
    assert (len(requests), len(packets) - len(requests)) == (tracer.BEGINNINGS + tracer.PACKETS, tracer.PACKETS)
    assert [packet["flags"] for packet in requests].count("SYN") >= tracer.BEGINNINGS
    assert {packet["source"] for packet in requests} == {HOSTS["client1"].ip[4]}


def test_command_without_observation_changes_nothing(cluster: Cluster) -> None:
    with inside(NODE):
        before = nftables.generation()
    explained(cluster, *words_of("client1", TARGET))
    explained(cluster, *words_of("client1", TARGET), "--observe", "--wait", "0")
    explained(cluster, *words_of("client1", TARGET), "--probe", "--netns", "client1")
    with inside(NODE):
        assert nftables.generation() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_command_leaves_no_table(cluster: Cluster, foreign: None, number: int) -> None:
    words = [*words_of("client1", TARGET), "--observe", "--wait", "600", *cluster.agent.options()]
    command = [sys.executable, "-m", "kubenode", "explain", *words, "--objects", str(cluster.agent.manifests)]
    before = cluster.run("nft", "list", "tables")
    with inside(NODE), subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: TABLE_PREFIX in sh("nft", "list", "tables"))
        finally:
            process.send_signal(number)
    assert cluster.run("nft", "list", "tables") == before


def environment() -> dict[str, str]:
    source = Path(__file__).parents[2] / "agent/src"
    return {**os.environ, "PYTHONPATH": str(source)}


def test_two_traces_do_not_disturb_each_other(cluster: Cluster) -> None:
    flow = tracer.TracedFlow("ip", "tcp", "", TARGET.address, 80, True)
    with inside(NODE), tracer.Tracer(flow) as other:
        words = (*words_of("client1", TARGET), "--observe", "--probe", "--netns", "client1")
        packets = explained(cluster, *words)["observed"]["trace"]["packets"]
        seen = other.read(1)
    assert [packet["flags"] for packet in packets].count("SYN") == 1
    assert {packet["end"] for packet in packets} == {"sent"}
    assert {event.table for event in seen} == {other.table.name, "kubenode"}


def test_kernel_without_owned_tables_gives_no_trace(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "TABLE_F_OWNER", 0x80)  # no kernel knows this flag, as none before 5.12 the other one
    before = cluster.run("nft", "list", "ruleset")
    answer = traced(cluster, "client1")
    assert answer["observed"]["trace"]["notes"][-1] == (
        "no trace: a trace needs tables of nftables that end with their process (Linux 5.12), which this kernel lacks"
    )
    assert cluster.run("nft", "list", "ruleset") == before


def test_trace_does_not_fill_the_log_by_legacy_rules(cluster: Cluster) -> None:
    cluster.run("iptables-legacy", "-t", "filter", "-S")  # the table stays after its first use
    sh("modprobe", "nf_log_syslog")
    cluster.run("sysctl", "-qw", "net.netfilter.nf_log.2=nf_log_ipv4")
    try:
        trace = traced(cluster, "client1")["observed"]["trace"]
    finally:
        cluster.run("sysctl", "-qw", "net.netfilter.nf_log.2=NONE")
    assert trace["packets"] == []
    assert trace["notes"][0].startswith("no trace: iptables-legacy has the tables filter")
    assert "by nf_log_ipv4" in trace["notes"][0]


def test_rules_of_iptables_legacy_are_said_to_be_missing(cluster: Cluster) -> None:
    cluster.run("iptables-legacy", "-I", "INPUT", "-d", TARGET.address, "-j", "DROP")
    try:
        trace = traced(cluster, "client1")["observed"]["trace"]
    finally:
        cluster.run("iptables-legacy", "-D", "INPUT", "-d", TARGET.address, "-j", "DROP")
    assert "their rules send no events" in trace["notes"][0]
    assert {packet["end"] for packet in trace["packets"]} == {"lost"}
    assert trace["packets"][0]["result"].startswith("no event after input: IPVS does not send it on, or a rule that")


@pytest.mark.parametrize("form", ["text", "html"])
def test_each_form_shows_the_way(cluster: Cluster, form: str) -> None:
    words = [*words_of("client1", TARGET), "--observe", "--probe", "--netns", "client1"]
    _status, output, _errors = explain(cluster, *words, form=form)
    shown = "observed request: tcp " if form == "text" else "<h2>Observed request: tcp "
    assert shown in output
    assert f"agent, {SERVICE}" in output
    assert "leaves by " in output
