# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of deploy/daemonset as kustomize builds them: resources, then strategic merge patches.

tests/host/test_kustomize.py compares this with a real kustomize.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DAEMONSET = Path(__file__).parents[3] / "deploy/daemonset"
OVERLAYS = ("flatcar", "k3s", "kubeadm", "rke2", "talos")
# Lists that are merged by a field of their items (x-kubernetes-patch-merge-key in the API's schema). Others are
# replaced.
_MERGE_KEYS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name"}
_MERGE_KEYS.update(volumeMounts="mountPath")
Object = dict[str, Any]


def overlay(name: str) -> list[Object]:
    """Return the objects of an overlay."""
    return build(DAEMONSET / "overlays" / name)


def build(directory: Path) -> list[Object]:
    """Return the objects of a directory with a kustomization."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    unknown = set(kustomization) - {"apiVersion", "kind", "namespace", "resources", "patches"}
    assert not unknown, f"{directory}: this test does not know {unknown}"
    objects: list[Object] = []
    for name in kustomization["resources"]:
        path = directory / name
        objects += build(path.resolve()) if path.is_dir() else documents(path)
    for entry in kustomization.get("patches", ()):
        for patch in documents(directory / entry["path"]) if "path" in entry else [yaml.safe_load(entry["patch"])]:
            (target,) = [item for item in objects if _identity(item) == _identity(patch)]
            objects[objects.index(target)] = merged(target, patch)
    return objects


def documents(path: Path) -> list[Object]:
    """Return the documents of a file, with the items of a List in its place."""
    return [item for document in yaml.safe_load_all(path.read_text()) for item in document.get("items", [document])]


def _identity(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """Return a strategic merge of two values, of a field."""
    if isinstance(base, dict) and isinstance(patch, dict):
        result = dict(base)
        for name, value in patch.items():
            result[name] = merged(base[name], value, name) if name in base else value
        return result
    if isinstance(base, list) and isinstance(patch, list) and field in _MERGE_KEYS:
        key = _MERGE_KEYS[field]
        base_of = {item[key]: item for item in base}
        first = [_entry(base_of.pop(item[key], {}), item, field) for item in patch]
        return first + list(base_of.values())
    return patch


def _entry(base: Object, patch: Object, field: str) -> Object:
    """Return a merged item of a list. A volume has one source: the patch's replaces the other."""
    if field == "volumes" and set(patch) != set(base):
        return patch
    entry: Object = merged(base, patch)
    return entry
