# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role agent makes the agent's credentials, in an inventory of Kubespray as it is. kubectl is a stand-in."""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.fakes.certificates import Authority
from support.playbooks import run_playbook

from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

ROOT = Path(__file__).parents[2]
HOSTS = """
[kube_control_plane]
cp1
[kube_node]
n1
[k8s_cluster:children]
kube_control_plane
kube_node
"""
PLAY = """
- hosts: n1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.agent
        tasks_from: {entry}
        public: true
    - ansible.builtin.include_role:
        name: kubenode.ipvs.agent
        tasks_from: source
    - ansible.builtin.debug:
        msg: >-
          decided {{{{ agent_makes_kubeconfig }}}} {{{{ agent_reads_api }}}} {{{{ 'kubernetes' in agent_config_text }}}}
"""
# The tasks of place.yml and user.yml that concern credentials: the others need a node.
CREDENTIALS = """
- ansible.builtin.include_tasks: rbac.yml
- ansible.builtin.include_tasks: credentials.yml
- ansible.builtin.include_tasks: user.yml
"""
SERVER = "https://127.0.0.1:6443"


class Site:
    """An inventory of Kubespray, a file in place of its cluster, and this machine as the node."""

    def __init__(self, directory: Path, collections: Path) -> None:
        self.directory = directory
        self.collections = collections
        self.state = directory / "cluster"
        self.kubelet = directory / "kubelet.conf"
        self.kubeconfig = directory / "kubeconfig"
        self.authority = Authority("kubernetes")
        (directory / "hosts.ini").write_text(HOSTS)
        (directory / "ca.crt").write_bytes(self.authority.pem)
        self.write_kubelet({"certificate-authority": "ca.crt"})

    def write_kubelet(self, cluster: dict[str, str]) -> None:
        """Write the kubelet's kubeconfig with fields of its cluster."""
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": SERVER, **cluster}}],
            "users": [{"name": "u", "user": {"client-key-data": "private-key-of-kubelet"}}],
        }
        self.kubelet.write_text(json.dumps(document))

    def play(
        self,
        *options: str,
        entry: str = "only_credentials",
        variables: dict[str, Any] | None = None,
        **environment: str,
    ) -> tuple[int, str]:
        """Run tasks of the role; return the exit status and the output in one line."""
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_become_user": getpass.getuser(),
            "agent_kubectl": [str(ROOT / "tests/support/fakes/kubectl_secret")],
            "agent_kubelet_kubeconfig": str(self.kubelet),
            "agent_kubeconfig_file": str(self.kubeconfig),
            "agent_user": getpass.getuser(),
            "agent_installed": {"needs": "nothing", "changed_files": []},
            "agent_secret_seconds": 3,
            **(variables or {}),
        }
        (self.directory / "play.yml").write_text(PLAY.format(entry=entry))
        done = run_playbook(
            ["--inventory=hosts.ini", "--extra-vars", json.dumps(given), "play.yml", "--diff", *options],
            self.directory,
            {
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PIPELINING": "1",
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
                "FAKE_CLUSTER": str(self.state),
                **environment,
            },
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def calls(self) -> list[str]:
        """Return the verbs that kubectl got since the last call of this method."""
        path = Path(f"{self.state}.calls")
        verbs = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return verbs

    def secrets(self) -> list[str]:
        return sorted(json.loads(self.state.read_text()).keys() - {"rbac"}) if self.state.exists() else []


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the role as it is, and one more file of tasks."""
    directory = tmp_path_factory.mktemp("collections")
    role = directory / "ansible_collections/kubenode/ipvs/roles/agent"
    (role / "tasks").mkdir(parents=True)
    for name in ("defaults", "vars", "meta", "templates", "files"):
        (role / name).symlink_to(ROOT / "roles/agent" / name)
    for file in (ROOT / "roles/agent/tasks").iterdir():
        (role / "tasks" / file.name).symlink_to(file)
    (role / "tasks/only_credentials.yml").write_text(CREDENTIALS)
    for name in ("plugins", "meta", "galaxy.yml"):
        (role.parents[1] / name).symlink_to(ROOT / name)
    return directory


@pytest.fixture
def site(tmp_path: Path, collections: Path) -> Site:
    return Site(tmp_path, collections)


def test_credentials_are_predicted_made_once_and_revoked(site: Site) -> None:
    status, text = site.play("--check")
    assert (status, "changed=3 " in text, site.kubeconfig.exists()) == (0, True, False), text
    assert (site.calls(), site.secrets()) == (["diff", "get", "create dry"], [])

    status, text = site.play("-vvv", FAKE_TOKEN_AFTER="2")
    assert (status, "changed=4 " in text) == (0, True), text
    assert site.calls() == ["diff", "apply", "get", "create", "get", "get"]
    assert site.secrets() == ["kubenode-agent-token-n1"]
    access = Kubeconfig(str(site.kubeconfig)).access()
    assert access.identity.token == "token-of-kubenode-agent-token-n1"
    assert access.authority.strip() == site.authority.pem.decode().strip()
    assert SERVER in site.kubeconfig.read_text()
    assert site.kubeconfig.stat().st_mode & 0o777 == 0o640
    for secret in ("token-of-", "private-key-of-kubelet"):
        assert secret not in text

    status, text = site.play()
    assert (status, "changed=0 " in text, site.calls()) == (0, True, ["diff", "get", "get"]), text
    status, text = site.play("--check")
    assert (status, "changed=0 " in text, site.calls()) == (0, True, ["diff", "get"]), text

    status, text = site.play("--check", entry="revoke")
    assert (status, "changed=1 " in text, len(site.secrets())) == (0, True, 1), text
    status, text = site.play(entry="revoke")
    assert (status, "changed=1 " in text, site.secrets()) == (0, True, []), text
    status, text = site.play(entry="revoke")
    assert (status, "changed=0 " in text) == (0, True), text


def test_new_secret_after_a_revoked_token_is_written(site: Site) -> None:
    assert site.play()[0] == 0
    site.state.unlink()
    site.write_kubelet({"certificate-authority-data": "QQ==", "tls-server-name": "api"})
    assert site.play()[0] == 0
    assert "tls-server-name: api" in site.kubeconfig.read_text()


def test_revocation_without_a_cluster_is_reported(site: Site) -> None:
    status, text = site.play(entry="revoke", FAKE_REFUSED="delete")
    assert (status, "changed=0 " in text) == (0, True), text
    assert "The Secret kube-system/kubenode-agent-token-n1, whose token the agent of n1 used, was not deleted" in text


@pytest.mark.parametrize(
    ("verb", "reason"), [("get", "could not read the Secret"), ("create", "could not create the Secret")]
)
def test_refusal_of_the_api_names_the_variables(site: Site, verb: str, reason: str) -> None:
    status, text = site.play(FAKE_REFUSED=verb)
    assert (status, site.kubeconfig.exists()) == (2, False), text
    assert reason in text
    assert "(Forbidden)" in text
    assert "Set agent_kubectl and agent_rbac_host" in text


def test_missing_kubectl_is_named(site: Site) -> None:
    status, text = site.play(variables={"agent_kubectl": ["no-such-kubectl"]})
    assert status == 2, text
    assert "no-such-kubectl on cp1 could not grant the agent access to the Kubernetes API (agent_credentials)" in text
    assert "agent_kubectl and agent_rbac_host set the command and its host" in text


def test_secret_without_a_token_fails(site: Site) -> None:
    status, text = site.play(FAKE_TOKEN_AFTER="never")
    assert (status, site.kubeconfig.exists()) == (2, False), text
    assert "The Secret kube-system/kubenode-agent-token-n1 has no token after 3 seconds" in text
    assert "or set agent_kubeconfig" in text


def test_secret_of_another_type_is_refused(site: Site) -> None:
    secret = {"object": {"type": "Opaque", "metadata": {}}, "gets": 0}
    site.state.write_text(json.dumps({"kubenode-agent-token-n1": secret}))
    status, text = site.play()
    assert (status, site.kubeconfig.exists()) == (2, False), text
    assert "has type Opaque, expected kubernetes.io/service-account-token: delete it" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "is not readable"), ("private-key-of-kubelet", "names no API server"), ("[private-key", "is not YAML")],
)
def test_kubeconfig_of_kubelet_that_helps_nothing_is_named(site: Site, content: str | None, reason: str) -> None:
    site.kubelet.unlink()
    if content is not None:
        site.kubelet.write_text(content)
    status, text = site.play()
    assert (status, site.kubeconfig.exists()) == (2, False), text
    assert reason in text
    assert str(site.kubelet) in text
    assert "private-key" not in text


@pytest.mark.parametrize(
    ("variables", "makes", "reads"),
    [
        ({}, True, True),
        ({"agent_credentials": "none"}, False, False),
        ({"agent_kubeconfig": "x"}, False, True),
        ({"agent_settings": {"source": {"manifests": {"directory": "/m"}}}}, False, False),
        ({"agent_settings": {"source": {"kubernetes": {}}}}, False, True),
    ],
)
def test_credentials_are_made_if_none_are_given(
    site: Site, variables: dict[str, Any], makes: bool, reads: bool
) -> None:
    status, text = site.play(entry="source", variables=variables)
    assert (status, f"decided {makes} {reads} {reads}" in text) == (0, True), text


def test_other_inventories_make_credentials_on_request(site: Site) -> None:
    (site.directory / "hosts.ini").write_text("n1\n")
    status, text = site.play(entry="source")
    assert (status, "decided False False False" in text) == (0, True), text
    status, text = site.play(entry="source", variables={"agent_credentials": "make"})
    assert (status, "decided True True True" in text) == (0, True), text
