# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role kubeadm installs the agent instead of kube-proxy, and never both."""

from __future__ import annotations

import json
import os
import time

import yaml
from support.kubeadm.answers import said
from support.kubeadm.site import NODES, Site


def test_agent_replaces_kube_proxy_in_a_kubeadm_cluster(site: Site) -> None:
    variables = {
        "kubeadm_agent": True,
        "kubeadm_proxy": "agent",
        "kubeadm_ipvs_scheduler": "wrr",
        "kubeadm_node_name": "one",
    }
    first = site.run("--limit", "n1", "--diff", "-vvv", **variables)
    assert first.status == 0, first.text
    agent = json.loads((site.directory / "n1/agent.json").read_text())
    assert (agent["proxy_config"]["ipvs"]["scheduler"], agent["proxy_config"]["hostnameOverride"]) == ("wrr", "one")
    kubeconfig = site.directory / "n1/kubeconfig"
    assert agent["settings"] == {"source": {"kubernetes": {"kubeconfig": str(kubeconfig)}}}
    assert kubeconfig.read_text() == said("kubeconfig-user").rstrip() + "\n"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(said("kubeconfig-user"))["users"][0]["user"]["client-key-data"] not in first.text
    built = site.documents("n1", "init")
    assert built["InitConfiguration"]["skipPhases"] == ["addon/kube-proxy"]
    assert built["ClusterConfiguration"]["proxy"] == {"disabled": True}

    # The certificate of the agent's kubeconfig is valid for a year. The role renews it when 250 days have passed.
    for days, made in ((240, 0), (260, 1), (1, 0)):
        long_ago = time.time() - days * 86400
        os.utime(kubeconfig, (long_ago, long_ago))
        site.calls("n1")
        assert site.run("--limit", "n1", **variables).status == 0
        assert sum(call.startswith("kubeadm kubeconfig user ") for call in site.calls("n1")) == made

    foreseen = site.run("--limit", "n1", "--check", tasks_from="reset")
    reset = site.run("--limit", "n1", tasks_from="reset")
    assert (reset.status, reset.changed) == (0, foreseen.changed)
    assert site.files() == []
    assert not (site.directory / "n1/agent.json").exists()


def test_each_node_has_its_own_user_and_binding(site: Site) -> None:
    """One user and binding for each node let an operator revoke one node's rights alone."""
    for node, name in (("n1", "kubenode-agent:n1"), ("w1", "kubenode-agent:w1")):
        done = site.run("--limit", node, kubeadm_agent=True, kubeadm_proxy="agent")
        assert done.status == 0, done.text
        assert [call.split()[4] for call in site.calls(node) if call.startswith("kubeadm kubeconfig user ")] == [name]
        binding = site.documents(node, "apply")["ClusterRoleBinding"]
        assert binding["metadata"]["name"] == name
        assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]
        assert binding["roleRef"]["name"] == "system:node-proxier"


def test_agent_of_other_node_gets_address_of_first(site: Site) -> None:
    inventory = yaml.safe_load((site.directory / "inventory.yml").read_text())
    for number, name in enumerate(NODES, start=11):
        inventory["all"]["hosts"][name]["kubeadm_advertise_address"] = f"192.0.2.{number}"
    (site.directory / "inventory.yml").write_text(yaml.safe_dump(inventory))
    for node in ("n1", "w1"):
        done = site.run("--limit", node, kubeadm_agent=True, kubeadm_proxy="agent", kubeadm_control_plane_endpoint="")
        assert done.status == 0, done.text
        asked = site.documents(node, "kubeconfig-user")
        assert asked["InitConfiguration"]["localAPIEndpoint"]["advertiseAddress"] == "192.0.2.11"


def test_role_refuses_the_agent_beside_kube_proxy(site: Site) -> None:
    (site.directory / "n1/kube-proxy").touch()
    refused = site.run("--limit", "n1", fake_version="v1.40.0", kubeadm_agent=True)
    assert refused.status == 2
    assert "kube-proxy runs in this cluster, and the agent does not work beside it." in refused.text
    assert not (site.directory / "n1/agent.json").exists()
