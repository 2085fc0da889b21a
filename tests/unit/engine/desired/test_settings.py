# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file: fields that kube-proxy reads or refuses, and the agent's own settings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from support.clusters.configuration import agent, kube_proxy, nested, problems
from support.kube_proxy.recorded import GOLDEN

from kubenode.engine.desired.settings import KUBE_PROXY, Config, parse
from kubenode.engine.desired.settings_fields import AGENT_FIELDS, KUBE_PROXY_FIELDS, WITHOUT_EFFECT
from kubenode.engine.kubernetes.endpoint_slice import WEIGHT
from kubenode.engine.kubernetes.service import FLAGS, SCHEDULER


def test_empty_configuration_has_all_defaults() -> None:
    assert parse([]) == (Config(), [])
    assert parse([kube_proxy()]) == (Config(), [])


def test_defaults_written_by_kube_proxy_are_defaults() -> None:
    """``kube-proxy --write-config-to`` and kubeadm's ConfigMap write every field, most of them empty."""
    document = yaml.safe_load((GOLDEN / "kube-proxy-defaults.yaml").read_text())
    config, warnings = parse([document])
    assert config._replace(mode="ipvs") == Config()
    assert warnings == ["KubeProxyConfiguration: mode is iptables; this agent works as mode ipvs does"]


def test_configuration_of_kubeadm_is_read() -> None:
    nothing: dict[str, Any] = {
        "bindAddress": "0.0.0.0",
        "bindAddressHardFail": False,
        "clientConnection": {
            "acceptContentTypes": "",
            "burst": 0,
            "contentType": "",
            "kubeconfig": "/x/kubeconfig.conf",
            "qps": 0,
        },
        "clusterCIDR": "10.244.0.0/16",
        "configSyncPeriod": "0s",
        "conntrack": {"maxPerCore": None, "min": None, "tcpCloseWaitTimeout": None, "tcpEstablishedTimeout": None},
        "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
        "detectLocalMode": "",
        "enableProfiling": False,
        "healthzBindAddress": "",
        "hostnameOverride": "",
        "iptables": {"localhostNodePorts": None, "masqueradeAll": False, "masqueradeBit": None, "minSyncPeriod": "0s"},
        "ipvs": {"excludeCIDRs": None, "scheduler": "", "strictARP": False, "syncPeriod": "0s", "tcpTimeout": "0s"},
        "logging": {"flushFrequency": 0, "options": {"json": {"infoBufferSize": "0"}}, "verbosity": 0},
        "metricsBindAddress": "",
        "nftables": {"masqueradeAll": False, "masqueradeBit": None, "minSyncPeriod": None, "syncPeriod": None},
        "nodePortAddresses": None,
        "oomScoreAdj": None,
        "portRange": "",
        "showHiddenMetricsForVersion": "",
        "winkernel": {"enableDSR": False, "networkName": "", "sourceVip": ""},
    }
    config, warnings = parse([kube_proxy(**nothing)])
    assert config == Config(kubeconfig="/x/kubeconfig.conf", cluster_cidrs=("10.244.0.0/16",))
    assert warnings == []


GIVEN = {
    "mode": ("ipvs", {}),
    "bindAddress": ("192.0.2.1", {"bind_address": "192.0.2.1"}),
    "bindAddressHardFail": (True, {"bind_address_hard_fail": True}),
    "healthzBindAddress": ("[::]:10300", {"healthz": ("::", 10300)}),
    "metricsBindAddress": ("0.0.0.0:1", {"metrics": ("0.0.0.0", 1)}),
    "enableProfiling": (True, {"enable_profiling": True}),
    "hostnameOverride": (" N1.Example ", {"hostname_override": "n1.example"}),
    "clientConnection.kubeconfig": ("/etc/k", {"kubeconfig": "/etc/k"}),
    "clientConnection.qps": (-1, {"qps": -1.0}),
    "clientConnection.burst": (100, {"burst": 100}),
    "clusterCIDR": ("10.244.0.0/16, fd00:244::/32", {"cluster_cidrs": ("10.244.0.0/16", "fd00:244::/32")}),
    "detectLocalMode": ("NodeCIDR", {"detect_local_mode": "NodeCIDR"}),
    "detectLocal.bridgeInterface": ("cni0", {"bridge_interface": "cni0"}),
    "detectLocal.interfaceNamePrefix": ("cali", {"interface_name_prefix": "cali"}),
    "nodePortAddresses": (["10.99.0.7/24", "FD00::/8"], {"node_port_addresses": ("10.99.0.0/24", "fd00::/8")}),
    "configSyncPeriod": ("1h2m3.5s", {"config_sync_period": 3723.5}),
    "oomScoreAdj": (-1000, {"oom_score_adj": -1000}),
    "iptables.masqueradeAll": (True, {"masquerade_all": True}),
    "iptables.masqueradeBit": (0, {"masquerade_bit": 0}),
    "ipvs.scheduler": ("mh", {"scheduler": "mh"}),
    "ipvs.excludeCIDRs": (["10.96.200.0/24"], {"exclude_cidrs": ("10.96.200.0/24",)}),
    "ipvs.strictARP": (True, {"strict_arp": True}),
    "ipvs.syncPeriod": ("1m0s", {"sync_period": 60.0}),
    "ipvs.minSyncPeriod": ("500ms", {"min_sync_period": 0.5}),
    "ipvs.tcpTimeout": ("1200s", {"tcp_timeout": 1200.0}),
    "ipvs.tcpFinTimeout": ("60s", {"tcp_fin_timeout": 60.0}),
    "ipvs.udpTimeout": ("200s", {"udp_timeout": 200.0}),
    "conntrack.maxPerCore": (0, {"conntrack_max_per_core": 0}),
    "conntrack.min": (0, {"conntrack_min": 0}),
    "conntrack.tcpEstablishedTimeout": ("0s", {"conntrack_tcp_established_timeout": 0.0}),
    "conntrack.tcpCloseWaitTimeout": ("30m", {"conntrack_tcp_close_wait_timeout": 1800.0}),
    "conntrack.tcpBeLiberal": (True, {"conntrack_tcp_be_liberal": True}),
    "conntrack.udpTimeout": ("10s", {"conntrack_udp_timeout": 10.0}),
    "conntrack.udpStreamTimeout": ("20s", {"conntrack_udp_stream_timeout": 20.0}),
}
OURS = {
    "gracefulTermination.maxDuration": ("15m", {"graceful_max_duration": 900.0}),
    "localFallback": ("drop", {"local_fallback": "drop"}),
    "vipPing": (True, {"vip_ping": True}),
    "localhostNodePorts": (True, {"localhost_node_ports": True}),
    "bindLoadBalancerIPs": (False, {"bind_load_balancer_ips": False}),
    "noEndpoints": ("reject", {"no_endpoints": "reject"}),
    "rules.backend": ("nftables", {"rules_backend": "nftables"}),
    "vipBinding": ("routes", {"vip_binding": "routes"}),
    "serviceCIDRs": (["10.96.0.0/12", "FD00:96:0::/108"], {"service_cidrs": ("10.96.0.0/12", "fd00:96::/108")}),
    "allowedExternalIPs": (["192.0.2.7/32", "FD00::/8"], {"allowed_external_ips": ("192.0.2.7/32", "fd00::/8")}),
    "allowedLoadBalancerIPs": (["198.51.100.0/24"], {"allowed_load_balancer_ips": ("198.51.100.0/24",)}),
    "maxVirtualServersPerService": (100, {"max_virtual_servers": 100}),
    "maxRealServersPerService": (1000, {"max_real_servers": 1000}),
    "metrics.services": ({"top": 20}, {"metrics_services": 20}),
    "history.enabled": (False, {"history_enabled": False}),
    "history.maxSize": ("64Mi", {"history_size": 64 << 20}),
    "nodeSelector": ({"b/c": "d", "a": ""}, {"node_selector": (("a", ""), ("b/c", "d"))}),
    "source.manifests.directory": ("/srv/manifests", {"manifests_directory": "/srv/manifests"}),
    "source.kubernetes.kubeconfig": ("/etc/k", {"source": "kubernetes", "kubernetes_kubeconfig": "/etc/k"}),
    "source.kubernetes.server": (
        "https://[fd00::1]:6443",
        {"source": "kubernetes", "kubernetes_server": "https://[fd00::1]:6443"},
    ),
}


@pytest.mark.parametrize(("path", "value", "wanted"), [(path, *given) for path, given in GIVEN.items()])
def test_fields_of_kube_proxy_are_read(path: str, value: Any, wanted: dict[str, Any]) -> None:
    idle = (
        [f"KubeProxyConfiguration: fields without effect on this agent are ignored: {path}"]
        if path in WITHOUT_EFFECT
        else []
    )
    assert parse([{**kube_proxy(), **nested(path, value)}]) == (Config(**wanted), idle)


@pytest.mark.parametrize(("path", "value", "wanted"), [(path, *given) for path, given in OURS.items()])
def test_fields_of_the_agent_are_read(path: str, value: Any, wanted: dict[str, Any]) -> None:
    assert parse([agent(**nested(path, value))]) == (Config(**wanted), [])


def test_every_field_has_its_case() -> None:
    assert set(GIVEN) == {path for path, field in KUBE_PROXY_FIELDS.items() if field}
    assert set(OURS) == {path for path, field in AGENT_FIELDS.items() if field}
    attributes = {field.attribute for fields in (KUBE_PROXY_FIELDS, AGENT_FIELDS) for field in fields.values() if field}
    assert attributes <= set(Config._fields)


def test_every_field_is_documented() -> None:
    page = (GOLDEN.parents[1] / "docs/reference/configuration.md").read_text()
    fields = {path for fields in (KUBE_PROXY_FIELDS, AGENT_FIELDS) for path, field in fields.items() if field}
    assert {path for path in fields if f"`{path}`" not in page} == set()
    assert {name for name in (SCHEDULER, FLAGS, WEIGHT) if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("section", [None, {}])
def test_the_source_is_the_section_that_is_given(section: Any) -> None:
    assert parse([agent(source={"kubernetes": section})])[0] == Config(source="kubernetes")
    assert parse([agent(source={"manifests": section})])[0] == Config()
    assert parse([agent(source=section)])[0] == Config()
    both = {"manifests": {"directory": "/srv"}, "kubernetes": section}
    assert problems(agent(source=both)) == (
        "AgentConfiguration: source has manifests and kubernetes, expected one of them",
    )


def test_documents_are_read_by_kind() -> None:
    assert problems(kube_proxy(), kube_proxy()) == (
        "KubeProxyConfiguration: there are two documents of this kind, expected one",
    )
    old = {"apiVersion": "kubeproxy.config.k8s.io/v1", "kind": KUBE_PROXY[1]}
    assert problems(old) == (
        (
            "KubeProxyConfiguration: apiVersion is 'kubeproxy.config.k8s.io/v1', expected"
            " 'kubeproxy.config.k8s.io/v1alpha1'"
        ),
    )
    kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    config, warnings = parse([kubelet, kube_proxy(ipvs={"scheduler": "lc"}), agent(vipPing=True)])
    assert config == Config(scheduler="lc", vip_ping=True)
    assert warnings == ["document 1: kind KubeletConfiguration is not for this agent and is ignored"]


def test_unknown_fields_are_named() -> None:
    _config, warnings = parse(
        [kube_proxy(ipvs={"schedular": "rr", "syncPeriod": "1s"}, udpIdleTimeout="0s"), agent(vipping=True)]
    )
    assert warnings == [
        "KubeProxyConfiguration: unknown field ipvs.schedular is ignored",
        "KubeProxyConfiguration: unknown field udpIdleTimeout is ignored",
        "AgentConfiguration: unknown field vipping is ignored",
    ]


def test_fields_of_other_modes_warn_once() -> None:
    document = kube_proxy(
        iptables={"localhostNodePorts": False, "syncPeriod": "10s", "minSyncPeriod": "1s", "masqueradeAll": True},
        nftables={"masqueradeBit": 15},
        winkernel={"enableDSR": True},
        featureGates={"X": True},
        showHiddenMetricsForVersion="1.35",
    )
    config, warnings = parse([document])
    assert config == Config(masquerade_all=True)
    assert warnings == [
        "KubeProxyConfiguration: fields of other modes are ignored: "
        "iptables.localhostNodePorts, iptables.syncPeriod, nftables, winkernel",
        "KubeProxyConfiguration: fields without effect on this agent are ignored: showHiddenMetricsForVersion",
    ]


def test_an_ipv6_bind_address_moves_the_defaults() -> None:
    assert parse([kube_proxy(bindAddress="::")])[0] == Config(
        bind_address="::", healthz=("::", 10256), metrics=("::1", 10249)
    )
    config, _warnings = parse([kube_proxy(bindAddress="::", metricsBindAddress="0.0.0.0:9999")])
    assert (config.healthz, config.metrics) == (("::", 10256), ("0.0.0.0", 9999))


def test_an_address_alone_means_its_usual_port() -> None:
    config, _warnings = parse([kube_proxy(healthzBindAddress="192.0.2.1", metricsBindAddress="::")])
    assert (config.healthz, config.metrics) == (("192.0.2.1", 10256), ("::", 10249))


@pytest.mark.parametrize("mode", ["", "iptables", "nftables"])
def test_another_mode_is_a_warning(mode: str) -> None:
    _config, warnings = parse([kube_proxy(mode=mode)])
    (warning,) = warnings
    assert warning.endswith("; this agent works as mode ipvs does")
