# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the role kubeadm: names, defaults and checks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Union

from ansible.module_utils.common.validation import check_type_bool

from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.desired.settings_values import one_of
from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_versions import parse_version

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
# Durations of Go's time.ParseDuration, without fractions and signs.
_DURATION = re.compile(r"(?:\d+h)?(?:\d+m)?(?:\d+s)?")


class SettingsError(Exception):
    """Error for settings that cannot be used; ``problems`` lists every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Setting(NamedTuple):
    """Default and converter of a setting; the converter raises ValueError with the expected form."""

    default: Any
    convert: Callable[[Any], Any]


def text(value: Any) -> Any:
    """Accept a text."""
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def boolean(value: Any) -> bool:
    """Accept true and false, also as Ansible's command line gives them."""
    try:
        return bool(check_type_bool(value))
    except TypeError:
        raise ValueError("true or false") from None


def texts(value: Any) -> list[str]:
    """Accept a list of texts, or one text that joins them by commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of texts")
    return value


def mapping(value: Any) -> Any:
    """Accept a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError("a mapping")
    return value


def port(value: Any) -> int:
    """Accept a port, also as a text."""
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,5}", str(value)) or not 1 <= int(value) <= 65535:
        raise ValueError("a port from 1 to 65535")
    return int(value)


def address(value: Any) -> Any:
    """Accept an address, or nothing."""
    try:
        if value != "":
            ipaddress.ip_address(value)
    except ValueError:
        raise ValueError("an IP address") from None
    return value


def version(value: Any) -> Any:
    """Accept a version, or nothing."""
    if text(value):
        parse_version(value)
    return value


def subnets(value: Any) -> str:
    """Accept one network, or two of different families, joined by a comma."""
    parsed = networks(text(value))
    if not 1 <= len(parsed) <= 2 or len({network.version for network in parsed}) != len(parsed):
        raise ValueError("a network, or one of each family joined by a comma")
    return ",".join(str(network) for network in parsed)


def networks(value: str) -> list[Network]:
    """Return the networks of a text that joins them by commas.

    Raises:
        ValueError: with what was expected.
    """
    try:
        return [ipaddress.ip_network(part.strip()) for part in value.split(",")]
    except ValueError:
        raise ValueError("a network such as 10.244.0.0/16") from None


def duration(value: Any) -> Any:
    """Accept a duration greater than zero."""
    if _DURATION.fullmatch(text(value)) is None or not re.search("[1-9]", value):
        raise ValueError("a duration such as 15m0s")
    return value


def arguments(value: Any) -> Any:
    """Accept command line arguments: a mapping from name to a scalar, or to a list of scalars."""
    for name, item in mapping(value).items():
        if not isinstance(name, str) or name.startswith("-"):
            raise ValueError("names of arguments without leading dashes")
        for part in item if isinstance(item, list) else [item]:
            if not isinstance(part, (str, int, float)):
                raise ValueError(f"a scalar or a list of scalars for {name}")
    return value


# By name; a role variable has the prefix kubeadm_. The agent's parser checks KubeProxyConfiguration's fields.
SETTINGS: dict[str, Setting] = {
    "kubernetes_version": Setting("", version),
    "cluster_name": Setting("kubernetes", text),
    "control_plane_endpoint": Setting("", text),
    "pod_subnet": Setting("10.244.0.0/16", subnets),
    "service_subnet": Setting("10.96.0.0/12", subnets),
    "dns_domain": Setting("cluster.local", text),
    "image_repository": Setting("", text),
    "advertise_address": Setting("", address),
    "bind_port": Setting(6443, port),
    "node_name": Setting("", text),
    "cri_socket": Setting("", text),
    "api_server_cert_sans": Setting([], texts),
    "api_server_extra_args": Setting({}, arguments),
    "controller_manager_extra_args": Setting({}, arguments),
    "scheduler_extra_args": Setting({}, arguments),
    "etcd_extra_args": Setting({}, arguments),
    "kubelet_extra_args": Setting({}, arguments),
    "cluster_config": Setting({}, mapping),
    "node_config": Setting({}, mapping),
    "kubelet_config": Setting({}, mapping),
    "kube_proxy_config": Setting({}, mapping),
    "skip_phases": Setting([], texts),
    "ignore_preflight_errors": Setting([], texts),
    "untaint_control_plane": Setting(False, boolean),
    "token_ttl": Setting("15m0s", duration),
    "swap": Setting("fail", one_of("fail", "tolerate", "limited")),
    "cgroup_driver": Setting("", one_of("", "systemd", "cgroupfs")),
    "proxy": Setting("auto", one_of("auto", "kube-proxy", "agent")),
    "arp_load_balancer": Setting("", one_of("", "metallb", "kube-vip")),
    "ipvs_scheduler": Setting("rr", text),
    "ipvs_exclude_cidrs": Setting([], texts),
    "ipvs_strict_arp": Setting(False, boolean),
    "ipvs_sync_period": Setting("30s", text),
    "ipvs_min_sync_period": Setting("0s", text),
    "ipvs_tcp_timeout": Setting("0s", text),
    "ipvs_tcp_fin_timeout": Setting("0s", text),
    "ipvs_udp_timeout": Setting("0s", text),
}


# Fields that the free settings must not set, since the role needs their values, and the settings to use instead.
_NOT_FREE = {
    ("cluster_config", "kubernetesVersion"): "kubernetes_version",
    ("cluster_config", "controlPlaneEndpoint"): "control_plane_endpoint",
    ("cluster_config", "networking.podSubnet"): "pod_subnet",
    ("cluster_config", "networking.serviceSubnet"): "service_subnet",
    ("cluster_config", "proxy.disabled"): "proxy",
    ("node_config", "nodeRegistration.name"): "node_name",
}
# Fields that InitConfiguration and JoinConfiguration share and the role does not decide.
_OF_NODES = ("nodeRegistration", "patches", "timeouts")


def complete(given: Any) -> dict[str, Any]:
    """Return all settings, with defaults for those that are not given.

    Raises:
        SettingsError: a setting cannot be used; the error lists every problem.
    """
    if not isinstance(given, Mapping):
        raise SettingsError([f"the settings are {given!r}, expected a mapping"])
    problems = [f"unknown setting {name}" for name in given if name not in SETTINGS]
    settings = {name: setting.default for name, setting in SETTINGS.items()}
    for name, value in given.items():
        if name in SETTINGS:
            try:
                settings[name] = SETTINGS[name].convert(value)
            except ValueError as error:
                problems.append(f"kubeadm_{name} is {value!r}, expected {error}")
    if not problems:
        problems = _contradictions(settings)
    if problems:
        raise SettingsError(problems)
    return settings


def _contradictions(settings: Mapping[str, Any]) -> list[str]:
    """Return the problems of settings that contradict each other, and those of the free fields."""
    pods, services = networks(settings["pod_subnet"]), networks(settings["service_subnet"])
    problems = [
        f"kubeadm_pod_subnet: {pod} and kubeadm_service_subnet: {service} overlap, expected networks apart"
        for pod in pods
        for service in services
        if pod.version == service.version and pod.overlaps(service)
    ]
    if not {service.version for service in services} <= {pod.version for pod in pods}:
        expected = f"a network for each family of kubeadm_service_subnet ({settings['service_subnet']})"
        problems.append(f"kubeadm_pod_subnet is {settings['pod_subnet']!r}, expected {expected}")
    return problems + _taken(settings)


def _taken(settings: Mapping[str, Any]) -> list[str]:
    """Return the problems of the free fields."""
    problems = [
        f"kubeadm_{name} has {field}, which the role sets"
        for name in ("cluster_config", "kubelet_config", "kube_proxy_config")
        for field in ("apiVersion", "kind")
        if field in settings[name]
    ]
    problems += [
        f"kubeadm_node_config has {field}, expected only {', '.join(_OF_NODES)}"
        for field in settings["node_config"]
        if field not in _OF_NODES
    ]
    for (free, path), name in _NOT_FREE.items():
        section, _dot, field = path.rpartition(".")
        fields = settings[free].get(section) if section else settings[free]
        if isinstance(fields, Mapping) and field in fields:
            problems.append(f"kubeadm_{free} has {path}, expected kubeadm_{name}")
    return problems
