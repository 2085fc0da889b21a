# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a DaemonSet off labelled nodes, with any affinity, and only once."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.keep_off import FilterModule

keep_off = FilterModule().filters()["keep_off"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AWAY = {"key": "kubenode.ipvs/proxy", "operator": "NotIn", "values": ["agent"]}
LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
ONE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def daemonset(affinity: Any) -> dict[str, Any]:
    return {"kind": "DaemonSet", "spec": {"template": {"spec": {"affinity": affinity}}}}


def terms(patch: dict[str, Any]) -> Any:
    return patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


@pytest.mark.parametrize(
    "affinity", [None, {}, {"nodeAffinity": None}, {"podAffinity": {"x": 1}}, {"nodeAffinity": {REQUIRED: {}}}]
)
def test_patch_adds_affinity_to_a_daemonset_without_one(affinity: Any) -> None:
    patch = keep_off(daemonset(affinity), "kubenode.ipvs/proxy", "agent")
    assert terms(patch) == [{"matchExpressions": [AWAY]}]
    assert keep_off(daemonset(patch["spec"]["template"]["spec"]["affinity"]), "kubenode.ipvs/proxy", "agent") == {}


def test_every_term_excludes_the_node_and_keeps_what_it_had() -> None:
    given = [{"matchExpressions": [LINUX]}, {"matchFields": [ONE]}, {"matchExpressions": [LINUX, AWAY]}]
    patch = keep_off(
        daemonset({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": given}}}), "kubenode.ipvs/proxy", "agent"
    )
    assert terms(patch) == [
        {"matchExpressions": [LINUX, AWAY]},
        {"matchFields": [ONE], "matchExpressions": [AWAY]},
        {"matchExpressions": [LINUX, AWAY]},
    ]


def test_term_that_excludes_every_value_stays() -> None:
    term = {"matchExpressions": [{"key": "kubenode.ipvs/proxy", "operator": "DoesNotExist"}]}
    given = daemonset({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    assert keep_off(given, "kubenode.ipvs/proxy", "agent") == {}


def test_other_objects_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a DaemonSet"):
        keep_off({"kind": "Service", "spec": {}}, "a", "b")
