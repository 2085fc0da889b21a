# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host and command of kubectl: inventories of Kubespray and others, with and without the roles' variables."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.kubectl_access import FilterModule

kubectl_access = FilterModule().filters()["kubectl_access"]
KUBESPRAY = {"all": ["n1", "n2"], "k8s_cluster": ["n1", "n2"], "kube_control_plane": ["n1"], "kube_node": ["n2"]}
ADMIN = ["--kubeconfig", "/etc/kubernetes/admin.conf"]
NOTHING: dict[str, Any] = {"command": [], "host": ""}


def test_kubespray_inventory_uses_root_of_a_control_plane_node() -> None:
    expected = {"argv": ["kubectl", *ADMIN], "host": "n1", "become": True, "kubespray": True}
    assert kubectl_access(KUBESPRAY, [NOTHING]) == expected
    in_directory = kubectl_access(KUBESPRAY, [NOTHING], bin_dir="/opt/bin")
    assert in_directory == {**expected, "argv": ["/opt/bin/kubectl", *ADMIN]}


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"all": ["n1"]},
        {"kube_control_plane": ["n1"]},
        {"k8s_cluster": ["n1"]},
        {**KUBESPRAY, "kube_control_plane": []},
    ],
)
def test_other_inventory_uses_the_controller(groups: dict[str, list[str]]) -> None:
    expected = {"argv": ["kubectl"], "host": "localhost", "become": False, "kubespray": False}
    assert kubectl_access(groups, [NOTHING], bin_dir="/opt/bin") == expected


def test_given_command_runs_on_the_default_host() -> None:
    access = kubectl_access(KUBESPRAY, [{"command": ["k", "--context", "x"], "host": ""}], bin_dir="/opt/bin")
    assert (access["argv"], access["host"], access["become"]) == (["k", "--context", "x"], "n1", True)
    access = kubectl_access({}, [{"command": ["k"]}])
    assert (access["argv"], access["host"], access["become"]) == (["k"], "localhost", False)


def test_given_host_runs_kubectl_of_its_own_user() -> None:
    access = kubectl_access(KUBESPRAY, [{"command": [], "host": "admin1"}], bin_dir="/opt/bin")
    assert access == {"argv": ["kubectl"], "host": "admin1", "become": False, "kubespray": True}


def test_first_choice_with_a_value_applies_as_a_whole() -> None:
    choices = [NOTHING, {"command": ["k"], "host": "h1"}, {"command": ["l"], "host": "h2"}]
    assert kubectl_access(KUBESPRAY, choices)["argv"] == ["k"]
    choices = [{"command": [], "host": "h1"}, {"command": ["l"], "host": ""}]
    access = kubectl_access(KUBESPRAY, choices)
    assert (access["argv"], access["host"]) == (["kubectl"], "h1")


def test_command_that_is_no_list_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a list of words"):
        kubectl_access({}, [{"command": "kubectl --context x", "host": ""}])
