# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory of Kubespray, as it is: the playbooks' hosts, and the agent's configuration."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
HOSTS = """
[kube_control_plane]
node1 ansible_connection=local

[etcd]
store1 ansible_connection=local

[kube_node]
node2 ansible_connection=local

[k8s_cluster:children]
kube_control_plane
kube_node
"""
# As in the sample of Kubespray: a value is a template of a variable that may not be there.
CLUSTER = """
kube_proxy_mode: ipvs
kube_proxy_scheduler: wrr
kube_proxy_strict_arp: true
kube_proxy_nodeport_addresses: >-
  {%- if kube_proxy_nodeport_addresses_cidr is defined -%}
  [{{ kube_proxy_nodeport_addresses_cidr }}]
  {%- else -%}
  []
  {%- endif -%}
bin_dir: /opt/bin
kube_service_addresses: 10.233.0.0/18
kube_pods_subnet: 10.233.64.0/18
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.agent
        tasks_from: nothing
        public: true
        rolespec_validate: false
    - ansible.builtin.copy:
        content: "{{ agent_config_text }}"
        dest: "{{ playbook_dir }}/{{ inventory_hostname }}.yaml"
        mode: "0644"
    - ansible.builtin.copy:
        content: "{{ [agent_kubectl_argv, agent_kubectl_on, agent_kubectl_as_root] | to_json }}"
        dest: "{{ playbook_dir }}/{{ inventory_hostname }}.kubectl"
        mode: "0644"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text(HOSTS)
    (tmp_path / "group_vars/k8s_cluster").mkdir(parents=True)
    (tmp_path / "group_vars/k8s_cluster/k8s-cluster.yml").write_text(CLUSTER)
    return tmp_path


def playbook(inventory: Path, *words: str | Path) -> str:
    variables = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection")}
    done = run_playbook(["-i", inventory / "hosts.ini", *words], ROOT, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["bootstrap", "migrate", "verify", "cleanup"])
def test_playbook_runs_on_the_nodes_of_the_cluster(inventory: Path, name: str) -> None:
    listed = playbook(inventory, "--list-hosts", f"kubenode.ipvs.{name}")
    assert set(listed.split()) & {"node1", "node2", "store1"} == {"node1", "node2"}
    chosen = playbook(inventory, "--list-hosts", "-e", "kubenode_hosts=etcd", f"kubenode.ipvs.{name}")
    assert set(chosen.split()) & {"node1", "node2", "store1"} == {"store1"}


def configuration(inventory: Path, host: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((inventory / f"{host}.yaml").read_text())
    return next(document for document in documents if document["kind"] == "KubeProxyConfiguration")


def test_agent_gets_the_variables_of_the_cluster(inventory: Path) -> None:
    role = inventory / "collections/ansible_collections/kubenode/ipvs/roles/agent"
    role.mkdir(parents=True)
    for name in ("defaults", "vars", "meta", "templates"):
        (role / name).symlink_to(ROOT / "roles/agent" / name)
    (role / "tasks").mkdir()
    (role / "tasks/nothing.yml").write_text("[]")
    for name in ("plugins", "meta", "galaxy.yml"):
        (role.parents[1] / name).symlink_to(ROOT / name)
    (inventory / "play.yml").write_text(PLAY)
    variables = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(inventory / "collections")}
    command = ["-i", str(inventory / "hosts.ini"), str(inventory / "play.yml")]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    settings = ["-e", '{"agent_proxy_config": {"ipvs": {"scheduler": "lc"}}}', "--limit", "node2"]
    for words in ([], settings):
        done = run_playbook([*command, *words], inventory, variables)
        assert done.returncode == 0, done.stdout + done.stderr
    fields = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "ipvs"}
    theirs = {"nodePortAddresses": [], "clusterCIDR": "10.233.64.0/18"}
    assert configuration(inventory, "node1") == {**fields, **theirs, "ipvs": {"scheduler": "wrr", "strictARP": True}}
    assert configuration(inventory, "node2") == {**fields, **theirs, "ipvs": {"scheduler": "lc", "strictARP": True}}
    assert configuration(inventory, "store1") == fields
    theirs = [["/opt/bin/kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"], "node1", True]
    assert json.loads((inventory / "node2.kubectl").read_text()) == theirs
