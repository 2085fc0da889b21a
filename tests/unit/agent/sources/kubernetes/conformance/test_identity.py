# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identity and rights of the agent: rotating tokens, credential plugins, untrusted servers.

The role's manifest grants the rights that the agent needs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.agent.watched_source import NODES, SERVICES, SLICES, WatchedSource
from support.clusters.cluster import Cluster, node, service
from support.fakes.apiserver_answers import Object
from support.fakes.certificates import Authority

from kubenode.manifests.documents import ObjectKey
from kubenode.sources.kubernetes.access import Identity
from kubenode.sources.kubernetes.credentials import Plugin

Follow = Callable[..., WatchedSource]
MANIFEST = Path(__file__).resolve().parents[6] / "roles/agent/files/rbac.yaml"
PLUGIN = "client.authentication.k8s.io/v1"


def account(cluster: Cluster) -> str:
    """Create a service account without any rights; return its name."""
    item = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": cluster.run, "namespace": "default"}}
    cluster.create(item)
    return cluster.run


def bind(cluster: Cluster, role: str) -> None:
    """Bind the service account to a ClusterRole."""
    name = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": cluster.run, "namespace": "default"}
    reference = {"apiGroup": name, "kind": "ClusterRole", "name": role}
    made = {"apiVersion": f"{name}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": cluster.run}}
    cluster.create({**made, "subjects": [subject], "roleRef": reference})


def manifests_role(cluster: Cluster) -> str:
    """Create the manifest's ClusterRole under a name of this run."""
    items = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["items"]
    (role,) = [item for item in items if item["kind"] == "ClusterRole"]
    cluster.create({**role, "metadata": {"name": cluster.run}})
    return cluster.run


def one_with_rights(cluster: Cluster) -> str:
    name = account(cluster)
    bind(cluster, "system:node-proxier")
    return cluster.token("default", name)


@pytest.mark.parametrize("role", ["the manifest's", "system:node-proxier"])
def test_role_is_sufficient(cluster: Cluster, follow: Follow, role: str) -> None:
    name = account(cluster)
    bind(cluster, manifests_role(cluster) if role == "the manifest's" else role)
    cluster.create(node(name))
    cluster.create(service(name))
    cluster.accessor.identity = Identity(token=cluster.token("default", name))
    watched = follow(name).complete()
    assert watched.source.problems == {}
    assert ObjectKey("Node", "", name) in watched.held
    watched.source.report({("Service", f"default/{name}"): ("spec.ports is wrong",)})
    watched.until(lambda: len(cluster.events("default", name)) == 2, 20)
    assert watched.source._events is not None
    assert watched.source._events.dropped == 0
    by_kind: dict[str, Object] = {event["regarding"]["kind"]: event for event in cluster.events("default", name)}
    assert (by_kind["Service"]["reason"], by_kind["Service"]["note"]) == ("CannotServe", "spec.ports is wrong")
    assert (
        by_kind["Service"]["regarding"]["uid"]
        == cluster.get(f"/api/v1/namespaces/default/services/{name}")["metadata"]["uid"]
    )
    assert (by_kind["Node"]["reason"], by_kind["Node"]["type"]) == ("Starting", "Normal")
    assert by_kind["Node"]["reportingController"] == "kubenode-agent"


def test_user_without_permission_is_refused(cluster: Cluster, follow: Follow) -> None:
    name = account(cluster)
    cluster.accessor.identity = Identity(token=cluster.token("default", name))
    watched = follow()
    for path in (SERVICES, SLICES, NODES):
        watched.until(lambda path=path: "answers 403 Forbidden" in watched.source.problems.get(path, ""), 20)
    user, where = f'User "system:serviceaccount:default:{name}"', 'in API group "" at the cluster scope'
    assert f'services is forbidden: {user} cannot list resource "services" {where}' in watched.source.waiting
    bind(cluster, "system:node-proxier")
    watched.until(lambda: not watched.source.waiting, 20)


@pytest.mark.parametrize("identity", [Identity(), Identity(token="nobodys-token")], ids=["nobody", "unknown"])
def test_anonymous_and_unknown_users_are_refused(cluster: Cluster, follow: Follow, identity: Identity) -> None:
    cluster.accessor.identity = identity
    watched = follow()
    watched.until(lambda: "answers 40" in watched.source.waiting, 20)
    assert "nobodys-token" not in "".join([*watched.lines, *watched.source.problems.values()])


def test_rotated_token_is_used(cluster: Cluster, follow: Follow, tmp_path: Path) -> None:
    good = one_with_rights(cluster)
    file = tmp_path / "token"
    file.write_text(f"{good}\n")
    cluster.accessor.identity = Identity(token_file=str(file))
    watched = follow().complete()
    file.write_text("expired")
    cluster.relay.cut()
    watched.until(lambda: "answers 401 Unauthorized" in watched.source.problems.get(SERVICES, ""), 20)
    cluster.create(service(cluster.run))
    file.write_text(cluster.token("default", cluster.run))
    watched.until(lambda: ObjectKey("Service", "default", cluster.run) in watched.held, 20)
    assert not any(changes.removed for changes in watched.changes)


def test_plugin_is_called_again_for_a_refused_token(cluster: Cluster, follow: Follow, tmp_path: Path) -> None:
    good, answer = one_with_rights(cluster), tmp_path / "answer"
    exec_credential = {"apiVersion": PLUGIN, "kind": "ExecCredential", "status": {"token": "expired"}}
    answer.write_text(json.dumps(exec_credential))
    plugin = Plugin(str(shutil.which("cat")), (str(answer),), {}, PLUGIN, "", None, "kubeconfig: user x: exec")
    cluster.accessor.identity = Identity(plugin=plugin)
    watched = follow()
    watched.until(lambda: "answers 401 Unauthorized" in watched.source.waiting, 20)
    answer.write_text(json.dumps({**exec_credential, "status": {"token": good}}))
    watched.until(lambda: not watched.source.waiting, 20)


def test_server_of_another_authority_gets_no_token(cluster: Cluster, follow: Follow) -> None:
    cluster.accessor.authority = Authority("somebody-else").pem.decode()
    watched = follow()
    watched.until(lambda: "its certificate is not good" in watched.source.waiting, 20)
