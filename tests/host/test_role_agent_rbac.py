# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role agent gives the agent access to the API. kubectl is a fake; no other part of the role runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.agent
        tasks_from: rbac
"""


class Cluster:
    """A file in place of a cluster, and three nodes that need access."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "cluster"
        (directory / "play.yml").write_text(PLAY)

    def play(
        self, *options: str, kubectl: str = str(ROOT / "tests/support/fakes/kubectl"), **environment: str
    ) -> tuple[int, str]:
        """Run the play; return the exit status and the output."""
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "agent_kubectl": [kubectl, "--context", "there"],
        }
        done = run_playbook(
            ["--inventory=n1,n2,n3,", "--extra-vars", json.dumps(given), "play.yml", *options],
            self.directory,
            {
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",  # YAML folds long lines
                "FAKE_CLUSTER": str(self.state),
                **environment,
            },
        )
        return done.returncode, done.stdout + done.stderr

    def calls(self) -> list[str]:
        """Return the calls of kubectl, by verb."""
        path = Path(f"{self.state}.calls")
        return [line.split()[2] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_rbac_is_predicted_applied_once_and_then_unchanged(cluster: Cluster) -> None:
    status, text = cluster.play("--check")
    assert status == 0, text
    assert "changed=1 " in text
    assert cluster.calls() == ["diff"]
    status, text = cluster.play()
    assert status == 0, text
    assert cluster.calls() == ["diff", "diff", "apply"]
    assert cluster.state.read_text() == (ROOT / "roles/agent/files/rbac.yaml").read_text().rstrip("\n") + "\n"
    status, text = cluster.play()
    assert status == 0, text
    assert "changed=1 " not in text
    assert cluster.calls() == ["diff", "diff", "apply", "diff"]


def test_missing_kubectl_is_named(cluster: Cluster) -> None:
    status, text = cluster.play(kubectl="no-such-kubectl")
    assert status != 0
    assert (
        "no-such-kubectl --context there on localhost could not grant the agent access to the Kubernetes API"
        in " ".join(text.split())
    )
    assert "the command does not exist; agent_kubectl and agent_rbac_host set the command and its host" in " ".join(
        text.split()
    )


def test_refusal_of_the_api_is_shown(cluster: Cluster) -> None:
    refusal = 'Error from server (Forbidden): clusterroles is forbidden: User "me" cannot get resource'
    status, text = cluster.play(FAKE_REFUSAL=refusal)
    assert status != 0
    assert refusal in " ".join(text.replace('\\"', '"').split())
