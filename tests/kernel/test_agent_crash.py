# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at any moment of an apply, then a start: the state is the same, and every item has an owner."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from support.agent.process import NODE, AgentProcess, dump, eventually
from support.clusters import objects
from support.processes.kernel import use_tables
from support.processes.namespace import fresh, sh
from support.traffic.cluster import Cluster, cluster_ip, service
from support.traffic.conversation import Talk
from support.traffic.network import HOSTS

MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")
ROUNDS = 6
STEADY = 90  # a service that does not change


def services(count: int) -> list[objects.Object]:
    items = []
    for number in range(1, count + 1):
        items.append(objects.service(f"s{number}", [f"10.96.1.{number}"], [objects.port(80, "p")]))
        endpoints = [objects.endpoint(f"10.244.{number}.{host}", NODE) for host in range(1, 6)]
        items.append(objects.piece(f"s{number}", endpoints, [objects.port(8080, "p")]))
    return items


def test_agent_killed_at_random_moments_converges(tmp_path: Path) -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    use_tables()
    empty = dump()
    agent = AgentProcess(tmp_path)
    chance = random.Random(20261121)
    try:
        agent.write("all.json", services(120))
        agent.start()
        whole = dump()
        agent.stop()
        agent.command("cleanup", "--run-dir", str(agent.run))
        assert dump() == empty
        partly = 0
        for number in range(ROUNDS):
            agent.start(wait=False)
            # the apply begins when the link appears: the first kill comes at once, on however fast a machine
            eventually(lambda: "kube-ipvs0" in Path("/proc/thread-self/net/dev").read_text(), pause=0.005)
            time.sleep(chance.uniform(0, 0.6) if number else 0)
            agent.stop(signal.SIGKILL)
            partly += dump()["ipvs"] != whole["ipvs"]
            if chance.random() < 0.5:
                agent.start()
                after = dump()
                for part in ("ipvs", "ipset", "iptables", "ip6tables"):
                    assert set(after[part].splitlines()) ^ set(whole[part].splitlines()) == set()
                assert agent.plan() == []
                agent.stop()
            agent.command("cleanup", "--run-dir", str(agent.run))
            assert dump() == empty
        assert partly, "no kill came in the middle of an apply: choose other moments"
    finally:
        agent.close()


def test_connections_of_unchanged_items_survive_every_kill(bare_cluster: Cluster) -> None:
    """Hundreds of other items come and go; the test kills the agent in the middle, several times."""
    cluster = bare_cluster
    seed = 20261122
    chance = random.Random(seed)
    names = [name for name in HOSTS if name in ("p1", "r1")]
    cluster.write("steady", service(STEADY, names))
    cluster.start()
    talks = [Talk("client1", cluster_ip(STEADY, family)) for family in (4, 6) for _name in names]
    pods = [talk.say().name for talk in talks]
    partly = 0

    def made() -> int:
        return cluster.run("ipvsadm", "-Sn").count("-a -t 10.96.1.")

    def members() -> int:
        return cluster.run("ipset", "list", "KUBE-CLUSTER-IP").count("10.96.1.")

    def bound() -> int:
        return cluster.run("ip", "-o", "addr", "show", "dev", "kube-ipvs0").count("inet 10.96.1.")

    try:
        # at least this many rounds, then until one kill came in the middle: the machine decides how fast an apply is
        for number in range(4 * ROUNDS):
            if number >= ROUNDS and partly:
                break
            cluster.write("others", [] if number % 2 else services(150))
            if number % 4 == 0:  # the agent adds members of sets first, and addresses last
                eventually(lambda: members() > 0)
            else:
                time.sleep(chance.uniform(0, 0.5))
            cluster.agent.stop(signal.SIGKILL)
            partly += not number % 2 and (members(), made(), bound()) not in ((0, 0, 0), (150, 150 * 5, 150))
            assert [talk.say().name for talk in talks] == pods, f"seed {seed}, round {number}, after the kill"
            cluster.start()
            assert [talk.say().name for talk in talks] == pods, f"seed {seed}, round {number}, after the start"
            wanted = 0 if number % 2 else 150 * 5
            eventually(lambda wanted=wanted: made() == wanted)  # removed real servers have weight 0 for a second
        assert partly, "no kill came in the middle of an apply: choose other moments"
    finally:
        for talk in talks:
            talk.abort()
