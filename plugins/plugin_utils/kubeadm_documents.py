# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that ``kubeadm init`` and ``kubeadm join`` read, built as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_plan import KUBE_PROXY_PHASE, Plan, merge
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_settings import SettingsError
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_versions import V1BETA4

KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}

# Fields that a join needs, each with its form. The values are secrets and must not get into messages.
_JOIN = {
    "api_server_endpoint": re.compile(r"\S+:\d+"),
    "token": re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}"),
    "ca_cert_hash": re.compile(r"sha256:[0-9a-f]{64}"),
    "certificate_key": re.compile(r"[0-9a-f]{64}|"),
}


def init_documents(plan: Plan) -> list[dict[str, Any]]:
    """Return the documents for the first control-plane node."""
    init = {
        "apiVersion": plan.api_version,
        "kind": "InitConfiguration",
        # kubeadm generates the token; without this field it is valid for a day.
        "bootstrapTokens": [{"ttl": plan.settings["token_ttl"]}],
        "nodeRegistration": _node_registration(plan, control_plane=True),
        "localAPIEndpoint": _endpoint(plan),
        "skipPhases": skip_phases(plan),
    }
    documents = [merge(_given(init), plan.settings["node_config"]), _cluster(plan)]
    if plan.proxy == "kube-proxy":
        documents.append(plan.proxy_config)
    kubelet = _kubelet(plan)
    if kubelet:
        documents.append({**KUBELET, **kubelet})
    return documents


def join_documents(plan: Plan, join: Any, control_plane: bool) -> list[dict[str, Any]]:
    """Return the documents for another node.

    Raises:
        SettingsError: ``join`` lacks a field. It has ``api_server_endpoint`` (host:port), ``token``, ``ca_cert_hash``
            and, for a control-plane node, ``certificate_key``.
    """
    problems = []
    if not isinstance(join, Mapping):
        raise SettingsError(["join: expected a mapping"])
    for name, form in _JOIN.items():
        if form.fullmatch(str(join.get(name, ""))) is None:
            problems.append(f"join: {name} is not as kubeadm prints it")
    if control_plane and not join.get("certificate_key"):
        problems.append("join: certificate_key is not given, expected one for a control-plane node")
    if control_plane and not plan.settings["control_plane_endpoint"]:
        problems.append(
            "kubeadm_control_plane_endpoint is '', expected an address that all control-plane nodes are reached by"
        )
    if problems:
        raise SettingsError(problems)
    bootstrap = {
        "apiServerEndpoint": join["api_server_endpoint"],
        "token": join["token"],
        "caCertHashes": [join["ca_cert_hash"]],
    }
    document = {
        "apiVersion": plan.api_version,
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": bootstrap},
        "nodeRegistration": _node_registration(plan, control_plane),
    }
    if control_plane:
        document["controlPlane"] = {"localAPIEndpoint": _endpoint(plan), "certificateKey": join["certificate_key"]}
    return [merge(document, plan.settings["node_config"])]


def skip_phases(plan: Plan) -> list[str]:
    """Return the phases of ``kubeadm init`` that are left out."""
    phases = list(plan.settings["skip_phases"])
    if plan.proxy == "agent" and KUBE_PROXY_PHASE not in phases:
        phases.append(KUBE_PROXY_PHASE)
    return phases


def _cluster(plan: Plan) -> dict[str, Any]:
    settings = plan.settings

    def component(name: str) -> dict[str, Any]:
        return _given({"extraArgs": _extra_args(plan, f"{name}_extra_args")})

    document = {
        "apiVersion": plan.api_version,
        "kind": "ClusterConfiguration",
        "clusterName": settings["cluster_name"],
        "kubernetesVersion": plan.kubernetes_version,
        "controlPlaneEndpoint": settings["control_plane_endpoint"],
        "imageRepository": settings["image_repository"],
        "networking": {
            "podSubnet": settings["pod_subnet"],
            "serviceSubnet": settings["service_subnet"],
            "dnsDomain": settings["dns_domain"],
        },
        "apiServer": _given({"certSANs": settings["api_server_cert_sans"], **component("api_server")}),
        "controllerManager": component("controller_manager"),
        "scheduler": component("scheduler"),
        "etcd": _given({"local": component("etcd")}),
    }
    # kubeadm init alone reads skipPhases; kubeadm upgrade reads this field.
    if plan.proxy == "agent" and plan.api_version == V1BETA4:
        document["proxy"] = {"disabled": True}
    return merge(_given(document), settings["cluster_config"])


def _node_registration(plan: Plan, control_plane: bool) -> dict[str, Any]:
    settings = plan.settings
    registration = _given(
        {
            "name": settings["node_name"],
            "criSocket": settings["cri_socket"],
            "ignorePreflightErrors": settings["ignore_preflight_errors"],
            "kubeletExtraArgs": _extra_args(plan, "kubelet_extra_args"),
        }
    )
    # An empty list means no taint; without the field, kubeadm taints control-plane nodes.
    if control_plane and settings["untaint_control_plane"]:
        registration["taints"] = []
    return registration


def _kubelet(plan: Plan) -> dict[str, Any]:
    """Return KubeletConfiguration's fields, none if the defaults suffice."""
    settings = plan.settings
    fields: dict[str, Any] = _given({"cgroupDriver": settings["cgroup_driver"]})
    if settings["swap"] != "fail":
        fields["failSwapOn"] = False
        limited = settings["swap"] == "limited"
        # NoSwap is known since 1.30; before, leaving the gate NodeSwap alone means the same.
        if limited or plan.kubernetes >= (1, 30):
            fields["memorySwap"] = {"swapBehavior": "LimitedSwap" if limited else "NoSwap"}
        if limited and plan.kubernetes < (1, 30):
            fields["featureGates"] = {"NodeSwap": True}
    return merge(fields, settings["kubelet_config"])


def _endpoint(plan: Plan) -> dict[str, Any]:
    return _given({"advertiseAddress": plan.settings["advertise_address"], "bindPort": plan.settings["bind_port"]})


def _extra_args(plan: Plan, name: str) -> Any:
    """Return command line arguments in the form of the API version.

    That is a list of name and value, or a mapping in earlier versions.
    """
    given = [
        (argument, _argument(value))
        for argument, values in plan.settings[name].items()
        for value in (values if isinstance(values, list) else [values])
    ]
    if plan.api_version == V1BETA4:
        return [{"name": argument, "value": value} for argument, value in given]
    if len(dict(given)) < len(given):
        raise SettingsError(
            [f"kubeadm_{name} gives an argument more than once, expected that only from kubeadm 1.31 on"]
        )
    return dict(given)


def _argument(value: Any) -> str:
    """Return a value as a command line argument."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in ("", [], {})}
