# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proxy choice of a cluster, kube-proxy in ipvs mode or kubenode's agent, and the chosen proxy's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.desired.settings import ConfigError, parse
from ansible_collections.kubenode.ipvs.plugins.plugin_utils import kubeadm_versions as versions
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_settings import SettingsError, complete

KUBE_PROXY_PHASE = "addon/kube-proxy"
KUBE_PROXY = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}

# Setting -> field of KubeProxyConfiguration.ipvs: all fields.
IPVS_FIELDS = {
    "ipvs_scheduler": "scheduler",
    "ipvs_exclude_cidrs": "excludeCIDRs",
    "ipvs_strict_arp": "strictARP",
    "ipvs_sync_period": "syncPeriod",
    "ipvs_min_sync_period": "minSyncPeriod",
    "ipvs_tcp_timeout": "tcpTimeout",
    "ipvs_tcp_fin_timeout": "tcpFinTimeout",
    "ipvs_udp_timeout": "udpTimeout",
}


class Plan(NamedTuple):
    """Decisions from the settings and the version of the installed kubeadm.

    ``settings`` are complete, ``kubeadm`` is its version, ``kubernetes_version`` the cluster's in kubeadm's spelling,
    ``proxy`` is ``kube-proxy`` or ``agent`` and ``proxy_config`` its KubeProxyConfiguration.
    """

    settings: dict[str, Any]
    kubeadm: versions.Version
    kubernetes: versions.Version
    api_version: str
    kubernetes_version: str
    proxy: str
    proxy_config: dict[str, Any]
    warnings: list[str]


def plan(given: Any, kubeadm_version: str) -> Plan:
    """Decide by the settings and by the version that ``kubeadm version -o short`` prints.

    Raises:
        SettingsError: the settings cannot be used; the error lists every problem.
    """
    settings = complete(given)
    try:
        kubeadm = versions.parse_version(kubeadm_version)
        api = versions.api_version(kubeadm)
    except ValueError as error:
        raise SettingsError([f"the version of kubeadm is {kubeadm_version!r}, expected {error}"]) from None
    kubernetes_version, problems = _cluster_version(settings["kubernetes_version"], kubeadm, kubeadm_version)
    kubernetes = versions.parse_version(kubernetes_version)
    config = proxy_config(settings)
    warnings: list[str] = []
    try:
        warnings += parse([config])[1]
    except ConfigError as error:
        problems += error.problems
    if config["mode"] != "ipvs":
        problems.append(f"KubeProxyConfiguration: mode is {config['mode']!r}, expected 'ipvs'")
    gates = config.get("featureGates") or {}
    if not isinstance(gates, Mapping) or not all(isinstance(value, bool) for value in gates.values()):
        problems.append(f"KubeProxyConfiguration: featureGates is {gates!r}, expected a mapping with true and false")
    if problems:
        raise SettingsError(problems)

    gate = gates.get(versions.GATE)
    refusal = versions.ipvs_refusal(kubernetes, gate)
    proxy = settings["proxy"]
    if proxy == "auto":
        proxy = "agent" if refusal else "kube-proxy"
    elif proxy == "kube-proxy" and refusal:
        problems.append(
            f"kubeadm_proxy is 'kube-proxy' for Kubernetes {kubernetes_version}, expected 'agent': {refusal}"
        )
    loose = _loose_arp(settings, config)
    if proxy == "kube-proxy":
        problem = versions.gate_problem(kubernetes, gate)
        if problem:
            problems.append(
                f"KubeProxyConfiguration: featureGates.{versions.GATE} is {gate!r}, expected none: {problem}"
            )
        if {KUBE_PROXY_PHASE, "addon"} & set(settings["skip_phases"]):
            who = "with kubeadm_agent: false if another service proxy runs"
            problems.append(f"kubeadm_skip_phases leaves kube-proxy out, expected kubeadm_proxy: agent ({who})")
        else:
            problems += loose
        warnings += [text for text in [versions.ipvs_warning(kubernetes)] if text]
    else:
        # Only a warning: another program may set these sysctls on nodes without kube-proxy.
        warnings += loose
    if problems:
        raise SettingsError(problems)
    return Plan(settings, kubeadm, kubernetes, api, kubernetes_version, proxy, config, warnings)


def _cluster_version(given: str, kubeadm: versions.Version, kubeadm_version: str) -> tuple[str, list[str]]:
    """Return the Kubernetes version of the cluster, by default kubeadm's, and its problems."""
    wanted = given or kubeadm_version
    kubernetes_version = wanted if wanted.startswith("v") else f"v{wanted}"
    kubernetes = versions.parse_version(kubernetes_version)
    problems = []
    if kubernetes > kubeadm:
        expected = f"at most that of kubeadm, which is {kubeadm_version}"
        problems.append(f"kubeadm_kubernetes_version is {given!r}, expected {expected}")
    oldest = (kubeadm[0], kubeadm[1] - 1)
    if kubernetes < oldest:
        expected = f"{versions.spell(oldest)} or newer, as kubeadm {kubeadm_version} makes no older cluster"
        problems.append(f"kubeadm_kubernetes_version is {given!r}, expected {expected}")
    return kubernetes_version, problems


def proxy_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the KubeProxyConfiguration; ``kube_proxy_config`` overrides the other settings."""
    ours = {
        **KUBE_PROXY,
        "mode": "ipvs",
        "clusterCIDR": settings["pod_subnet"],
        "ipvs": {field: settings[name] for name, field in IPVS_FIELDS.items()},
    }
    return merge(ours, settings["kube_proxy_config"])


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` merged with ``overrides``, mapping by mapping; ``overrides`` replaces lists and scalars."""
    merged = dict(base)
    for key, value in overrides.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _loose_arp(settings: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Return one sentence if a load balancer announces addresses by ARP and strictARP is off, else none."""
    if not settings["arp_load_balancer"] or (config["ipvs"] or {}).get("strictARP"):
        return []
    why = (
        f"{settings['arp_load_balancer']} announces addresses that every node would otherwise answer for, as they are"
        " on each"
    )
    return [f"kubeadm_ipvs_strict_arp is false, expected true: {why}"]
