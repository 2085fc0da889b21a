# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``kubespray_proxy_config``: Kubespray's variables as a KubeProxyConfiguration."""

from __future__ import annotations

import json
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: kubespray_proxy_config
short_description: Convert Kubespray's variables to a KubeProxyConfiguration
version_added: 0.1.0
description:
  - Returns the fields of a KubeProxyConfiguration for the variables of a Kubespray inventory that are about kube-proxy
    and the pod network. A variable that is not given has no field, so kube-proxy's default applies, which is also
    Kubespray's.
  - C(kube_proxy_mode) has no field, because the agent always balances by IPVS.
  - The role P(kubenode.ipvs.agent#role) uses it for nodes in the group C(k8s_cluster).
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input
options:
  _input:
    description:
      - Variables by name. Other variables than Kubespray's are ignored.
    type: dict
    required: true
seealso:
  - plugin: kubenode.ipvs.kubeadm_config
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the configuration for two of Kubespray's variables
  ansible.builtin.debug:
    msg: >-
      {{ {'kube_proxy_scheduler': 'wrr', 'kube_pods_subnet': '10.233.64.0/18'} |
      kubenode.ipvs.kubespray_proxy_config }}
"""

RETURN = r"""
_value:
  description: The fields of the KubeProxyConfiguration.
  type: dict
"""

# Kubespray's variable -> the field of KubeProxyConfiguration. Names: Kubespray 2.31, roles/kubernetes/control-plane
# (defaults of kube-proxy) and kubespray-defaults.
FIELDS = {
    "kube_override_hostname": "hostnameOverride",
    "kube_proxy_bind_address": "bindAddress",
    "kube_proxy_client_accept_content_types": "clientConnection.acceptContentTypes",
    "kube_proxy_client_burst": "clientConnection.burst",
    "kube_proxy_client_content_type": "clientConnection.contentType",
    "kube_proxy_client_qps": "clientConnection.qps",
    "kube_proxy_config_sync_period": "configSyncPeriod",
    "kube_proxy_conntrack_max_per_core": "conntrack.maxPerCore",
    "kube_proxy_conntrack_min": "conntrack.min",
    "kube_proxy_conntrack_tcp_close_wait_timeout": "conntrack.tcpCloseWaitTimeout",
    "kube_proxy_conntrack_tcp_established_timeout": "conntrack.tcpEstablishedTimeout",
    "kube_proxy_enable_profiling": "enableProfiling",
    "kube_proxy_exclude_cidrs": "ipvs.excludeCIDRs",
    "kube_proxy_healthz_bind_address": "healthzBindAddress",
    "kube_proxy_masquerade_all": "iptables.masqueradeAll",
    "kube_proxy_masquerade_bit": "iptables.masqueradeBit",
    "kube_proxy_metrics_bind_address": "metricsBindAddress",
    "kube_proxy_min_sync_period": "ipvs.minSyncPeriod",
    "kube_proxy_nodeport_addresses": "nodePortAddresses",
    "kube_proxy_oom_score_adj": "oomScoreAdj",
    "kube_proxy_port_range": "portRange",
    "kube_proxy_scheduler": "ipvs.scheduler",
    "kube_proxy_strict_arp": "ipvs.strictARP",
    "kube_proxy_sync_period": "ipvs.syncPeriod",
    "kube_proxy_tcp_fin_timeout": "ipvs.tcpFinTimeout",
    "kube_proxy_tcp_timeout": "ipvs.tcpTimeout",
    "kube_proxy_udp_timeout": "ipvs.udpTimeout",
}
LISTS = ("kube_proxy_exclude_cidrs", "kube_proxy_nodeport_addresses")
NUMBERS = (
    "kube_proxy_client_burst",
    "kube_proxy_client_qps",
    "kube_proxy_conntrack_max_per_core",
    "kube_proxy_conntrack_min",
    "kube_proxy_masquerade_bit",
    "kube_proxy_oom_score_adj",
)
SWITCHES = ("kube_proxy_enable_profiling", "kube_proxy_masquerade_all", "kube_proxy_strict_arp")
# Kubespray sets the pods' networks from these: a network, whether the family is on, and the variable's value if it is
# not given. The second name of a switch is that of Kubespray before 2.28.
NETWORKS = (
    ("kube_pods_subnet", ("ipv4_stack",), True),
    ("kube_pods_subnet_ipv6", ("ipv6_stack", "enable_dual_stack_networks"), False),
)


def kubespray_proxy_config(variables: Any) -> dict[str, Any]:
    """Return the fields of a KubeProxyConfiguration for Kubespray's variables.

    Raises:
        AnsibleFilterError: a value is not of the type that Kubespray expects.
    """
    if not isinstance(variables, dict):
        raise AnsibleFilterError(
            f"kubespray_proxy_config: got {type(variables).__name__}, expected a dict of variables"
        )
    config: dict[str, Any] = {}
    for name, path in FIELDS.items():
        if name in variables and variables[name] not in (None, ""):
            _put(config, path.split("."), _value(name, variables[name]))
    networks = [
        str(variables[name])
        for name, switches, default in NETWORKS
        if variables.get(name)
        and next((_switch(switch, variables[switch]) for switch in switches if switch in variables), default)
    ]
    if networks:
        config["clusterCIDR"] = ",".join(networks)
    return config


def _value(name: str, value: Any) -> Any:
    """Return a value in the type of its field; inventories in INI format have text only."""
    if name in LISTS:
        return _list(name, value)
    if name in SWITCHES:
        return _switch(name, value)
    if name in NUMBERS:
        try:
            return int(value)
        except (TypeError, ValueError):
            raise _wrong(name, value, "a number") from None
    return str(value)


def _list(name: str, value: Any) -> list[str]:
    """Return a list that is one, or is written as one: ``[10.0.0.0/8]``, ``10.0.0.0/8,192.0.2.0/24``."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = [part.strip(" '\"") for part in value.strip("[] \n").split(",")]
    if not isinstance(value, list):
        raise _wrong(name, value, "a list of networks")
    return [str(each) for each in value if each]


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return str(value).lower() in ("true", "yes", "on", "1")
    raise _wrong(name, value, "true or false")


def _put(config: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        config = config.setdefault(part, {})
    config[path[-1]] = value


def _wrong(name: str, value: Any, expected: str) -> AnsibleFilterError:
    return AnsibleFilterError(f"kubespray_proxy_config: {name} is {str(value)[:100]!r}, expected {expected}")


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubespray_proxy_config": kubespray_proxy_config}
