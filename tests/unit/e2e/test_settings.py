# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a run, and the files of its nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e import node_files, pod_network, settings
from e2e.errors import E2eError
from e2e.settings import Settings
from lab.state import Lab, Node


def lab(count: int) -> Lab:
    nodes = tuple(Node(f"node{index + 1}", index, "bookworm", "uml", "", "e2e") for index in range(count))
    return Lab("e2e", nodes, (), "3G")


def test_empty_variables_have_the_defaults(tmp_path: Path) -> None:
    chosen = settings.read({"KUBERNETES": str(tmp_path), "NODES": "", "FOCUS": ""})
    assert chosen == Settings(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("KUBERNETES", "", "KUBERNETES is empty"), ("NODES", "4", "expected 2 or 3"), ("KERNEL", "x", "expected uml or")],
)
def test_wrong_variable_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(E2eError, match=message):
        settings.read({"KUBERNETES": "/", name: value})


def test_two_nodes_have_one_family(tmp_path: Path) -> None:
    chosen = Settings(tmp_path)
    unit = node_files.kubelet_unit(chosen, lab(2).nodes[1])
    assert "--node-ip=10.77.0.12\n" in unit.replace(" ", "\n") + "\n"
    assert "--node-labels" not in unit
    assert chosen.pod_networks == "10.244.0.0/16"


def test_three_nodes_have_both_families_and_zones(tmp_path: Path) -> None:
    chosen = Settings(tmp_path, nodes=3)
    unit = node_files.kubelet_unit(chosen, lab(3).nodes[2])
    assert "--node-ip=10.77.0.13,fd77:6b6e::13" in unit
    assert "--node-labels=topology.kubernetes.io/zone=zone-c" in unit


def test_pod_networks_are_routed_to_the_other_nodes(tmp_path: Path) -> None:
    assert pod_network.routes(Settings(tmp_path), lab(2), but=1) == ["route replace 10.244.1.0/24 via 10.77.0.11"]
    assert pod_network.routes(Settings(tmp_path, nodes=3), lab(3), but=2)[-1] == (
        "-6 route replace fd00:10:244:2::/64 via fd77:6b6e::12"
    )


def test_cni_gives_an_address_of_each_network(tmp_path: Path) -> None:
    networks = Settings(tmp_path, nodes=3).pod_networks_of(0)
    bridge = json.loads(pod_network.cni_configuration(networks))["plugins"][0]
    assert [one["subnet"] for (one,) in bridge["ipam"]["ranges"]] == ["10.244.1.0/24", "fd00:10:244:1::/64"]
    assert bridge["hairpinMode"] is True


def test_files_are_below_the_root(tmp_path: Path) -> None:
    files = node_files.files(Settings(tmp_path), lab(2).nodes[0], "CA", "{}", "r/pause:3")
    assert not [path for path in files if path.startswith("/")]
    assert 'sandbox_image = "r/pause:3"' in files["etc/containerd/e2e.toml"][1]
