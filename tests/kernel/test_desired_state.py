# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The desired state in a real kernel: the output of the native tools equals the output of ``render``.

The tests apply every recorded cluster, and one with every setting in which the agent differs from kube-proxy.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.clusters import objects
from support.kube_proxy import recorded
from support.kube_proxy.node import IPVS_MODULES
from support.processes.namespace import fresh, sh

from kubenode.engine.apply import execute
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.kernel.tables import TABLES
from kubenode.engine.ledger import Ledger
from kubenode.engine.model import State
from kubenode.engine.plan import plan
from kubenode.engine.render import render

MODULES = (*IPVS_MODULES, "nf_conntrack", "ip_set", "xt_set", "dummy")


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


@pytest.fixture(autouse=True)
def _namespace() -> None:
    fresh()
    sh("ip", "link", "set", "lo", "up")


def everything() -> Cluster:
    config = Config(
        scheduler="mh",
        masquerade_bit=31,
        cluster_cidrs=("10.244.0.0/16", "fd00:244::/32"),
        vip_ping=True,
        localhost_node_ports=True,
        no_endpoints="reject",
        strict_arp=True,
    )
    facts = NodeFacts(
        "n1", (("lo", "127.0.0.1"), ("eth0", "10.99.0.11"), ("eth0", "fd00:99::11")), ("10.99.0.11", "fd00:99::11")
    )
    cluster = Cluster(config, facts)
    ips = ["10.96.0.1", "fd00:96::1"]
    for number, protocol in enumerate(("TCP", "UDP", "SCTP")):
        name, port = protocol.lower(), 80 + number
        cluster.put(
            objects.service(
                name,
                ips,
                [objects.port(port, "p", protocol, 30000 + number)],
                kind="LoadBalancer",
                ingress=[{"ip": "198.51.100.1"}, {"ip": "2001:db8:b::1"}],
                externalIPs=["203.0.113.1", "2001:db8:e::1"],
                loadBalancerSourceRanges=["192.0.2.7/32", "10.0.0.0/8", "2001:db8:c::7/128"],
                sessionAffinity="ClientIP",
                externalTrafficPolicy="Local" if number else "Cluster",
                healthCheckNodePort=32000 + number,
            )
        )
        for family, pods in ((4, ("10.244.1.1", "10.244.2.1")), (6, ("fd00:244:1::1", "fd00:244:2::1"))):
            ends = [objects.endpoint(pod, node) for pod, node in zip(pods, ("n1", "n2"), strict=True)]
            cluster.put(objects.piece(name, ends, [{"name": "p", "protocol": protocol, "port": 8080}], family=family))
    for flags in ("sh-port", "sh-fallback,sh-port"):
        notes = {"kubenode.ipvs/scheduler": "sh", "kubenode.ipvs/scheduler-flags": flags}
        cluster.put(objects.service(f"empty-{len(flags)}", [f"10.96.1.{len(flags)}"], annotations=notes))
    cluster.put(objects.service("empty-6", ["fd00:96::6"]))
    assert cluster.problems == {}
    return cluster


def plain(text: str) -> list[str]:
    """Return the lines of iptables-save without comments, counters, and tables that hold no item of the agent's."""
    lines = [re.sub(r"\[\d+:\d+\]", "[0:0]", line) for line in text.splitlines() if not line.startswith("#")]
    printed: list[str] = []
    for table in "\n".join(lines).split("COMMIT"):
        if "-A " in table:
            printed += [*table.strip().splitlines(), "COMMIT"]
    return printed


def members_sorted(text: str) -> list[str]:
    """Return the lines of ipset save, in the order of set names, without values that the kernel chooses."""
    return sorted(re.sub(r" initval \S+", "", line) for line in text.splitlines())


CLUSTERS: list[Any] = [
    pytest.param(lambda path=path: recorded.cluster(recorded.load(path)), id=path.stem) for path in recorded.RECORDINGS
]


@pytest.mark.parametrize("make", [*CLUSTERS, pytest.param(everything, id="everything")])
def test_desired_state_matches_the_output_of_the_tools(make: Any, tmp_path: Path) -> None:
    state: State = make().state()
    state["sysctl"] = {}
    ledger = Ledger(str(tmp_path))
    execute(plan({}, state, {}), TABLES, ledger, "test")
    ledger.close()
    assert recorded.servers(sh("ipvsadm", "-Sn")) == recorded.servers(render(state, "ipvsadm"))
    assert members_sorted(sh("ipset", "save")) == members_sorted(render(state, "ipset"))
    assert plain(sh("iptables-save")) == render(state, "iptables").splitlines()
    assert plain(sh("ip6tables-save")) == render(state, "ip6tables").splitlines()
    assert recorded.addresses(sh("ip", "-j", "addr", "show", "dev", "kube-ipvs0")) >= set(
        render(state, "addresses").split()
    )
