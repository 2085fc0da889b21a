# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role agent with agent_method: daemonset, by a real ansible-playbook.

A real kubectl builds the kustomization. The cluster is a stand-in.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.containers import kubectl
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
KUBECTL = ROOT / "tests/support/fakes/kubectl_kustomize"
PLAY = "- {hosts: all, gather_facts: false, roles: [kubenode.ipvs.agent]}\n"
APPLIED = ["diff", "apply", "rollout"]


class Cluster:
    """A file in place of a cluster, and a node that is this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "cluster"
        self.unit = directory / "kubenode-agent.service"
        (directory / "play.yml").write_text(PLAY)
        (directory / "tmp").mkdir()

    def play(self, *options: str, rollout: str = "", secrets: str = "", **variables: Any) -> tuple[int, str]:
        """Run the role; return the exit status and the output in one line."""
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "agent_method": "daemonset",
            "agent_kubectl": [sys.executable, str(KUBECTL)],
            "agent_unit_file": str(self.unit),
            **variables,
        }
        done = run_playbook(
            ["--inventory=n1,", "--extra-vars", json.dumps(given), "play.yml", *options],
            self.directory,
            {
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PIPELINING": "1",
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
                "FAKE_CLUSTER": str(self.state),
                "FAKE_ROLLOUT": rollout,
                "FAKE_SECRETS": secrets,
                "REAL_KUBECTL": str(kubectl.program()),
                "TMPDIR": str(self.directory / "tmp"),
            },
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def calls(self) -> list[str]:
        """Return the verbs that kubectl got since the last call of this method."""
        path = Path(f"{self.state}.calls")
        verbs = [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return verbs

    def objects(self) -> dict[str, Any]:
        """Return the cluster's objects by kind and name."""
        return dict(json.loads(self.state.read_text()))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_daemonset_is_predicted_applied_once_and_deleted(cluster: Cluster) -> None:
    settings = {"agent_settings": {"rules": {"backend": "nftables"}}, "agent_image": "registry.example/agent:1"}
    status, text = cluster.play("--check", **settings)
    assert (status, "changed=1 " in text, cluster.state.exists(), cluster.calls()) == (0, True, False, ["diff"]), text
    status, text = cluster.play(**settings)
    assert (status, "changed=1 " in text, cluster.calls()) == (0, True, APPLIED), text
    applied = cluster.objects()
    configuration = yaml.safe_load(applied["ConfigMap/kubenode-agent"]["data"]["agent.yaml"])
    assert configuration["rules"] == {"backend": "nftables"}
    assert configuration["source"] == {"kubernetes": {}}
    pod = applied["DaemonSet/kubenode-agent"]["spec"]["template"]["spec"]
    assert {box["image"] for box in (*pod["containers"], *pod["initContainers"])} == {"registry.example/agent:1"}
    assert pod["nodeSelector"]["kubenode.ipvs/proxy"] == "daemonset"

    status, text = cluster.play(**settings)
    assert (status, "changed=0 " in text, cluster.calls()) == (0, True, ["diff", "rollout"]), text
    assert cluster.play()[0] == 0
    changed = cluster.objects()["DaemonSet/kubenode-agent"]["spec"]["template"]
    assert (
        changed["metadata"]["annotations"]
        != applied["DaemonSet/kubenode-agent"]["spec"]["template"]["metadata"]["annotations"]
    )

    status, text = cluster.play("--check", agent_state="absent")
    assert (status, "changed=1 " in text, bool(cluster.objects())) == (0, True, True), text
    assert cluster.play(agent_state="absent")[0] == 0
    status, text = cluster.play(agent_state="absent")
    assert (status, "changed=0 " in text, cluster.objects()) == (0, True, {}), text
    assert list((cluster.directory / "tmp").iterdir()) == []


def test_removal_keeps_the_rights_that_units_use(cluster: Cluster) -> None:
    assert cluster.play()[0] == 0
    status, text = cluster.play(agent_state="absent", secrets="secret/kubenode-agent-token-n1")
    assert status == 0, text
    kept = {f"{kind}/kubenode-agent" for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")}
    assert set(cluster.objects()) == kept


def test_proxy_config_joins_the_overlay_that_has_its_own(cluster: Cluster) -> None:
    proxy = {"clusterCIDR": "10.1.0.0/16", "ipvs": {"scheduler": "wrr"}}
    status, text = cluster.play(agent_proxy_config=proxy)
    assert (status, cluster.calls()) == (2, []), text
    assert "the overlay kubeadm uses the cluster's ConfigMap kube-proxy as it is" in text
    status, text = cluster.play(agent_proxy_config=proxy, agent_overlay="k3s")
    assert status == 0, text
    written = yaml.safe_load(cluster.objects()["ConfigMap/kubenode-agent-proxy"]["data"]["config.conf"])
    assert (written["clusterCIDR"], written["ipvs"]) == ("10.1.0.0/16", {"scheduler": "wrr"})
    assert written["clientConnection"] == {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}


def test_daemonset_is_refused_where_the_unit_is(cluster: Cluster) -> None:
    cluster.unit.write_text("[Unit]\n")
    status, text = cluster.play()
    assert (status, cluster.calls()) == (2, []), text
    assert "kubenode-agent.service is on n1, and two agents would undo each other's work" in text


def test_rollout_that_does_not_end_fails_with_its_reason(cluster: Cluster) -> None:
    status, text = cluster.play(rollout="error: timed out waiting for the condition")
    assert (status, cluster.calls()) == (2, APPLIED), text
    assert "error: timed out waiting for the condition. kubectl --namespace kube-system logs" in text
    assert list((cluster.directory / "tmp").iterdir()) == []
