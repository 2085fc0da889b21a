# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubeadm's strict decoding accepts, for tests without a kubeadm.

The fields of KubeProxyConfiguration and KubeletConfiguration are those that kubeadm 1.36 wrote out itself (tests/golden/kubeadm); it
writes every field of the former, and of the latter all but those that are empty. Fields of kubeadm's own kinds that it leaves out when they are
empty are listed here, from kubernetes: cmd/kubeadm/app/apis/kubeadm/{v1beta3,v1beta4}/types.go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).parents[1] / "golden/kubeadm"

_TEXT, _NUMBER, _FLAG, _TEXTS = str, int, bool, [str]
_ARGUMENT_LIST = [{"name": str, "value": str}]
_ARGUMENT_MAP = {"*": str}


def _registration(arguments: Any) -> dict[str, Any]:
    return {
        "name": _TEXT,
        "criSocket": _TEXT,
        "taints": [{"key": _TEXT, "value": _TEXT, "effect": _TEXT}],
        "kubeletExtraArgs": arguments,
        "ignorePreflightErrors": _TEXTS,
        "imagePullPolicy": _TEXT,
    }


def _kinds(arguments: Any) -> dict[str, Any]:
    endpoint = {"advertiseAddress": _TEXT, "bindPort": _NUMBER}
    component = {"extraArgs": arguments, "extraVolumes": [{"*": _TEXT}]}
    return {
        "InitConfiguration": {
            "bootstrapTokens": [{"token": _TEXT, "ttl": _TEXT, "groups": _TEXTS, "usages": _TEXTS, "description": _TEXT}],
            "nodeRegistration": _registration(arguments),
            "localAPIEndpoint": endpoint,
            "certificateKey": _TEXT,
            "skipPhases": _TEXTS,
            "patches": {"directory": _TEXT},
        },
        "ClusterConfiguration": {
            "etcd": {"local": {"imageRepository": _TEXT, "imageTag": _TEXT, "dataDir": _TEXT, "extraArgs": arguments}},
            "networking": {"serviceSubnet": _TEXT, "podSubnet": _TEXT, "dnsDomain": _TEXT},
            "kubernetesVersion": _TEXT,
            "controlPlaneEndpoint": _TEXT,
            "apiServer": {**component, "certSANs": _TEXTS},
            "controllerManager": component,
            "scheduler": component,
            "dns": {"imageRepository": _TEXT, "imageTag": _TEXT},
            "certificatesDir": _TEXT,
            "imageRepository": _TEXT,
            "featureGates": {"*": _FLAG},
            "clusterName": _TEXT,
        },
        "JoinConfiguration": {
            "nodeRegistration": _registration(arguments),
            "caCertPath": _TEXT,
            "discovery": {
                "bootstrapToken": {
                    "token": _TEXT,
                    "apiServerEndpoint": _TEXT,
                    "caCertHashes": _TEXTS,
                    "unsafeSkipCAVerification": _FLAG,
                },
                "tlsBootstrapToken": _TEXT,
            },
            "controlPlane": {"localAPIEndpoint": endpoint, "certificateKey": _TEXT},
            "skipPhases": _TEXTS,
            "patches": {"directory": _TEXT},
        },
    }


def _v1beta4() -> dict[str, Any]:
    kinds = _kinds(_ARGUMENT_LIST)
    kinds["ClusterConfiguration"].update(
        proxy={"disabled": _FLAG},
        encryptionAlgorithm=_TEXT,
        certificateValidityPeriod=_TEXT,
        caCertificateValidityPeriod=_TEXT,
    )
    kinds["ClusterConfiguration"]["dns"]["disabled"] = _FLAG
    for kind in ("InitConfiguration", "JoinConfiguration"):
        kinds[kind].update(timeouts={"*": _TEXT}, dryRun=_FLAG)
        kinds[kind]["nodeRegistration"]["imagePullSerial"] = _FLAG
    return kinds


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the documents of a recording."""
    return [document for document in yaml.safe_load_all((GOLDEN / name).read_text(encoding="utf-8")) if document]


def recorded_kind(name: str, kind: str) -> dict[str, Any]:
    """Return the document of a kind of a recording."""
    return next(document for document in recorded(name) if document["kind"] == kind)


_KINDS = {"kubeadm.k8s.io/v1beta3": _kinds(_ARGUMENT_MAP), "kubeadm.k8s.io/v1beta4": _v1beta4()}
# KubeletConfiguration: what is used here and is empty by default, so that it is not in the recording.
_KUBELET_UNWRITTEN = {"failSwapOn": False, "featureGates": {"*": False}, "memorySwap": {"swapBehavior": ""}}
# KubeProxyConfiguration: the one field that is left out when it is empty.
_KUBE_PROXY_UNWRITTEN = {"featureGates": {"*": False}}


def unknown_fields(document: dict[str, Any]) -> list[str]:
    """Return what strict decoding would refuse: fields that the kind does not have, values of another type."""
    kind = document["kind"]
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    if kind in ("KubeProxyConfiguration", "KubeletConfiguration"):
        name = "kube-proxy-defaults.yaml" if kind == "KubeProxyConfiguration" else "init-defaults.yaml"
        default = recorded_kind(name, kind)
        if document["apiVersion"] != default["apiVersion"]:
            return [f"{kind}: apiVersion {document['apiVersion']}"]
        unwritten = _KUBE_PROXY_UNWRITTEN if kind == "KubeProxyConfiguration" else _KUBELET_UNWRITTEN
        return list(_walk(kind, body, _shape({**default, **unwritten})))
    return list(_walk(kind, body, _KINDS[document["apiVersion"]][kind]))


def _shape(default: Any) -> Any:
    """Turn a recorded default into the shape of its type; null may be anything."""
    if isinstance(default, dict):
        return {key: _shape(value) for key, value in default.items()}
    return object if default is None else type(default)


def _walk(path: str, value: Any, shape: Any) -> Any:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{path} is not a mapping"
            return
        for key, item in value.items():
            if key in shape or "*" in shape:
                yield from _walk(f"{path}.{key}", item, shape.get(key, shape.get("*")))
            else:
                yield f"{path}.{key}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{path} is not a list"
            return
        for number, item in enumerate(value):
            yield from _walk(f"{path}[{number}]", item, shape[0])
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        yield f"{path} is not of type {shape.__name__}"
