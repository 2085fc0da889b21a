# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule of the role prepare that keeps other machines away from 127.0.0.0/8, with real packets."""

from __future__ import annotations

import pytest
import yaml
from support.distributions.neighbours import ROLE
from support.traffic.cluster import HOST_PORT, Cluster
from support.traffic.conversation import SILENCE, Target, ask
from support.traffic.network import HOSTS, NODE


@pytest.fixture(scope="module")
def cluster(bare_cluster: Cluster) -> Cluster:
    return bare_cluster


def test_rule_of_role_prepare_protects_loopback(cluster: Cluster, intruder: str) -> None:
    """The rule of prepare_route_localnet protects a node without an agent."""
    rule = yaml.safe_load((ROLE / "vars/main.yml").read_text())["prepare_localnet_rule"].split()
    target = Target("127.0.0.1", HOST_PORT)
    cluster.run("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    cluster.run("iptables", "-I", "INPUT", *rule)
    try:
        assert ask(intruder, target, timeout=1) == SILENCE
        assert ask(NODE, target) == "host sees 127.0.0.1"
    finally:
        cluster.run("iptables", "-D", "INPUT", *rule)
    assert ask(intruder, target) == f"host sees {HOSTS[intruder].ip[4]}"
