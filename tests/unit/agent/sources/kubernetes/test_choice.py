# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source that the configuration selects, for the agent and for the commands that work without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes.apiserver import FakeApiServer

from kubenode.cli.desired import usual_objects
from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.engine.desired.settings import Config
from kubenode.log import Log
from kubenode.manifests.directory import Manifests
from kubenode.sources.kubernetes.source import Kubernetes

Configure = Callable[..., DesiredState]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    from kubenode.engine.desired.node_facts import NodeFacts

    monkeypatch.setattr("kubenode.daemon.inputs.desired_state.facts", lambda name: NodeFacts(name, (), ("192.0.2.1",)))
    made: list[DesiredState] = []

    def start(source: dict[str, Any] | None, manifests: str = "", **kube_proxy: Any) -> DesiredState:
        file = tmp_path / "config.yaml"
        documents: list[dict[str, Any]] = [
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "ipvs",
                **kube_proxy,
            }
        ]
        if source is not None:
            documents.append({"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration", "source": source})
        file.write_text("\n".join(map(json.dumps, documents)))
        if not made:
            made.append(
                DesiredState(
                    Options(str(file), True, manifests, "", str(tmp_path), "node1", False), Log("error", write=str)
                )
            )
        made[0].configure()
        return made[0]

    yield start
    for wanted in made:
        wanted.close()


def test_source_is_manifests_by_default(configure: Configure) -> None:
    """kubeadm's ConfigMap names a kubeconfig in every cluster, so a kubeconfig alone does not select the API."""
    source = configure(None, clientConnection={"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}).source
    assert isinstance(source, Manifests)


def test_source_is_the_api_of_kube_proxy_kubeconfig(configure: Configure, tmp_path: Path) -> None:
    source = configure({"kubernetes": {}}, clientConnection={"kubeconfig": str(tmp_path / "none")}).source
    assert isinstance(source, Kubernetes)
    assert f"({tmp_path}/none, node node1)" in source.path


def test_reload_replaces_only_a_changed_api(configure: Configure, tmp_path: Path, fake: FakeApiServer) -> None:
    first = configure({"kubernetes": {"kubeconfig": str(tmp_path / "a"), "server": fake.url}}).source
    again = configure(
        {"kubernetes": {"kubeconfig": str(tmp_path / "a"), "server": fake.url}}, ipvs={"scheduler": "wrr"}
    ).source
    assert again is first
    other = configure({"kubernetes": {"kubeconfig": str(tmp_path / "b"), "server": fake.url}}).source
    assert other is not first
    assert isinstance(first, Kubernetes)
    assert not any(reflector.is_alive() for reflector in first._reflectors)


def test_manifests_option_overrides_the_configuration(configure: Configure, tmp_path: Path) -> None:
    source = configure({"kubernetes": {}}, str(tmp_path)).source
    assert isinstance(source, Manifests)
    assert source.path == str(tmp_path)


def test_commands_without_agent_read_the_snapshot() -> None:
    assert usual_objects(Config()) == "/etc/kubenode/manifests"
    assert usual_objects(Config(source="kubernetes")) == "/var/lib/kubenode/agent/objects"
