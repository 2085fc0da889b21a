# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendered tables of nftables in this machine's kernel: ``nft`` loads them, and lists the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clusters.random_cluster import FACTS, RandomCluster
from support.kube_proxy import recorded
from support.processes.namespace import fresh, sh
from support.tables.nft_listing import normal

from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.nft_state import nft_state
from kubenode.engine.desired.settings import Config
from kubenode.engine.model import State
from kubenode.engine.render import render

EVERYTHING = ("0.0.0.0/0", "::/0", "127.0.0.0/8", "10.99.0.0/16", "203.0.113.0/24")
CONFIGS = (
    Config(allowed_external_ips=EVERYTHING, allowed_load_balancer_ips=EVERYTHING, masquerade_bit=0),
    Config(
        vip_ping=True,
        localhost_node_ports=True,
        no_endpoints="reject",
        cluster_cidrs=("10.244.0.0/16", "fd00:244::/32"),
    ),
    Config(detect_local_mode="BridgeInterface", bridge_interface="cni0", localhost_node_ports=True),
    Config(detect_local_mode="InterfaceNamePrefix", interface_name_prefix="cali", masquerade_bit=30),
    Config(vip_binding="routes", service_cidrs=("10.96.0.0/16", "fd00::/112"), masquerade_all=True),
)
OTHER = "table ip other {\n\tchain c {\n\t\taccept\n\t}\n}\n"


def listing() -> list[str]:
    return [sh("nft", "list", "table", family, "kubenode") for family in ("ip", "ip6")]


def check(state: State, directory: Path) -> None:
    """Load the state twice beside another table, and compare the listings with the text."""
    file = directory / "rules.nft"
    file.write_text(render(nft_state(state), "nft"))
    fresh()
    sh("nft", "-f", "-", text=OTHER)
    sh("nft", "-c", "-f", str(file))
    assert sh("nft", "list", "ruleset") == OTHER
    for _time in range(2):
        sh("nft", "-f", str(file))
        listed = listing()
        assert normal("".join(listed)) == normal(file.read_text())
        assert sh("nft", "list", "table", "ip", "other") == OTHER
    # a listing is a file that nft loads, with the same result
    sh("nft", "-f", "-", text="".join(["flush ruleset\n", *listed]))
    assert [*map(normal, listing())] == [*map(normal, listed)]


@pytest.mark.parametrize("path", recorded.RECORDINGS, ids=lambda path: path.stem)
def test_recorded_state_is_loaded_and_listed(path: Path, tmp_path: Path) -> None:
    check(recorded.cluster(recorded.load(path)).state(), tmp_path)


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@pytest.mark.parametrize("seed", range(4))
def test_random_state_is_loaded_and_listed(config: Config, seed: int, tmp_path: Path) -> None:
    cluster = Cluster(config, FACTS[0])
    for what, value in RandomCluster(seed).events(60):
        if what == "put":
            cluster.put(value)
    state = cluster.state()
    assert len(state["member"]) > 10
    check(state, tmp_path)
