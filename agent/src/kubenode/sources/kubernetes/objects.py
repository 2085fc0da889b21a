# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects are read from the API, and what is kept of them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..documents import API_VERSIONS, Object, ObjectKey, key_of, lean

# kube-proxy's: what has another proxy, and what needs none (kubernetes: cmd/kube-proxy/app/server.go)
_OURS = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"
_DROPPED = ("resourceVersion", "generation", "selfLink", "generateName", "finalizers")

encode = json.JSONEncoder(separators=(",", ":")).encode


class Resource(NamedTuple):
    """A resource of the API: kind of its objects, path, and which of them are asked for."""

    kind: str
    path: str
    selector: dict[str, str]


def resources(node: str) -> tuple[Resource, ...]:
    """Return what is listed and watched for a node."""
    return (
        Resource("Service", "/api/v1/services", {"labelSelector": _OURS}),
        Resource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices", {"labelSelector": _OURS}),
        Resource("Node", "/api/v1/nodes", {"fieldSelector": f"metadata.name={node}"}),
    )


def understood(kind: str, item: Any) -> tuple[ObjectKey, Object]:
    """Return the key of an object of a kind, and what is kept of it: nothing that only others read or that changes all the time.

    Raises:
        ValueError: it is not such an object; the text says why.
    """
    if isinstance(item, dict):  # items of a list do not say what they are, and events do: the same text for both
        item = {"kind": kind, "apiVersion": API_VERSIONS[kind], **item}
    key = key_of(item)
    if key is None or key.kind != kind:
        raise ValueError(f"expected a {kind}, found a {item.get('kind')}")
    kept = lean(item)
    for name in _DROPPED:
        kept["metadata"].pop(name, None)
    return key, kept
