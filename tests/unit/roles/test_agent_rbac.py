# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of the agent's rights in the API allows exactly the agent's requests."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import yaml

from kubenode.sources.kubernetes import event_recorder as events
from kubenode.sources.kubernetes.objects import resources

MANIFEST = Path(__file__).resolve().parents[3] / "roles/agent/files/rbac.yaml"


def items() -> dict[str, Any]:
    return {item["kind"]: item for item in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["items"]}


def group_and_resource(path: str) -> tuple[str, str]:
    """Return group and resource of an API path."""
    parts = path.strip("/").split("/")
    return ("" if parts[0] == "api" else parts[1]), parts[-1]


def test_rules_match_the_requests_of_the_agent() -> None:
    asked = {
        (*group_and_resource(resource.path), verb) for resource in resources("node1") for verb in ("list", "watch")
    }
    posted = re.findall(r'f"(/apis?/[^"]+)"', inspect.getsource(events))
    asked |= {(*group_and_resource(path), "create") for path in posted}
    allowed = {
        (group, resource, verb)
        for rule in items()["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == asked


def test_rules_have_no_other_fields() -> None:
    for rule in items()["ClusterRole"]["rules"]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        assert "*" not in str(rule)


def test_binding_is_for_the_agent_only() -> None:
    account = items()["ServiceAccount"]["metadata"]
    binding = items()["ClusterRoleBinding"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert binding["roleRef"]["name"] == items()["ClusterRole"]["metadata"]["name"]


def test_manifest_has_no_credential() -> None:
    """A token in the manifest would be the same for all nodes, and would not expire."""
    assert items().keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert items()["ServiceAccount"]["automountServiceAccountToken"] is False
