# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that are listed and watched, and the fields of their objects that are kept."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...engine.kubernetes.fields import HEADLESS_LABEL, SERVICE_PROXY_LABEL
from ...manifests.documents import API_VERSIONS, Object, ObjectKey, key_of, lean

# kube-proxy's selector since 1.36 (kubernetes: cmd/kube-proxy/app/server.go), without its fieldSelector
# spec.clusterIP!=None: API servers before 1.31 refuse it. Headless Services are read and left out.
_NO_OTHER_PROXY = f"!{SERVICE_PROXY_LABEL}"
_NOT_HEADLESS = f"!{HEADLESS_LABEL}"
_DROPPED = ("resourceVersion", "generation", "selfLink", "generateName", "finalizers")

# Sorted: an object has the same text whether it came as JSON or as protobuf, whose fields have another order.
encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class Resource(NamedTuple):
    """A resource of the API: kind of its objects, path, and selector."""

    kind: str
    path: str
    selector: dict[str, str]


def resources(node: str) -> tuple[Resource, ...]:
    """Return the resources to list and watch for a node."""
    return (
        Resource("Service", "/api/v1/services", {"labelSelector": _NO_OTHER_PROXY}),
        Resource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices", {"labelSelector": _NOT_HEADLESS}),
        Resource("Node", "/api/v1/nodes", {"fieldSelector": f"metadata.name={node}"}),
    )


def understood(kind: str, item: Any) -> tuple[ObjectKey, Object]:
    """Return the key of an object of a kind, and the object with the fields that are kept.

    Fields that the agent does not read, or that change all the time, are dropped.

    Raises:
        ValueError: ``item`` is not an object of this kind; the text says why.
    """
    if isinstance(item, dict):  # unlike watch events, items of a list have no kind: the same text for both
        item = {"kind": kind, "apiVersion": API_VERSIONS[kind], **item}
    key = key_of(item)
    if key is None or key.kind != kind:
        raise ValueError(f"expected a {kind}, found a {item.get('kind')}")
    kept = lean(item)
    for name in _DROPPED:
        kept["metadata"].pop(name, None)
    return key, kept
