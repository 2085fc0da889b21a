# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster DNS: names of Services and endpoints, from the API server's objects."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.dns_records import Records, lookup

SERVICES: dict[str, dict[str, Any]] = {
    "web": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd00::9"]},
    "other": {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"},
    "pods": {"type": "ClusterIP", "clusterIP": "None"},
}
ENDPOINTS = [
    {"addresses": ["10.244.1.2"], "hostname": "pod-0", "conditions": {"ready": True}},
    {"addresses": ["10.244.1.3"], "conditions": {"ready": False}},
]


def get(path: str, **query: str) -> dict[str, Any] | None:
    if path.endswith("/namespaces/default/endpointslices"):
        return {"items": [{"endpoints": ENDPOINTS}] if query["labelSelector"].endswith("=pods") else []}
    *_, namespace, _services, name = path.split("/")
    return {"spec": SERVICES[name]} if namespace == "default" and name in SERVICES else None


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("web.default", Records(("10.96.0.9", "fd00::9"))),
        ("other.default", Records(alias="web.default.svc.cluster.local")),
        ("pods.default", Records(("10.244.1.2",))),
        ("pod-0.pods.default", Records(("10.244.1.2",))),
        ("pod-1.pods.default", None),
        ("x.web.default", None),
        ("web.kube-system", None),
        ("missing.default", None),
        ("default", None),
        ("a.b.web.default", None),
    ],
)
def test_name_of_the_domain_is_resolved(name: str, records: Records | None) -> None:
    assert lookup(f"{name}.svc.cluster.local", get) == records


def test_name_of_another_domain_does_not_exist() -> None:
    assert lookup("web.default.example.org", get) is None
