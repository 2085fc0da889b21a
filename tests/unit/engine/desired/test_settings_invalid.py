# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Invalid configuration: each problem names document, field, value and expectation."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters.configuration import agent, kube_proxy, nested, problems


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("mode", "userspace", "one of '', 'iptables', 'ipvs', 'nftables'"),
        ("hostnameOverride", " ", "the name of a node"),
        ("bindAddress", "10.0.0", "an IPv4 or IPv6 address"),
        ("healthzBindAddress", "localhost:10256", "ADDRESS:PORT such as"),
        ("healthzBindAddress", "0.0.0.0:65536", "a port from 1 to 65535"),
        ("healthzBindAddress", "0.0.0.0:0", "a port from 1 to 65535"),
        ("healthzBindAddress", "0.0.0.0:", "a port from 1 to 65535"),
        ("healthzBindAddress", "::1:10256", "ADDRESS:PORT such as"),
        ("healthzBindAddress", "[0.0.0.0]:10256", "ADDRESS:PORT such as"),
        ("metricsBindAddress", ":10249", "ADDRESS:PORT such as"),
        ("metricsBindAddress", 10249, "ADDRESS:PORT such as"),
        ("metricsBindAddress", "::1:10249x", "ADDRESS:PORT such as"),
        ("clusterCIDR", "10.244.0.0", "networks such as"),
        ("clusterCIDR", "10.244.0.0/16,10.245.0.0/16", "at most one network of each family"),
        ("detectLocalMode", "Magic", "one of 'ClusterCIDR'"),
        ("detectLocal.bridgeInterface", "a-name-that-is-too-long", "at most 15 characters"),
        ("nodePortAddresses", ["10.0.0.0/33"], "'10.0.0.0/33' is not one"),
        ("nodePortAddresses", ["primary", "10.0.0.0/8"], "nothing but 'primary'"),
        ("nodePortAddresses", "10.0.0.0/8", "a list of networks"),
        ("configSyncPeriod", "-1s", "a duration greater than 0"),
        ("oomScoreAdj", 1001, "an integer from -1000 to 1000"),
        ("iptables.masqueradeBit", 32, "an integer from 0 to 31"),
        ("iptables.masqueradeAll", "yes", "true or false"),
        ("ipvs.scheduler", "round-robin", "one of 'rr', 'wrr'"),
        ("ipvs.excludeCIDRs", ["10.0.0.1"], "'10.0.0.1' is not one"),
        ("ipvs.syncPeriod", "-30s", "a duration greater than 0"),
        ("ipvs.syncPeriod", 30, "a duration such as"),
        ("ipvs.syncPeriod", "30", "a duration such as"),
        ("ipvs.minSyncPeriod", "-1s", "a duration that is not negative"),
        ("ipvs.tcpTimeout", "-1s", "a duration that is not negative"),
        ("ipvs.tcpFinTimeout", "-1s", "a duration that is not negative"),
        ("ipvs.udpTimeout", "600h", "a duration of at most 2147483s, which the kernel can count"),
        ("conntrack.maxPerCore", -1, "an integer from 0"),
        ("conntrack.min", 1.5, "an integer from 0"),
        ("conntrack.tcpEstablishedTimeout", "9" * 400 + "s", "a duration of less than 2562048h"),
        ("clientConnection.burst", True, "an integer from 0"),
        ("clientConnection.qps", "many", "a number"),
        ("ipvs", [], "a mapping"),
    ],
)
def test_invalid_values_of_kube_proxy_are_named(path: str, value: Any, expected: str) -> None:
    (problem,) = problems({**kube_proxy(), **nested(path, value)})
    assert problem.startswith(f"KubeProxyConfiguration: {path} is {value!r}, expected ")
    assert expected in problem


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("localFallback", "node", "one of 'cluster', 'drop'"),
        ("noEndpoints", True, "one of 'none', 'reject'"),
        ("rules.backend", "nft", "one of 'auto', 'iptables', 'nftables'"),
        ("vipBinding", "x", "one of 'addresses', 'routes'"),
        ("serviceCIDRs", "10.96.0.0/12", "a list of networks"),
        ("serviceCIDRs", ["10.96.0.0"], "'10.96.0.0' is not one"),
        ("serviceCIDRs", ["fd00:96::/108", "10.96.0.1/12"], "without host bits; '10.96.0.1/12' is in 10.96.0.0/12"),
        ("serviceCIDRs", ["10.96.0.1/32"], "networks of cluster IPs such as 10.96.0.0/12; '10.96.0.1/32' is not one"),
        ("serviceCIDRs", ["0.0.0.0/0"], "'0.0.0.0/0' is not one"),
        ("serviceCIDRs", ["::/0"], "'::/0' is not one"),
        ("gracefulTermination.maxDuration", "-1m", "a duration that is not negative"),
        ("metrics.services", True, "off, all, or top: K"),
        ("metrics.services", {"top": 0}, "off, all, or top: K"),
        ("metrics.services", {"top": 1, "all": 1}, "off, all, or top: K"),
        ("history.enabled", "off", "true or false"),
        ("history.maxSize", "16M", "a quantity from 1Mi to 1024Mi"),
        ("history.maxSize", 16777216, "a quantity from 1Mi to 1024Mi"),
        ("history.maxSize", "0Mi", "a quantity from 1Mi to 1024Mi"),
        ("history.maxSize", "1025Mi", "a quantity from 1Mi to 1024Mi"),
        ("nodeSelector", ["kubenode.ipvs/proxy"], "labels such as {kubenode.ipvs/proxy: agent}"),
        ("nodeSelector", {"kubenode.ipvs/agent": True}, "with texts as values"),
        ("source.manifests.directory", "manifests", "an absolute path"),
        ("source.kubernetes.kubeconfig", "kubeconfig", "an absolute path"),
        ("source.kubernetes.server", "192.0.2.1:6443", "a URL such as https://192.0.2.1:6443"),
        ("source.kubernetes", "yes", "a mapping"),
    ],
)
def test_invalid_values_of_the_agent_are_named(path: str, value: Any, expected: str) -> None:
    (problem,) = problems(agent(**nested(path, value)))
    assert problem.startswith(f"AgentConfiguration: {path} is {value!r}, expected ")
    assert expected in problem


def test_all_problems_are_named_at_once() -> None:
    texts = problems(
        kube_proxy(ipvs={"scheduler": "x", "syncPeriod": "y"}, oomScoreAdj=5000), agent(vipPing=1), {"kind": None}, 5
    )
    assert [problem.split(" is ")[0] for problem in texts] == [
        "KubeProxyConfiguration: ipvs.scheduler",
        "KubeProxyConfiguration: ipvs.syncPeriod",
        "KubeProxyConfiguration: oomScoreAdj",
        "AgentConfiguration: vipPing",
        "document 3: kind",
        "document 4",
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"ipvs": {"syncPeriod": "10s", "minSyncPeriod": "20s"}},
            "ipvs.minSyncPeriod is 20s, expected at most ipvs.syncPeriod (10s)",
        ),
        (
            {"detectLocalMode": "BridgeInterface"},
            "detectLocal.bridgeInterface is '', expected a name, as detectLocalMode is BridgeInterface",
        ),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"bridgeInterface": "x"}},
            "detectLocal.interfaceNamePrefix is '', expected a name, as detectLocalMode is InterfaceNamePrefix",
        ),
    ],
)
def test_contradicting_settings_are_named(fields: dict[str, Any], problem: str) -> None:
    assert problems(kube_proxy(**fields)) == (f"KubeProxyConfiguration: {problem}",)


@pytest.mark.parametrize("pods", ["10.96.0.0/11", "10.100.0.0/16"])
def test_overlapping_service_and_pod_networks_are_named(pods: str) -> None:
    (problem,) = problems(kube_proxy(clusterCIDR=pods), agent(serviceCIDRs=["10.96.0.0/12", "fd00:96::/108"]))
    assert (
        problem
        == f"AgentConfiguration: serviceCIDRs has '10.96.0.0/12', expected networks apart from clusterCIDR ({pods})"
    )
