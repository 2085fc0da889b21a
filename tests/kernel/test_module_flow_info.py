# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ``flow_info``: the answers of ``kubenode explain``, and one sentence for each flow that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.agent.command import program
from support.agent.process import dump
from support.processes.namespace import inside
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import ask
from support.traffic.explained import explained
from support.traffic.network import HOSTS, NODE

from kubenode.engine.kernel import nftables

WEB = 7
CLIENT = HOSTS["client1"].ip[4]
TARGET = cluster_ip(WEB, 4)
DROP = ("INPUT", "-d", TARGET.address, "-j", "DROP")


@pytest.fixture(scope="module")
def cluster(bare_cluster: Cluster) -> Cluster:
    """Make a node with one Service; the agent has ended, so that it repairs nothing."""
    bare_cluster.write("web", service(WEB, ["p1", "p3"], type="NodePort", node_port=30007))
    bare_cluster.start()
    assert bare_cluster.agent.stop() == 0
    return bare_cluster


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bin") / "kubenode"
    path.write_text(program())
    return path


@pytest.fixture
def dropped(cluster: Cluster) -> Iterator[None]:
    """Let another program's rule drop the packets to the Service."""
    cluster.run("iptables", "-I", *DROP)
    yield
    cluster.run("iptables", "-D", *DROP)


def flows(cluster: Cluster, command: Path, *wanted: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Run the module on node1, whose configuration is that of the cluster."""
    given = {"command": str(command), "config": str(cluster.agent.config), "objects": str(cluster.agent.manifests)}
    with inside(NODE):
        return run("flow_info", flows=list(wanted), **{**given, **options})


def to_cluster_ip(source: str = "node") -> dict[str, Any]:
    return {"destination": TARGET.address, "port": 80, "source": source}


def test_flows_have_the_answers_of_the_command(cluster: Cluster, command: Path) -> None:
    result = flows(cluster, command, to_cluster_ip(CLIENT), {"node_port": 30007, "source": CLIENT})
    assert (result["arrives"], result["problems"], result["changed"]) == (True, [], False)
    first = explained(cluster, "tcp", CLIENT, f"{TARGET.address}:80")
    # The module reads the ledger of the machine, the command that of this cluster.
    assert {**result["flows"][0], "decisions": 0, "targets": 0, "lacking": 0} == {
        **first,
        "decisions": 0,
        "targets": 0,
        "lacking": 0,
    }
    assert [answer["verdict"] for answer in result["flows"]] == ["arrives", "arrives"]


def test_fault_is_returned_with_its_remedy(cluster: Cluster, command: Path, dropped: None) -> None:
    result = flows(cluster, command, to_cluster_ip(), to_cluster_ip(CLIENT))
    assert result["arrives"] is False
    assert [answer["fault"]["name"] for answer in result["flows"]] == ["foreign-rule"] * 2
    assert "chain INPUT" in result["problems"][1]
    assert "remedy: " in result["problems"][1]


def test_nothing_is_sent_or_added_in_check_mode(cluster: Cluster, command: Path) -> None:
    with inside(NODE):
        before = dump()
    checked = flows(cluster, command, to_cluster_ip(), probe=True, check=True)
    with inside(NODE):
        assert dump() == before
    assert "probe" not in checked["flows"][0]["observed"]
    generations = []
    with inside(NODE):
        generations.append(nftables.generation())
    checked = flows(cluster, command, to_cluster_ip(), probe=True, observe=True, check=True)
    with inside(NODE):
        generations.append(nftables.generation())
    assert generations[0] == generations[1]
    assert "trace" not in checked["flows"][0]["observed"]
    probed = flows(cluster, command, to_cluster_ip(), probe=True, observe=True)
    assert probed["flows"][0]["observed"]["probe"] == "connected"
    assert probed["flows"][0]["observed"]["trace"]["packets"][0]["end"] == "sent"
    observed = flows(cluster, command, to_cluster_ip(), observe=True, wait=1)
    assert "within 1 s" in observed["flows"][0]["observed"]["trace"]["notes"][-1]
    assert ask(NODE, node_port(30007, 4, "tcp"))


def test_wrong_flow_is_named_and_costs_only_itself(cluster: Cluster, command: Path) -> None:
    wrong = [
        {"destination": TARGET.address, "port": 0},
        {"destination": TARGET.address, "port": 80, "source": "fd00::1"},
        {"destination": "2001:db8::1", "port": 80, "source": "10.0.0.1"},
        {"service": "nosuch/web"},
        {"service": "web"},
        {"service": f"ns1/svc{WEB}", "port": "x"},
        {"node_port": 70000},
        {"destination": TARGET.address, "port": 80, "source": "--netns"},
        {"destination": TARGET.address, "port": 80, "source": CLIENT, "in_interface": "none"},
    ]
    with pytest.raises(ModuleError) as error:
        flows(cluster, command, *wrong, to_cluster_ip())
    messages = str(error.value).split("; ")
    expected = (
        "flows[0]: destination port is '0', expected a number from 1 to 65535",
        f"flows[1]: source fd00::1 and destination {TARGET.address} are of two families, expected one",
        "flows[2]: source 10.0.0.1 and destination 2001:db8::1 are of two families, expected one",
        "flows[3]: there is no Service nosuch/web that a service proxy serves",
        "flows[4]: service is 'web', expected NAMESPACE/NAME",
        f"flows[5]: port is 'x', expected a port of Service ns1/svc{WEB}",
        "flows[6]: node_port is '70000', expected a number from 1 to 65535",
        "flows[7]: source is '--netns', expected an IP address",
        "flows[8]: in_interface is 'none', expected a link of this node",
    )
    assert len(messages) == len(expected), messages
    for message, start in zip(messages, expected, strict=True):
        assert message.startswith(start)
    assert [answer["destination"] for answer in error.value.result["flows"]] == [TARGET.address]


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({}, "one of the following is required: destination, service, node_port"),
        ({"service": "a/b", "node_port": 1}, "mutually exclusive: destination|service|node_port"),
        ({"destination": "192.0.2.1"}, "required by 'destination': port"),
    ],
)
def test_flow_without_one_target_is_refused(flow: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("flow_info", flows=[flow], command="/bin/true")
    assert message in str(error.value)


def test_unknown_network_namespace_is_refused(cluster: Cluster, command: Path) -> None:
    with pytest.raises(ModuleError, match=r"netns is 'nosuch', expected a network namespace of: ip netns list"):
        flows(cluster, command, to_cluster_ip(), probe=True, netns="nosuch")


def test_missing_agent_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match=rf"not installed: there is no {tmp_path}/no\. Install it with the role"):
        run("flow_info", flows=[{"service": "a/b"}], command=str(tmp_path / "no"))


def test_command_without_an_answer_is_an_error(tmp_path: Path) -> None:
    for text, message in (
        ("print('kubenode: unknown command explain', file=sys.stderr)\nsys.exit(64)", "install a newer release"),
        ("sys.exit(9)", "ended with exit status 9 and no output"),
        (f"print({json.dumps('[]')})", "ended with exit status 0 and no output"),
        ("raise ValueError('broken')", "flows[0]: ValueError: broken"),
    ):
        path = tmp_path / "kubenode"
        path.write_text(f"import sys\n{text}\n")
        with pytest.raises(ModuleError) as error:
            run("flow_info", flows=[{"service": "a/b"}], command=str(path))
        assert message in str(error.value)
