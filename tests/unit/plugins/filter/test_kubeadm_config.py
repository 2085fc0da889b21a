# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that kubeadm reads, by version and by setting."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from support.kubeadm.answers import defaults
from support.kubeadm.cases import EVERYTHING

from ansible_collections.kubenode.ipvs.plugins.filter.kubeadm_config import FilterModule
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.desired.settings import parse
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_plan import IPVS_FIELDS

kubeadm_config = FilterModule().filters()["kubeadm_config"]

JOIN = {
    "api_server_endpoint": "api.example.org:6443",
    "token": "abcdef.0123456789abcdef",
    "ca_cert_hash": "sha256:" + "a" * 64,
    "certificate_key": "b" * 64,
}


def documents(settings: dict[str, Any], version: str, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the documents by kind, written and read as YAML."""
    built = list(yaml.safe_load_all(yaml.safe_dump_all(kubeadm_config(settings, version, **options))))
    assert len({document["kind"] for document in built}) == len(built)
    return {document["kind"]: document for document in built}


@pytest.mark.parametrize("proxy", ["kube-proxy", "agent"])
@pytest.mark.parametrize(
    ("judged", "version"),
    [
        ("v1.30.0", "v1.22.0"),
        ("v1.30.0", "v1.26.3"),
        ("v1.30.0", "v1.30.14"),
        ("v1.36.2", "v1.31.0"),
        ("v1.36.2", "v1.39.1"),
    ],
)
def test_versions_of_a_format_get_the_judged_documents(judged: str, version: str, proxy: str) -> None:
    """test_kubeadm_validated.py has kubeadm's verdicts on these documents. Another test covers swap."""
    settings = {**EVERYTHING, "proxy": proxy, "swap": "fail"}
    built = documents(settings, version)
    assert built["ClusterConfiguration"].pop("kubernetesVersion") == version
    one_of_them = documents(settings, judged)
    assert one_of_them["ClusterConfiguration"].pop("kubernetesVersion") == judged
    assert built == one_of_them


@pytest.mark.parametrize("control_plane", [False, True])
@pytest.mark.parametrize(
    ("judged", "version"), [("v1.30.0", "v1.22.0"), ("v1.36.2", "v1.31.0"), ("v1.36.2", "v1.43.0")]
)
def test_all_versions_of_a_format_join_alike(judged: str, version: str, control_plane: bool) -> None:
    built = documents(EVERYTHING, version, join=JOIN, control_plane=control_plane)
    assert built == documents(EVERYTHING, judged, join=JOIN, control_plane=control_plane)
    assert list(built) == ["JoinConfiguration"]
    assert ("controlPlane" in built["JoinConfiguration"]) is control_plane


@pytest.mark.parametrize(
    ("version", "api"),
    [
        ("v1.22.0", "v1beta3"),
        ("v1.30.99", "v1beta3"),
        ("v1.31.0-alpha.1", "v1beta4"),
        ("v1.31.0", "v1beta4"),
        ("1.36.0", "v1beta4"),
        ("v1.46.2+build.5", "v1beta4"),
    ],
)
def test_the_format_is_that_of_the_kubeadm_found(version: str, api: str) -> None:
    built = documents({"proxy": "agent"}, version)
    assert {built[kind]["apiVersion"] for kind in ("InitConfiguration", "ClusterConfiguration")} == {
        f"kubeadm.k8s.io/{api}"
    }


@pytest.mark.parametrize("version", ["v1.21.14", "v1.0.0", "1", "", "kubeadm version v1.36.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(AnsibleFilterError, match="the version of kubeadm is"):
        kubeadm_config({}, version)


def test_extra_args_are_a_mapping_before_1_31_then_a_list() -> None:
    settings = {"api_server_extra_args": {"profiling": False, "v": 2}, "proxy": "agent"}
    assert documents(settings, "v1.30.0")["ClusterConfiguration"]["apiServer"]["extraArgs"] == {
        "profiling": "false",
        "v": "2",
    }
    as_list = [{"name": "profiling", "value": "false"}, {"name": "v", "value": "2"}]
    assert documents(settings, "v1.31.0")["ClusterConfiguration"]["apiServer"]["extraArgs"] == as_list


def test_repeated_argument_needs_kubeadm_1_31() -> None:
    settings = {"kubelet_extra_args": {"node-labels": ["a=1", "b=2"]}}
    registration = documents(settings, "v1.31.0")["InitConfiguration"]["nodeRegistration"]
    assert registration["kubeletExtraArgs"] == [
        {"name": "node-labels", "value": "a=1"},
        {"name": "node-labels", "value": "b=2"},
    ]
    with pytest.raises(
        AnsibleFilterError, match=r"kubeadm_kubelet_extra_args gives an argument more than once, .* 1\.31"
    ):
        kubeadm_config(settings, "v1.30.0")


@pytest.mark.parametrize(
    ("version", "proxy_field"), [("v1.30.0", None), ("v1.31.0", {"disabled": True}), ("v1.43.0", {"disabled": True})]
)
def test_kube_proxy_is_left_out(version: str, proxy_field: Any) -> None:
    built = documents({"proxy": "agent", "skip_phases": ["addon/coredns"]}, version)
    assert built["InitConfiguration"]["skipPhases"] == ["addon/coredns", "addon/kube-proxy"]
    assert built["ClusterConfiguration"].get("proxy") == proxy_field
    assert "KubeProxyConfiguration" not in built


def test_kube_proxy_is_not_left_out() -> None:
    built = documents({"proxy": "kube-proxy"}, "v1.36.0")
    assert "skipPhases" not in built["InitConfiguration"]
    assert "proxy" not in built["ClusterConfiguration"]
    assert built["KubeProxyConfiguration"]["mode"] == "ipvs"


def test_every_ipvs_field_is_written_and_none_else() -> None:
    expected = set(defaults("init-defaults.yaml", "KubeProxyConfiguration")["ipvs"])
    assert set(IPVS_FIELDS.values()) == expected
    assert documents(EVERYTHING, "v1.36.0")["KubeProxyConfiguration"]["ipvs"] == {
        "scheduler": "wrr",
        "excludeCIDRs": ["192.0.2.0/24", "2001:db8::/32"],
        "strictARP": True,
        "syncPeriod": "1m0s",
        "minSyncPeriod": "2s",
        "tcpTimeout": "15m0s",
        "tcpFinTimeout": "2m0s",
        "udpTimeout": "5m0s",
    }


def test_the_agent_reads_the_same_configuration() -> None:
    config, warnings = parse([documents(EVERYTHING, "v1.36.0")["KubeProxyConfiguration"]])
    assert warnings == []
    assert (config.scheduler, config.strict_arp, config.exclude_cidrs) == (
        "wrr",
        True,
        ("192.0.2.0/24", "2001:db8::/32"),
    )
    assert (config.sync_period, config.min_sync_period) == (60.0, 2.0)
    assert (config.tcp_timeout, config.tcp_fin_timeout, config.udp_timeout) == (900.0, 120.0, 300.0)
    assert config.cluster_cidrs == ("10.32.0.0/16", "fd00:32::/56")
    assert config.conntrack_min == 262144


def test_empty_settings_have_the_defaults_of_the_role() -> None:
    built = documents({}, "v1.36.2")
    assert built["ClusterConfiguration"]["networking"]["podSubnet"] == "10.244.0.0/16"
    assert built["ClusterConfiguration"]["kubernetesVersion"] == "v1.36.2"
    assert built["KubeProxyConfiguration"]["clusterCIDR"] == "10.244.0.0/16"
    assert built["InitConfiguration"]["bootstrapTokens"] == [{"ttl": "15m0s"}]
    assert "KubeletConfiguration" not in built


@pytest.mark.parametrize(
    ("settings", "version", "fields"),
    [
        ({"swap": "tolerate"}, "v1.29.0", {"failSwapOn": False}),
        ({"swap": "tolerate"}, "v1.30.0", {"failSwapOn": False, "memorySwap": {"swapBehavior": "NoSwap"}}),
        (
            {"swap": "limited"},
            "v1.29.0",
            {"failSwapOn": False, "memorySwap": {"swapBehavior": "LimitedSwap"}, "featureGates": {"NodeSwap": True}},
        ),
        ({"swap": "limited"}, "v1.30.0", {"failSwapOn": False, "memorySwap": {"swapBehavior": "LimitedSwap"}}),
        ({"cgroup_driver": "cgroupfs"}, "v1.36.0", {"cgroupDriver": "cgroupfs"}),
        ({"kubelet_config": {"serverTLSBootstrap": True}}, "v1.36.0", {"serverTLSBootstrap": True}),
    ],
)
def test_the_kubelet_is_configured_where_it_needs_it(
    settings: dict[str, Any], version: str, fields: dict[str, Any]
) -> None:
    built = documents(settings, version)["KubeletConfiguration"]
    assert built == {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}


def test_taints_are_left_out_on_control_plane_nodes_only() -> None:
    settings = {"untaint_control_plane": True, "control_plane_endpoint": "api:6443"}
    assert documents(settings, "v1.36.0")["InitConfiguration"]["nodeRegistration"]["taints"] == []
    joining = documents(settings, "v1.36.0", join=JOIN, control_plane=True)["JoinConfiguration"]
    assert joining["nodeRegistration"]["taints"] == []
    assert "taints" not in documents(settings, "v1.36.0", join=JOIN)["JoinConfiguration"]["nodeRegistration"]


def test_free_fields_override_the_role() -> None:
    settings = {"ipvs_scheduler": "lc", "kube_proxy_config": {"ipvs": {"scheduler": "sh"}, "clusterCIDR": "10.0.0.0/8"}}
    built = documents(settings, "v1.36.0")["KubeProxyConfiguration"]
    assert (built["ipvs"]["scheduler"], built["ipvs"]["syncPeriod"], built["clusterCIDR"]) == (
        "sh",
        "30s",
        "10.0.0.0/8",
    )


def test_free_fields_of_a_node_are_in_init_and_join() -> None:
    settings = {
        "node_name": "n1",
        "node_config": {"nodeRegistration": {"imagePullPolicy": "Never"}, "timeouts": {"discovery": "1m"}},
    }
    for built in (documents(settings, "v1.36.0"), documents(settings, "v1.36.0", join=JOIN)):
        node = built.get("InitConfiguration") or built["JoinConfiguration"]
        assert node["nodeRegistration"] == {"name": "n1", "imagePullPolicy": "Never"}
        assert node["timeouts"] == {"discovery": "1m"}


def test_values_of_the_command_line_are_texts() -> None:
    as_texts = {
        "bind_port": "7443",
        "untaint_control_plane": "true",
        "api_server_cert_sans": "a, b",
        "ipvs_strict_arp": "yes",
    }
    as_values = {
        "bind_port": 7443,
        "untaint_control_plane": True,
        "api_server_cert_sans": ["a", "b"],
        "ipvs_strict_arp": True,
    }
    assert kubeadm_config(as_texts, "v1.36.0") == kubeadm_config(as_values, "v1.36.0")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pod_subnt": "10.0.0.0/8"}, "unknown setting pod_subnt"),
        ({"pod_subnet": "10.244.0.0"}, None),
        ({"pod_subnet": "10.244.0.1/16"}, "kubeadm_pod_subnet is '10.244.0.1/16', expected a network such as"),
        ({"pod_subnet": "10.1.0.0/16,10.2.0.0/16"}, "expected a network, or one of each family"),
        (
            {"pod_subnet": "10.100.0.0/16"},
            "kubeadm_pod_subnet: 10.100.0.0/16 and kubeadm_service_subnet: 10.96.0.0/12 overlap",
        ),
        ({"service_subnet": "10.96.0.0/12,fd00::/112"}, "expected a network for each family of kubeadm_service_subnet"),
        ({"bind_port": 70000}, "kubeadm_bind_port is 70000, expected a port from 1 to 65535"),
        ({"advertise_address": "n1"}, "kubeadm_advertise_address is 'n1', expected an IP address"),
        ({"token_ttl": "0s"}, "kubeadm_token_ttl is '0s', expected a duration such as"),
        ({"swap": "on"}, "kubeadm_swap is 'on', expected one of 'fail', 'tolerate', 'limited'"),
        ({"untaint_control_plane": "perhaps"}, "kubeadm_untaint_control_plane is 'perhaps', expected true or false"),
        ({"api_server_extra_args": {"--v": 2}}, "expected names of arguments without leading dashes"),
        ({"kubernetes_version": "latest"}, "kubeadm_kubernetes_version is 'latest', expected a version such as"),
        (
            {"kubernetes_version": "v1.37.0"},
            "kubeadm_kubernetes_version is 'v1.37.0', expected at most that of kubeadm, which is v1.36.0",
        ),
        ({"ipvs_scheduler": "fastest one"}, "KubeProxyConfiguration: ipvs.scheduler is 'fastest one', expected"),
        ({"ipvs_sync_period": "soon"}, "KubeProxyConfiguration: ipvs.syncPeriod is 'soon', expected"),
        ({"ipvs_min_sync_period": "40s"}, "ipvs.minSyncPeriod is 40s, expected at most ipvs.syncPeriod"),
        ({"ipvs_exclude_cidrs": ["nowhere"]}, "ipvs.excludeCIDRs"),
        ({"kube_proxy_config": {"mode": "nftables"}}, "KubeProxyConfiguration: mode is 'nftables', expected 'ipvs'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str | None) -> None:
    if message is None:  # a single address is a network
        assert documents(settings, "v1.36.0")["ClusterConfiguration"]["networking"]["podSubnet"] == "10.244.0.0/32"
        return
    with pytest.raises(AnsibleFilterError) as failure:
        kubeadm_config(settings, "v1.36.0")
    assert message in str(failure.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(AnsibleFilterError, match=r"kubeadm_pod_subnet .*; kubeadm_bind_port .*; kubeadm_proxy "):
        kubeadm_config({"pod_subnet": "x", "bind_port": 0, "proxy": "nobody"}, "v1.36.0")


@pytest.mark.parametrize("name", ["token", "ca_cert_hash", "api_server_endpoint", "certificate_key"])
def test_bad_join_is_refused_without_its_secret(name: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"join: {name} is not as kubeadm prints it") as failure:
        kubeadm_config({}, "v1.36.0", join={**JOIN, name: "SECRET value"})
    assert "SECRET" not in str(failure.value)


def test_a_control_plane_join_needs_more() -> None:
    join = {**JOIN, "certificate_key": ""}
    with pytest.raises(AnsibleFilterError, match=r"certificate_key is not given.*kubeadm_control_plane_endpoint is ''"):
        kubeadm_config({}, "v1.36.0", join=join, control_plane=True)
    assert (
        documents({}, "v1.36.0", join=join)["JoinConfiguration"]["discovery"]["bootstrapToken"]["token"]
        == JOIN["token"]
    )
