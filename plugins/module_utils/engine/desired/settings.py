# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration: KubeProxyConfiguration as kube-proxy reads it, and our own settings in AgentConfiguration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import EngineError

KUBE_PROXY = ("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration")
AGENT = ("kubenode.ipvs/v1alpha1", "AgentConfiguration")


class ConfigError(EngineError):
    """The configuration cannot be used. ``problems`` has every reason: field, value and what was expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Config(NamedTuple):
    """All settings, with kube-proxy's defaults. Durations are in seconds, addresses and networks canonical.

    ``cluster_cidrs`` has at most one network per family; ``node_port_addresses`` is empty for all addresses, or
    ``("primary",)``. ``healthz`` and ``metrics`` are (address, port). From ``graceful_max_duration`` on they are
    AgentConfiguration's.
    """

    mode: str = "ipvs"
    bind_address: str = "0.0.0.0"
    bind_address_hard_fail: bool = False
    healthz: tuple[str, int] = ("0.0.0.0", 10256)
    metrics: tuple[str, int] = ("127.0.0.1", 10249)
    enable_profiling: bool = False
    hostname_override: str = ""
    kubeconfig: str = ""
    qps: float = 5.0
    burst: int = 10
    cluster_cidrs: tuple[str, ...] = ()
    detect_local_mode: str = "ClusterCIDR"
    bridge_interface: str = ""
    interface_name_prefix: str = ""
    node_port_addresses: tuple[str, ...] = ()
    config_sync_period: float = 900.0
    oom_score_adj: int = -999
    masquerade_all: bool = False
    masquerade_bit: int = 14
    scheduler: str = "rr"
    exclude_cidrs: tuple[str, ...] = ()
    strict_arp: bool = False
    sync_period: float = 30.0
    min_sync_period: float = 0.0
    tcp_timeout: float = 0.0
    tcp_fin_timeout: float = 0.0
    udp_timeout: float = 0.0
    conntrack_max_per_core: int = 32768
    conntrack_min: int = 131072
    conntrack_tcp_established_timeout: float = 86400.0
    conntrack_tcp_close_wait_timeout: float = 3600.0
    conntrack_tcp_be_liberal: bool = False
    conntrack_udp_timeout: float = 0.0
    conntrack_udp_stream_timeout: float = 0.0
    # AgentConfiguration: where we differ from kube-proxy, if asked to
    graceful_max_duration: float = 0.0  # how long a real server may drain; 0 = until its last connection is gone
    local_fallback: str = "cluster"  # policy Local without local endpoints: "cluster" (as kube-proxy) or "drop"
    vip_ping: bool = False  # answer echo requests to virtual addresses
    localhost_node_ports: bool = False  # node ports on 127.0.0.1
    bind_load_balancer_ips: bool = True  # load balancer addresses on kube-ipvs0
    no_endpoints: str = "none"  # virtual servers without endpoints: "none" (as the kernel does) or "reject"
    vip_binding: str = "addresses"  # what leads virtual addresses to IPVS: "addresses" on kube-ipvs0, or local "routes"
    service_cidrs: tuple[str, ...] = ()  # the networks of cluster IPs, each of which takes one route
    allowed_external_ips: tuple[str, ...] = ()  # networks; () = every address that is not reserved (address_policy.py)
    allowed_load_balancer_ips: tuple[str, ...] = ()
    max_virtual_servers: int = 4096  # of one Service
    max_real_servers: int = 65536
    rules_backend: str = "auto"  # what holds rules and sets: "auto", "iptables" or "nftables"
    metrics_services: str | int = "off"  # metrics that name Services: "off", "all", or the number of the busiest
    history_enabled: bool = True  # keep the node's history
    history_size: int = 16 << 20  # bytes that it may take
    source: str = "manifests"  # where objects come from: "manifests" or "kubernetes"
    node_selector: tuple[tuple[str, str], ...] = ()  # labels without which another proxy serves the node
    manifests_directory: str = "/etc/kubenode/manifests"
    kubernetes_kubeconfig: str = ""  # "" = clientConnection.kubeconfig, or else the service account of the pod
    kubernetes_server: str = ""  # goes before the kubeconfig's


def parse(documents: Sequence[Mapping[str, Any]]) -> tuple[Config, list[str]]:
    """Read a configuration file's documents; without any, all is default.

    Returns:
        The configuration, and warnings: fields that are unknown, belong to other modes or have no effect, documents of
        other kinds.

    Raises:
        ConfigError: with all that is wrong.
    """
    from .settings_fields import AGENT_FIELDS, KUBE_PROXY_FIELDS, Reader

    settings: dict[str, Any] = {}
    problems: list[str] = []
    warnings: list[str] = []
    seen: set[tuple[str, str]] = set()
    for number, document in enumerate(documents, 1):
        if not isinstance(document, Mapping):
            problems.append(f"document {number} is {document!r}, expected a mapping with apiVersion and kind")
            continue
        identity = (str(document.get("apiVersion")), str(document.get("kind")))
        if identity not in (KUBE_PROXY, AGENT):
            if identity[1] in (KUBE_PROXY[1], AGENT[1]):
                wanted = (KUBE_PROXY if identity[1] == KUBE_PROXY[1] else AGENT)[0]
                problems.append(f"{identity[1]}: apiVersion is {document.get('apiVersion')!r}, expected {wanted!r}")
            elif document.get("kind") is None:
                problems.append(f"document {number}: kind is None, expected {KUBE_PROXY[1]} or {AGENT[1]}")
            else:
                warnings.append(f"document {number}: kind {identity[1]} is not for this agent and is ignored")
            continue
        if identity in seen:
            problems.append(f"{identity[1]}: there are two documents of this kind, expected one")
            continue
        seen.add(identity)
        reader = Reader(identity[1], document)
        reader.read(KUBE_PROXY_FIELDS if identity == KUBE_PROXY else AGENT_FIELDS, settings)
        if identity == AGENT:
            settings["source"] = reader.one_section_of("source", ("manifests", "kubernetes"))
        problems.extend(reader.problems)
        warnings.extend(f"{identity[1]}: unknown field {path} is ignored" for path in reader.unknown)
        if reader.ignored:
            warnings.append(f"{identity[1]}: fields of other modes are ignored: {', '.join(reader.ignored)}")
        if reader.idle:
            warnings.append(f"{identity[1]}: fields without effect on this agent are ignored: {', '.join(reader.idle)}")
    if ":" in settings.get("bind_address", ""):
        settings = {"healthz": ("::", 10256), "metrics": ("::1", 10249), **settings}
    config = Config(**settings)
    if not problems:
        problems.extend(_contradictions(config))
        if config.mode != "ipvs":
            mode = config.mode or "iptables, the default"
            warnings.append(f"KubeProxyConfiguration: mode is {mode}; this agent works as mode ipvs does")
    if problems:
        raise ConfigError(problems)
    return config, warnings


def _contradictions(config: Config) -> list[str]:
    """Return one sentence for each setting that contradicts another one."""
    from ..model.net import overlap

    texts = []
    subject = "KubeProxyConfiguration"
    if config.min_sync_period > config.sync_period:
        expected = f"at most ipvs.syncPeriod ({config.sync_period:g}s)"
        texts.append(f"{subject}: ipvs.minSyncPeriod is {config.min_sync_period:g}s, expected {expected}")
    needed = {
        "BridgeInterface": ("detectLocal.bridgeInterface", config.bridge_interface),
        "InterfaceNamePrefix": ("detectLocal.interfaceNamePrefix", config.interface_name_prefix),
    }.get(config.detect_local_mode)
    if needed and not needed[1]:
        texts.append(f"{subject}: {needed[0]} is '', expected a name, as detectLocalMode is {config.detect_local_mode}")
    for cidr in config.service_cidrs:
        for pods in config.cluster_cidrs:
            if overlap(cidr, pods):
                texts.append(
                    f"AgentConfiguration: serviceCIDRs has {cidr!r}, expected networks apart from clusterCIDR ({pods})"
                )
    return texts
