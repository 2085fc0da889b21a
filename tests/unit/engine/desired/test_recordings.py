# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that kube-proxy made for random clusters in a real kernel equal the desired state, table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.kube_proxy import recorded

from kubenode.engine.model import State
from kubenode.engine.render import render


@pytest.fixture(scope="module", params=recorded.RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    return recorded.load(path)


@pytest.fixture(scope="module")
def state(recording: dict[str, Any]) -> State:
    cluster = recorded.cluster(recording)
    assert cluster.problems == {}
    return cluster.state()


def test_recordings_exist() -> None:
    assert len(recorded.RECORDINGS) >= 8


def test_virtual_servers_match_the_recording(recording: dict[str, Any], state: State) -> None:
    wanted = recorded.servers(recording["state"]["ipvs"])
    assert len(wanted) > 10
    assert recorded.servers(render(state, "ipvsadm")) == wanted


def test_sets_match_the_recording(recording: dict[str, Any], state: State) -> None:
    headers, members = recorded.sets(recording["state"]["ipset"])
    assert len(headers) == 34
    ours = recorded.sets(render(state, "ipset"))
    assert ours[0] == headers
    assert ours[1] == members


@pytest.mark.parametrize(("fmt", "key"), [("iptables", "v4"), ("ip6tables", "v6")])
def test_rules_match_the_recording(recording: dict[str, Any], state: State, fmt: str, key: str) -> None:
    assert recorded.rules(render(state, fmt)) == recorded.rules(recording["state"][key])


@pytest.mark.parametrize(("fmt", "key"), [("iptables", "v4"), ("ip6tables", "v6")])
def test_rendered_rules_match_the_recording(recording: dict[str, Any], state: State, fmt: str, key: str) -> None:
    """Compare tables, chains and rules in their order, without comments, counters and the empty table."""
    lines = [line for line in recording["state"][key].splitlines() if not line.startswith("#")]
    lines = lines[lines.index("*filter") :]
    plain = [
        line.split(" [")[0] if line.startswith(":") else line for line in lines if "-A KUBE-IPVS-OUT-FILTER" not in line
    ]
    ours = [line.split(" [")[0] if line.startswith(":") else line for line in render(state, fmt).splitlines()]
    assert [line for line in ours if "-A KUBE-IPVS-OUT-FILTER" not in line] == plain


def test_addresses_match_the_recording(recording: dict[str, Any], state: State) -> None:
    assert set(render(state, "addresses").split()) == recorded.addresses(recording["state"]["addr"])
