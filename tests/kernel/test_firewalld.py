# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""firewalld with its iptables back end beside an agent.

The tests show what firewalld refuses, what the role's files allow, and what its reloads remove.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import eventually
from support.distributions.foreign_root import ForeignRoot
from support.distributions.neighbours import FILES, FIREWALLD, render
from support.processes.kernel import IPTABLES, use_tables
from support.processes.namespace import inside
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import Talk, Target, ask
from support.traffic.network import NODE

from kubenode.engine.model.iptables import BUILT_IN

WEB, PORT = 120, 30090
CLOSED = Target(node_port(PORT, 4).address, 8088)  # a server on the node that no rule or file mentions
START = """
for tool in iptables ip6tables; do
  for verb in "" -save -restore; do ln -sf /usr/sbin/$tool-$2$verb /etc/alternatives/$tool$verb; done
done
sed -i "s/^FirewallBackend=.*/FirewallBackend=$1/" /etc/firewalld/firewalld.conf
mkdir -p /run/dbus /run/lock
dbus-daemon --system --fork
"""
BUS = ("dbus-send", "--system", "--print-reply", "--dest=org.fedoraproject.FirewallD1", "/org/fedoraproject/FirewallD1")


def answers() -> dict[str, str]:
    """Return which pod answers, and which client address it sees: from outside and from a pod, in each family."""
    answer_of = {}
    for family in (4, 6):
        for where, what in (
            ("client1", cluster_ip(WEB, family)),
            ("p3", cluster_ip(WEB, family)),
            ("client1", node_port(PORT, family)),
        ):
            answer_of[f"{where} to {what.address}:{what.port}"] = ask(where, what, timeout=1)
    return answer_of


def ours(cluster: Cluster) -> dict[str, list[str]]:
    """Return the agent's rules, sets and virtual servers.

    The rules stand in the order of each family's tables, where only the agent's rules may precede a jump.
    """
    node = cluster.node()
    rules = {tool: [line for line in node[tool].splitlines() if "KUBE" in line] for tool in ("iptables", "ip6tables")}
    return {**rules, "ipset": node["ipset"].splitlines(), "ipvs": node["ipvs"].splitlines()}


class Firewalld:
    """The daemon in the node's network, with a bus of its own."""

    def __init__(self, backend: str = "iptables") -> None:
        with inside(NODE):
            # The daemon shares the node's /run, where iptables-legacy locks its tables. Without the lock, one
            # of two writers fails at times.
            self.root = ForeignRoot(Path("/run"), alone=False)
        self.root.run("sh", "-ec", START, "sh", backend, IPTABLES)
        command = [*self.root.enter, "firewalld", "--nofork", "--nopid", "--debug=1"]
        self.log = (Path(tempfile.mkdtemp()) / "firewalld.log").open("w+b")
        self.daemon = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        eventually(self.runs)

    def runs(self) -> bool:
        """firewalld is ready"""
        assert self.daemon.poll() is None, Path(self.log.name).read_text()
        return (
            'string "RUNNING"'
            in self.root.attempt(
                *BUS, "org.freedesktop.DBus.Properties.Get", "string:org.fedoraproject.FirewallD1", "string:state"
            ).stdout
        )

    def tell(self) -> None:
        """Write the files of the role prepare and reload."""
        for name in FIREWALLD:
            self.root.write(FILES[name], render(name))
        self.root.run("firewall-cmd", "--reload")

    def close(self) -> None:
        """End the daemon, which removes its rules."""
        self.root.run(
            "sh", "-c", 'for p in /proc/[0-9]*; do read -r n <$p/comm; [ "$n" != firewalld ] || kill ${p#/proc/}; done'
        )
        self.daemon.wait()
        self.log.close()
        self.root.close()


def create_tables() -> None:
    """Use every table: iptables keeps an empty table once it has been used."""
    with inside(NODE):
        use_tables(*BUILT_IN)


@pytest.fixture(scope="module")
def tables(servers: object) -> None:
    create_tables()


@pytest.fixture(scope="module")
def cluster(tables: None, bare_cluster: Cluster) -> Cluster:
    bare_cluster.write("web", service(WEB, ["r1"], node_port=PORT))
    bare_cluster.configure({"ipvs": {"syncPeriod": "1s"}})
    bare_cluster.start()
    return bare_cluster


@pytest.fixture(scope="module")
def without(cluster: Cluster) -> dict[str, str]:
    """Return the answers without firewalld."""
    cluster.servers.add("itself", NODE, CLOSED)
    assert ask("client1", CLOSED).startswith("itself sees ")
    return answers()


@pytest.fixture(scope="module")
def before(cluster: Cluster, without: dict[str, str]) -> dict[str, list[str]]:
    """Return the agent's items without firewalld. After a reload, traffic passes before the last rule is restored."""
    return ours(cluster)


@pytest.fixture(scope="module")
def firewalld(before: object) -> Iterator[Firewalld]:
    daemon = Firewalld()
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def refused(firewalld: Firewalld) -> dict[str, str]:
    """Return the answers where firewalld has no files of the role."""
    return answers()


@pytest.fixture(scope="module")
def told(refused: object, firewalld: Firewalld) -> Firewalld:
    """Return the daemon with the role's files."""
    firewalld.tell()
    return firewalld


def test_its_files_let_through_what_firewalld_refuses(
    cluster: Cluster, without: dict[str, str], refused: dict[str, str], told: Firewalld
) -> None:
    assert all(" sees " in answer for answer in without.values()), without
    assert not any(" sees " in answer for answer in refused.values()), refused
    eventually(lambda: answers() == without)
    # The files allow nothing else.
    assert " sees " not in ask("client1", CLOSED, timeout=1)


@pytest.mark.parametrize("how", ["--reload", "--complete-reload"])
def test_reload_removes_rules_and_agent_restores_them(
    cluster: Cluster, without: dict[str, str], before: dict[str, list[str]], told: Firewalld, how: str
) -> None:
    eventually(lambda: answers() == without)
    eventually(lambda: ours(cluster) == before)
    talk = Talk("client1", cluster_ip(WEB, 4))
    try:
        assert talk.say().name == "r1"
        cluster.agent.kill(signal.SIGSTOP)
        try:
            told.root.run("firewall-cmd", how)
            harmed = ours(cluster)
            assert (harmed["iptables"], harmed["ip6tables"]) == ([], [])
            assert (harmed["ipset"], harmed["ipvs"]) == (before["ipset"], before["ipvs"])
            assert answers() != without
        finally:
            cluster.agent.kill(signal.SIGCONT)
        eventually(lambda: ours(cluster) == before)
        assert answers() == without
        assert talk.say().name == "r1"
    finally:
        talk.abort()
