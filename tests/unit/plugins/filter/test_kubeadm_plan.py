# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice of the proxy at every boundary between versions (KEP-5495)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.kubeadm_plan import FilterModule

kubeadm_plan = FilterModule().filters()["kubeadm_plan"]

DEPRECATED = "is deprecated (since 1.35)"


def gate(value: Any) -> dict[str, Any]:
    return {"kube_proxy_config": {"featureGates": {"KubeProxyIPVS": value}}}


@pytest.mark.parametrize(
    ("version", "settings", "proxy", "warned"),
    [
        ("v1.22.0", {}, "kube-proxy", False),
        ("v1.34.9", {}, "kube-proxy", False),
        ("v1.35.0", {}, "kube-proxy", True),
        ("v1.36.0", {}, "kube-proxy", True),
        ("v1.37.0", {}, "kube-proxy", True),
        ("v1.37.0", gate(True), "kube-proxy", True),
        ("v1.37.0", gate(False), "agent", False),
        ("v1.39.9", {}, "kube-proxy", True),
        ("v1.40.0-rc.0", {}, "agent", False),
        ("v1.40.0", {}, "agent", False),
        ("v1.40.0", gate(True), "kube-proxy", True),
        ("v1.40.0", gate(False), "agent", False),
        ("v1.42.9", gate(True), "kube-proxy", True),
        ("v1.43.0", {}, "agent", False),
        ("v1.43.0", gate(True), "agent", False),
        ("v1.46.0", gate(True), "agent", False),
        ("v2.0.0", {}, "agent", False),
        ("v1.22.0", {"proxy": "agent"}, "agent", False),
        ("v1.36.0", {"proxy": "agent"}, "agent", False),
        ("v1.36.0", {"proxy": "kube-proxy"}, "kube-proxy", True),
        # The version of the cluster decides, because it deploys kube-proxy; kubeadm's version does not.
        ("v1.40.0", {"kubernetes_version": "v1.39.2"}, "kube-proxy", True),
        ("v1.35.0", {"kubernetes_version": "1.34.1"}, "kube-proxy", False),
    ],
)
def test_plan_chooses_the_proxy_by_version(version: str, settings: dict[str, Any], proxy: str, warned: bool) -> None:
    decided = kubeadm_plan(settings, version)
    assert decided["proxy"] == proxy
    assert [DEPRECATED in text for text in decided["warnings"]] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("version", "settings", "why"),
    [
        ("v1.40.0", {}, "refuses ipvs mode from 1.40 on, unless the feature gate KubeProxyIPVS is set"),
        ("v1.42.9", {}, "refuses ipvs mode from 1.40 on, unless the feature gate KubeProxyIPVS is set"),
        ("v1.37.0", gate(False), "the feature gate KubeProxyIPVS is off"),
        ("v1.43.0", {}, "no ipvs mode any more from 1.43 on"),
        ("v1.43.0", gate(True), "no ipvs mode any more from 1.43 on"),
        ("v1.46.0", gate(True), "no ipvs mode any more from 1.43 on"),
    ],
)
def test_kube_proxy_is_refused_with_the_reason(version: str, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(AnsibleFilterError) as failure:
        kubeadm_plan({**settings, "proxy": "kube-proxy"}, version)
    assert f"kubeadm_proxy is 'kube-proxy' for Kubernetes {version}, expected 'agent': " in str(failure.value)
    assert why in str(failure.value)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("version", ["v1.34.0", "v1.36.9"])
def test_feature_gate_is_refused_before_its_first_version(version: str, value: bool) -> None:
    with pytest.raises(AnsibleFilterError, match=r"does not know it and would not start; it came with 1\.37"):
        kubeadm_plan(gate(value), version)


@pytest.mark.parametrize(
    "settings", [gate("true"), gate(1), {"kube_proxy_config": {"featureGates": "KubeProxyIPVS=true"}}]
)
def test_gates_are_true_or_false(settings: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"featureGates is .*, expected a mapping with true and false"):
        kubeadm_plan(settings, "v1.40.0")


@pytest.mark.parametrize("ipvs", ["rr", ["rr"]])
def test_sections_are_mappings(ipvs: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"KubeProxyConfiguration: ipvs is .*, expected a mapping"):
        kubeadm_plan({"kube_proxy_config": {"ipvs": ipvs}, "arp_load_balancer": "metallb"}, "v1.36.0")


@pytest.mark.parametrize("balancer", ["metallb", "kube-vip"])
def test_arp_load_balancers_need_strict_arp_of_kube_proxy(balancer: str) -> None:
    with pytest.raises(
        AnsibleFilterError, match=f"kubeadm_ipvs_strict_arp is false, expected true: {balancer} announces"
    ):
        kubeadm_plan({"arp_load_balancer": balancer}, "v1.36.0")
    assert kubeadm_plan({"arp_load_balancer": balancer, "ipvs_strict_arp": True}, "v1.36.0")["proxy"] == "kube-proxy"


def test_strict_arp_may_be_set_as_a_free_field() -> None:
    settings = {"arp_load_balancer": "metallb", "kube_proxy_config": {"ipvs": {"strictARP": True}}}
    assert kubeadm_plan(settings, "v1.36.0")["proxy_config"]["ipvs"]["strictARP"] is True


@pytest.mark.parametrize(("version", "proxy"), [("v1.36.0", "agent"), ("v1.43.0", "auto")])
@pytest.mark.parametrize("strict", [False, True])
def test_strict_arp_is_only_a_warning_for_the_agent(version: str, proxy: str, strict: bool) -> None:
    decided = kubeadm_plan({"arp_load_balancer": "metallb", "proxy": proxy, "ipvs_strict_arp": strict}, version)
    assert decided["proxy"] == "agent"
    assert [text.partition(",")[0] for text in decided["warnings"]] == (
        [] if strict else ["kubeadm_ipvs_strict_arp is false"]
    )


@pytest.mark.parametrize("wanted", ["v1.34.0", "1.34.9", "v1.30.0"])
def test_kubeadm_accepts_its_own_and_the_previous_version(wanted: str) -> None:
    expected = (
        f"kubeadm_kubernetes_version is '{wanted}', expected 1.35 or newer, as kubeadm v1.36.2 makes no older cluster"
    )
    with pytest.raises(AnsibleFilterError, match=re.escape(expected)):
        kubeadm_plan({"kubernetes_version": wanted}, "v1.36.2")
    assert kubeadm_plan({"kubernetes_version": "v1.35.0"}, "v1.36.2")["kubernetes_version"] == "v1.35.0"


def test_unknown_fields_of_kube_proxy_are_warnings() -> None:
    warnings = kubeadm_plan({"kube_proxy_config": {"ipvs": {"schedular": "rr"}}}, "v1.34.0")["warnings"]
    assert warnings == ["KubeProxyConfiguration: unknown field ipvs.schedular is ignored"]


@pytest.mark.parametrize("phases", [["addon/kube-proxy"], ["addon"], "addon/coredns,addon/kube-proxy"])
def test_skipped_kube_proxy_phase_is_refused(phases: Any) -> None:
    """The node would have no proxy. The message omits load balancers, which need no check without kube-proxy."""
    settings = {"skip_phases": phases, "arp_load_balancer": "metallb"}
    with pytest.raises(AnsibleFilterError) as failure:
        kubeadm_plan(settings, "v1.34.0")
    assert "kubeadm_skip_phases leaves kube-proxy out, expected kubeadm_proxy: agent" in str(failure.value)
    assert "kubeadm_ipvs_strict_arp" not in str(failure.value)
    assert kubeadm_plan({**settings, "proxy": "agent"}, "v1.34.0")["proxy"] == "agent"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kubernetesVersion": "v1.36.0"}, "kubernetesVersion, expected kubeadm_kubernetes_version"),
        ({"controlPlaneEndpoint": "a:6443"}, "controlPlaneEndpoint, expected kubeadm_control_plane_endpoint"),
        ({"networking": {"podSubnet": "10.0.0.0/8"}}, "networking.podSubnet, expected kubeadm_pod_subnet"),
        ({"networking": {"serviceSubnet": "10.0.0.0/8"}}, "networking.serviceSubnet, expected kubeadm_service_subnet"),
        ({"proxy": {"disabled": True}}, "proxy.disabled, expected kubeadm_proxy"),
    ],
)
def test_fields_of_the_plan_are_refused_as_free_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(f"kubeadm_cluster_config has {message}")):
        kubeadm_plan({"cluster_config": fields}, "v1.36.2")
    assert kubeadm_plan({"cluster_config": {"networking": {"dnsDomain": "a.b"}}}, "v1.36.2")["proxy"] == "kube-proxy"


@pytest.mark.parametrize(
    "field", ["bootstrapTokens", "certificateKey", "discovery", "localAPIEndpoint", "skipPhases", "dryRun", "kind"]
)
def test_node_config_with_secrets_or_role_fields_is_refused(field: str) -> None:
    with pytest.raises(
        AnsibleFilterError, match=f"kubeadm_node_config has {field}, expected only nodeRegistration, patches, timeouts"
    ):
        kubeadm_plan({"node_config": {field: "v"}}, "v1.36.2")


@pytest.mark.parametrize("name", ["cluster_config", "kubelet_config", "kube_proxy_config"])
@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_format_is_refused_as_a_free_field(name: str, field: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"kubeadm_{name} has {field}, which the role sets"):
        kubeadm_plan({name: {field: "v1"}}, "v1.36.2")
