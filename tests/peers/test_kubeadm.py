# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook kubeadm on two lab nodes: a cluster from nothing to nothing.

kubeadm, kubelet and the container runtime are real.

Run by ``pytest tests/peers/test_kubeadm.py --kubernetes=DIR``, as root, once ``make bundle`` has been. The nodes see
DIR as /opt/kubernetes, and run ``/opt/kubernetes/setup``, which does what packages would have done: kubeadm, kubectl
and a kubelet that is not enabled, a running container runtime, and in it the images that ``kubeadm config images list``
names, as nodes have no way out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.kubeadm.answers import GOLDEN

ROOT = Path(__file__).parents[2]
LAB = [str(ROOT / "molecule/lab/lab")]
NODES = ("cp1", "w1")
RESET = """
- hosts: all
  gather_facts: false
  serial: 1
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.kubeadm
        tasks_from: reset
"""
# A user-mode kernel tells no clock speed, without which no kubelet starts.
SETUP = """set -e
mkdir /opt/kubernetes
mount -t hostfs -o {directory} none /opt/kubernetes
(cat /proc/cpuinfo; echo 'cpu MHz : 1000.000') | grep . >/etc/cpuinfo
mount --bind /etc/cpuinfo /proc/cpuinfo
/opt/kubernetes/setup
"""
# ... and has one processor and no cpusets. It is slow.
VARIABLES = {
    "kubeadm_proxy": "agent",
    "kubeadm_ignore_preflight_errors": ["NumCPU", "SystemVerification"],
    "kubeadm_cni_manifest": str(GOLDEN / "manifest.yaml"),
    "kubeadm_node_config": {
        "timeouts": {
            "controlPlaneComponentHealthCheck": "20m0s",
            "kubeletHealthCheck": "20m0s",
            "tlsBootstrap": "20m0s",
            "discovery": "20m0s",
        }
    },
}
VERSION = """
import ssl, urllib.request
context = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
print(urllib.request.urlopen("https://10.96.0.1/version", context=context).read().decode())
"""
SECRETS = (r"\b[a-z0-9]{6}[.][a-z0-9]{16}\b", r"PRIVATE KEY", r"client-key-data: \S")
SAMPLE = {"abcdef.0123456789abcdef"}  # what kubeadm checks before there is a token


class Site:
    """The nodes, and the playbooks that are run on them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        inventory = yaml.safe_load(
            subprocess.run([*LAB, "inventory", "kubeadm"], check=True, capture_output=True).stdout
        )
        inventory["all"]["children"]["control_plane"] = {"hosts": {"cp1": {}}}
        inventory["all"]["vars"] = {**VARIABLES, "kubenode_hosts": "nodes"}
        (directory / "inventory.yml").write_text(yaml.safe_dump(inventory))
        (directory / "reset.yml").write_text(RESET)

    def on(self, node: str, *command: str, given: str = "") -> str:
        """Run a command on a node; return what it printed."""
        done = subprocess.run(
            [*LAB, "ssh", "kubeadm", node, *command], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done
        return done.stdout

    def play(self, playbook: str, *options: str) -> tuple[str, dict[str, int]]:
        """Run a playbook; return all that it printed, and how many tasks changed something, by node."""
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        command = [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            self.directory / "inventory.yml",
            playbook,
            *options,
        ]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        return text, {
            node: int(count) for node, count in re.findall(r"(?m)^(\S+) +: ok=\d+ +changed=(\d+)", done.stdout)
        }


@pytest.fixture
def site(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Site]:
    directory = pytestconfig.getoption("--kubernetes")
    assert directory, "tests/peers/test_kubeadm.py needs --kubernetes=DIR"
    nodes = [word for node in NODES for word in ("--node", f"{node}:bookworm")]
    subprocess.run([*LAB, "up", "kubeadm", *nodes, "--mem", "3G"], check=True)
    try:
        prepared = Site(tmp_path)
        for node in NODES:
            prepared.on(node, "sh", given=SETUP.format(directory=Path(directory).resolve()))
        yield prepared
    finally:
        subprocess.run([*LAB, "down", "kubeadm"], check=True)


def test_cluster_is_created_joined_and_reset(site: Site) -> None:
    playbook = str(ROOT / "playbooks/kubeadm.yml")
    dry, foreseen = site.play(playbook, "--check", "--diff")
    assert all(foreseen.values()), dry
    text, _ = site.play(playbook, "--diff", "-vvv")
    assert [word for secret in SECRETS for word in re.findall(secret, text) if word not in SAMPLE] == []

    # The agent serves the API that it follows, on the worker and on the control plane, as soon as it has started.
    for node in NODES:
        assert '"gitVersion"' in site.on(node, "python3", "-", given=VERSION)
        assert "10.96.0.1:443" in site.on(node, "ipvsadm", "--list", "--numeric")
    kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf".split()
    assert site.on("cp1", *kubectl, "get", "nodes", "--output", "name").split() == ["node/cp1", "node/w1"]
    assert "kube-proxy" not in site.on(
        "cp1", *kubectl, "get", "daemonsets", "--namespace", "kube-system", "--output", "name"
    )
    tokens = site.on("cp1", "kubeadm", "token", "list", "--output", "jsonpath={.token}").split()
    assert len(tokens) <= 1, "of init's own, there for kubeadm_token_ttl; those of joins are deleted"

    assert site.play(playbook)[1] == dict.fromkeys(NODES, 0)
    untaint = ["--extra-vars", "kubeadm_untaint_control_plane=true"]
    assert site.play(playbook, *untaint)[1] == {"cp1": 1, "w1": 0}
    assert site.play(playbook, *untaint)[1] == dict.fromkeys(NODES, 0)

    reset = str(site.directory / "reset.yml")
    _, foreseen = site.play(reset, "--check")
    assert site.play(reset)[1] == foreseen
    for node in NODES:
        assert (
            site.on(node, "find", "/etc/kubernetes", "/etc/kubenode", "/var/lib/etcd", "-type", "f", "||", "true") == ""
        )
        assert "10.96.0.1" not in site.on(node, "ipvsadm", "--list", "--numeric")
    assert site.play(reset)[1] == dict.fromkeys(NODES, 0)
