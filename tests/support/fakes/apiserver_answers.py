# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a kube-apiserver: pages of lists, Status documents, watch events for a selection of objects.

The texts are those of a real API server, recorded in tests/golden/api.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name

KINDS = {  # path in all namespaces: kind, API version
    "/api/v1/services": ("Service", "v1"),
    "/apis/discovery.k8s.io/v1/endpointslices": ("EndpointSlice", "discovery.k8s.io/v1"),
    "/api/v1/nodes": ("Node", "v1"),
    "/api/v1/secrets": ("Secret", "v1"),
    "/api/v1/serviceaccounts": ("ServiceAccount", "v1"),
    "/apis/events.k8s.io/v1/events": ("Event", "events.k8s.io/v1"),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": ("ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
}
EMPTY_BOOKMARK: dict[str, Object] = {
    "Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "EndpointSlice": {"addressType": "", "endpoints": None, "ports": None},
    "Node": {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(
                (
                    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
                    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
                ),
                "",
            ),
        },
    },
}
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "98b35193b2ac7a23a673325f5e9b830ecd5ba406",
    "gitTreeState": "clean",
    "buildDate": "2026-08-21T11:29:11Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}


class Target(NamedTuple):
    """Target of a path: all objects of a kind, those of one namespace, one object, or its subresource (``/token``)."""

    collection: str
    kind: str
    api_version: str
    namespace: str
    name: str
    below: str

    @property
    def resource(self) -> str:
        return self.collection.rpartition("/")[2]

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


def target_of(path: str) -> Target | None:
    """Parse a path; return None for an unknown form."""
    parts = path.split("/")
    root = 3 if path.startswith("/api/") else 4
    version, rest = "/".join(parts[:root]), parts[root:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    collection = "/".join([version, *rest[:1]])
    if collection not in KINDS or len(rest) > 3:
        return None
    kind, api_version = KINDS[collection]
    name, below = [*rest[1:], "", ""][:2]
    return Target(collection, kind, api_version, namespace, name, below)


def failure(code: int, reason: str, message: str, **more: Any) -> Object:
    """Return a Status as the API server writes it."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    return {**status, **more, "code": code}


def encode(document: Object) -> bytes:
    """Return one line, as the API server's encoder writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _about(target: Target, code: int, reason: str, message: str) -> Object:
    """Return a Status about a path."""
    resource = f"{target.resource}.{target.group}" if target.group else target.resource
    named = f'{resource} "{target.name}"' if target.name else resource
    details = {"name": target.name, "group": target.group, "kind": target.resource}
    return failure(
        code, reason, f"{named} {message}", details={name: value for name, value in details.items() if value}
    )


def not_found(target: Target) -> Object:
    """Return the Status for a missing object."""
    return _about(target, 404, "NotFound", "not found")


def already_exists(target: Target) -> Object:
    """Return the Status for an object that exists already."""
    return _about(target, 409, "AlreadyExists", "already exists")


def forbidden(user: str, verb: str, target: Target) -> Object:
    """Return the Status for a user without permission."""
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = (
        f'is forbidden: User "{user}" cannot {verb} resource "{target.resource}" in API group "{target.group}" {scope}'
    )
    return _about(target, 403, "Forbidden", message)


def too_large(asked: int, version: int) -> Object:
    """Return the Status for a future version that the server does not reach while it waits."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return failure(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {version}", details=details)


def page(
    chosen: list[tuple[Key, Object]], query: dict[str, str], kind: str, api_version: str, version: int, oldest: int
) -> Object:
    """Return one page of a list (or the whole list), or the Status of its refusal."""
    start = ""
    asked = int(query.get("resourceVersion") or 0)
    if asked > version:
        return too_large(asked, version)
    if "continue" in query:
        try:
            token = json.loads(base64.urlsafe_b64decode(query["continue"] + "=="))
            version, start = token["rv"], token["start"].rstrip("\0")
        except (ValueError, LookupError):
            why = "continue key is not valid: invalid character '\\u0081' looking for beginning of value"
            return failure(400, "BadRequest", f"invalid continue token: {why}")
        if version < oldest:
            return failure(
                410, "Expired", "The provided continue parameter is too old to display a consistent list result."
            )
    named = sorted(("/".join(filter(None, key)), obj) for key, obj in chosen)
    rest = [(name, obj) for name, obj in named if name > start.lstrip("/")]
    limit = int(query.get("limit") or 0)
    metadata: Object = {"resourceVersion": str(version)}
    if limit and len(rest) > limit:
        token = {"v": "meta.k8s.io/v1", "rv": version, "start": f"/{rest[limit - 1][0]}\0"}
        text = json.dumps(token, separators=(",", ":"))
        metadata["continue"] = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        if not query.keys() & {"labelSelector", "fieldSelector"}:
            metadata["remainingItemCount"] = len(rest) - limit
        rest = rest[:limit]
    items = [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} for _name, obj in rest]
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": items}


def selected(obj: Object, query: dict[str, str]) -> bool:
    """Tell whether the selectors match an object.

    Supported are ``!label``, ``metadata.name=NAME`` and kube-proxy's ``spec.clusterIP!=None``.
    """
    labels = obj["metadata"].get("labels") or {}
    if any(term.lstrip("!") in labels for term in filter(None, query.get("labelSelector", "").split(","))):
        return False
    field, _equals, value = query.get("fieldSelector", "").partition("=")
    if field == "spec.clusterIP!":
        return bool(obj["spec"]["clusterIP"] != value)
    return not field or obj["metadata"]["name"] == value


def event_type(what: str, obj: Object, before: Object | None, query: dict[str, str]) -> str:
    """Return the type of event for a watch with selectors; "" for no event."""
    is_in, was_in = what != "DELETED" and selected(obj, query), before is not None and selected(before, query)
    return {(True, True): "MODIFIED", (True, False): "ADDED", (False, True): "DELETED", (False, False): ""}[
        is_in, was_in
    ]
