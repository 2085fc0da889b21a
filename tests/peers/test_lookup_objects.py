# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup objects with a real kubectl and a real kube-apiserver: its result, and its error when it is refused.

Run by ``molecule/lab/uml-pytest tests/peers/test_lookup_objects.py --kube-apiserver=PATH --etcd=PATH --kubectl=PATH``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, lookup_loader
from support.clusters.cluster import Cluster, node, piece, service
from support.clusters.kube_apiserver import PROXY, ROLE, KubeApiServer

from kubenode.manifests.documents import ObjectKey, key_of

COLLECTION = Path(__file__).parents[2] / "collection"
PAGE = 500  # objects that kubectl asks for at once
ALWAYS = ObjectKey("Service", "default", "kubernetes")  # every cluster's
Found = dict[ObjectKey, dict[str, Any]]
Look = Callable[..., Found]


@pytest.fixture(scope="session")
def kubectl(pytestconfig: pytest.Config) -> str:
    path: str | None = pytestconfig.getoption("--kubectl")
    assert path, "tests/peers/test_lookup_objects.py needs --kubectl=PATH"
    init_plugin_loader([str(COLLECTION)])
    return path


@pytest.fixture
def look(kubectl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Look things up as a playbook does."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def look(kubeconfig: Path, **options: str) -> Found:
        lookup = lookup_loader.get("kubenode.ipvs.objects", loader=DataLoader())
        items = lookup.run([], {}, kubeconfig=str(kubeconfig), kubectl=kubectl, **options)
        by_key = {key: item for item in items for key in [key_of(item)] if key is not None}
        assert len(by_key) == len(items)
        return by_key

    return look


@pytest.mark.parametrize("user", [ROLE, PROXY])
def test_lookup_reads_all_objects_of_a_service_proxy(
    cluster: Cluster, users: dict[str, Path], look: Look, user: str
) -> None:
    ports = service("")["spec"]["ports"]
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "node-port": {"type": "NodePort"},
        "balancer": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
        },
        "headless": {"clusterIP": "None"},
        "alias": {"type": "ExternalName", "externalName": "example.org"},
    }
    given = [{**service(f"{cluster.run}-{name}"), "spec": {"ports": ports, **spec}} for name, spec in kinds.items()]
    addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
    images = [{"names": ["example.org/image:1"], "sizeBytes": 1}]
    given += [piece(cluster.run), {**node(cluster.run), "status": {"addresses": addresses, "images": images}}]
    made = {key: item for item in map(cluster.create, given) for key in [key_of(item)] if key is not None}
    items = look(users[user], context="x")
    assert items.keys() == {ALWAYS, *made}
    assert items[ObjectKey("Node", "", cluster.run)]["status"] == {"addresses": addresses}
    for key, item in made.items():
        assert [items[key].get(part) for part in ("spec", "endpoints", "ports")] == [
            item.get(part) for part in ("spec", "endpoints", "ports")
        ]


def test_lookup_reads_empty_and_paged_clusters(api: KubeApiServer, cluster: Cluster, look: Look) -> None:
    assert look(api.admin).keys() == {ALWAYS}
    names = cluster.names(PAGE + 1)
    for name in names:
        cluster.create(service(name))
    assert look(api.admin).keys() == {ALWAYS, *(ObjectKey("Service", "default", name) for name in names)}


@pytest.mark.parametrize(
    ("who", "sentence"),
    [
        ("ended", "error: You must be logged in to the server"),
        ("unknown", "error: You must be logged in to the server"),
        ("nobody", 'Error from server (Forbidden): nodes is forbidden: User "nobody" cannot list resource "nodes"'),
        ("elsewhere", "The connection to the server 127.0.0.1:1 was refused"),
        ("context", "context was not found for specified context: nowhere"),
    ],
)
def test_refused_user_is_named(api: KubeApiServer, look: Look, who: str, sentence: str) -> None:
    kubeconfigs = {
        "ended": lambda: api.kubeconfig("ended", api.certificate(PROXY, hours=-0.5)),
        "unknown": lambda: api.kubeconfig("unknown", {"token": "none"}),
        "nobody": lambda: api.kubeconfig("nobody", api.certificate("nobody")),
        "elsewhere": lambda: api.kubeconfig("elsewhere", {"token": "none"}, 1),
        "context": lambda: api.admin,
    }
    with pytest.raises(AnsibleLookupError) as caught:
        look(kubeconfigs[who](), **({"context": "nowhere"} if who == "context" else {}))
    text = str(caught.value)
    assert sentence in text
    assert "cannot be read: " in text
    assert "\n" not in text
    assert "memcache.go" not in text
