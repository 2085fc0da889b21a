# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of KubeProxyConfiguration and AgentConfiguration in one table each, and the reader of such tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from . import settings_values as values


class Field(NamedTuple):
    """Attribute of Config for a field, and the function that converts its value into the setting.

    The function raises ValueError with what was expected. A value that means "not given" (null always; "", 0 or "0s"
    where ``zero`` says so, as in kube-proxy's defaulting) leaves the default.
    """

    attribute: str
    convert: Callable[[Any], Any]
    zero: bool = False


# Read by kube-proxy, without a meaning for us; a field whose section is None here is accepted with all below it.
_IGNORED = None

KUBE_PROXY_FIELDS: dict[str, Field | None] = {
    "mode": Field("mode", values.one_of("", "iptables", "ipvs", "nftables")),
    "bindAddress": Field("bind_address", values.ip, True),
    "bindAddressHardFail": Field("bind_address_hard_fail", values.boolean),
    "healthzBindAddress": Field("healthz", values.host_port(10256), True),
    "metricsBindAddress": Field("metrics", values.host_port(10249), True),
    "enableProfiling": Field("enable_profiling", values.boolean),
    "hostnameOverride": Field("hostname_override", values.host_name),
    "clientConnection.kubeconfig": Field("kubeconfig", values.text),
    "clientConnection.qps": Field("qps", values.number, True),
    "clientConnection.burst": Field("burst", values.integer(0, (1 << 31) - 1), True),
    "clientConnection.acceptContentTypes": _IGNORED,
    "clientConnection.contentType": _IGNORED,
    "clusterCIDR": Field("cluster_cidrs", values.cluster_cidrs, True),
    "detectLocalMode": Field(
        "detect_local_mode", values.one_of("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"), True
    ),
    "detectLocal.bridgeInterface": Field("bridge_interface", values.interface),
    "detectLocal.interfaceNamePrefix": Field("interface_name_prefix", values.interface),
    "nodePortAddresses": Field("node_port_addresses", values.node_port_addresses),
    "configSyncPeriod": Field("config_sync_period", values.positive_duration, True),
    "oomScoreAdj": Field("oom_score_adj", values.integer(-1000, 1000)),
    "iptables.masqueradeAll": Field("masquerade_all", values.boolean),
    "iptables.masqueradeBit": Field("masquerade_bit", values.integer(0, 31)),
    "ipvs.scheduler": Field("scheduler", values.scheduler, True),
    "ipvs.excludeCIDRs": Field("exclude_cidrs", values.networks),
    "ipvs.strictARP": Field("strict_arp", values.boolean),
    "ipvs.syncPeriod": Field("sync_period", values.positive_duration, True),
    "ipvs.minSyncPeriod": Field("min_sync_period", values.duration),
    "ipvs.tcpTimeout": Field("tcp_timeout", values.ipvs_timeout),
    "ipvs.tcpFinTimeout": Field("tcp_fin_timeout", values.ipvs_timeout),
    "ipvs.udpTimeout": Field("udp_timeout", values.ipvs_timeout),
    "conntrack.maxPerCore": Field("conntrack_max_per_core", values.integer(0, (1 << 31) - 1)),
    "conntrack.min": Field("conntrack_min", values.integer(0, (1 << 31) - 1)),
    "conntrack.tcpEstablishedTimeout": Field("conntrack_tcp_established_timeout", values.duration),
    "conntrack.tcpCloseWaitTimeout": Field("conntrack_tcp_close_wait_timeout", values.duration),
    "conntrack.tcpBeLiberal": Field("conntrack_tcp_be_liberal", values.boolean),
    "conntrack.udpTimeout": Field("conntrack_udp_timeout", values.duration),
    "conntrack.udpStreamTimeout": Field("conntrack_udp_stream_timeout", values.duration),
    "iptables.localhostNodePorts": _IGNORED,
    "iptables.syncPeriod": _IGNORED,
    "iptables.minSyncPeriod": _IGNORED,
    "nftables": _IGNORED,
    "winkernel": _IGNORED,
    "windowsRunAsService": _IGNORED,
    "portRange": _IGNORED,
    "featureGates": _IGNORED,
    "logging": _IGNORED,
    "showHiddenMetricsForVersion": _IGNORED,
}
# The ignored ones that do something in another mode, with kube-proxy's defaults.
OTHER_MODES: dict[str, tuple[Any, ...]] = {
    "iptables.localhostNodePorts": (None, True),
    "iptables.syncPeriod": (None, "0s", "30s"),
    "iptables.minSyncPeriod": (None, "0s", "1s"),
    "nftables": (None, False, "0s", 14),
    "winkernel": (None, False, ""),
}

# Settings of what this agent does not have.
WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "enableProfiling": (None, False),
    "showHiddenMetricsForVersion": (None, ""),
}

AGENT_FIELDS: dict[str, Field | None] = {
    "gracefulTermination.maxDuration": Field("graceful_max_duration", values.duration),
    "localFallback": Field("local_fallback", values.one_of("cluster", "drop")),
    "vipPing": Field("vip_ping", values.boolean),
    "localhostNodePorts": Field("localhost_node_ports", values.boolean),
    "bindLoadBalancerIPs": Field("bind_load_balancer_ips", values.boolean),
    "noEndpoints": Field("no_endpoints", values.one_of("none", "reject")),
    "vipBinding": Field("vip_binding", values.one_of("addresses", "routes")),
    "serviceCIDRs": Field("service_cidrs", values.service_cidrs),
    "allowedExternalIPs": Field("allowed_external_ips", values.networks),
    "allowedLoadBalancerIPs": Field("allowed_load_balancer_ips", values.networks),
    "maxVirtualServersPerService": Field("max_virtual_servers", values.integer(1, (1 << 31) - 1)),
    "maxRealServersPerService": Field("max_real_servers", values.integer(1, (1 << 31) - 1)),
    "rules.backend": Field("rules_backend", values.one_of("auto", "iptables", "nftables")),
    "metrics.services": Field("metrics_services", values.metrics_services),
    "history.enabled": Field("history_enabled", values.boolean),
    "history.maxSize": Field("history_size", values.mebibytes(1, 1024)),
    "nodeSelector": Field("node_selector", values.node_labels),
    "source.manifests.directory": Field("manifests_directory", values.path),
    "source.kubernetes.kubeconfig": Field("kubernetes_kubeconfig", values.path, True),
    "source.kubernetes.server": Field("kubernetes_server", values.url, True),
}


class Reader:
    """Reader of one document by a table of fields.

    It collects the fields that are wrong, unknown, used only in another mode, or without effect.
    """

    def __init__(self, kind: str, document: Mapping[str, Any]) -> None:
        self.problems: list[str] = []
        self.unknown: list[str] = []
        self.ignored: list[str] = []
        self.idle: list[str] = []
        self._kind = kind
        self._document = document

    def read(self, fields: Mapping[str, Field | None], settings: dict[str, Any]) -> None:
        """Put the settings that the document gives into ``settings``."""
        sections = {path[:cut] for path in fields for cut in range(len(path)) if path[cut] == "."}
        rest = {key: value for key, value in self._document.items() if key not in ("apiVersion", "kind", "metadata")}
        self._walk("", rest, fields, sections, settings)

    def one_section_of(self, path: str, names: tuple[str, ...]) -> str:
        """Return which section of a section is given, if only empty; the first if none is. Two are a problem."""
        section = self._document.get(path)
        given = [name for name in names if isinstance(section, Mapping) and name in section]
        if len(given) > 1:
            self.problems.append(f"{self._kind}: {path} has {' and '.join(given)}, expected one of them")
        return given[0] if given else names[0]

    def _walk(
        self,
        prefix: str,
        mapping: Mapping[str, Any],
        fields: Mapping[str, Field | None],
        sections: set[str],
        settings: dict[str, Any],
    ) -> None:
        for key, value in mapping.items():
            path = f"{prefix}{key}"
            if path in sections:
                if isinstance(value, Mapping):
                    self._walk(f"{path}.", value, fields, sections, settings)
                elif value is not None:
                    self._refuse(path, value, "a mapping")
            elif path not in fields:
                self.unknown.append(path)
            else:
                self._take(path, value, fields[path], settings)

    def _take(self, path: str, value: Any, field: Field | None, settings: dict[str, Any]) -> None:
        if path in WITHOUT_EFFECT and _is_set(value, WITHOUT_EFFECT[path]):
            self.idle.append(path)
        if field is None:
            if path in OTHER_MODES and _is_set(value, OTHER_MODES[path]):
                self.ignored.append(path)
            return
        if value is None or (field.zero and value in ("", 0, "0", "0s")):
            return
        try:
            settings[field.attribute] = field.convert(value)
        except ValueError as error:
            self._refuse(path, value, str(error))

    def _refuse(self, path: str, value: Any, expected: str) -> None:
        self.problems.append(f"{self._kind}: {path} is {value!r}, expected {expected}")


def _is_set(value: Any, unset: tuple[Any, ...]) -> bool:
    """Tell whether a field is set, or a field of a section."""
    if isinstance(value, Mapping):
        return any(_is_set(item, unset) for item in value.values())
    return value not in unset
