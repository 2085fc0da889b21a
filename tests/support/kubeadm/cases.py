# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the role kubeadm whose documents a real kubeadm has validated: every setting, every form of document."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.kubenode.ipvs.plugins.filter.kubeadm_config import FilterModule

kubeadm_config = FilterModule().filters()["kubeadm_config"]

VERSION = "v1.36.2"
OLDER_FORMAT = "v1.30.0"  # the last version without v1beta4
# Settings of the role's tests on this machine.
SITE: dict[str, Any] = {"control_plane_endpoint": "192.0.2.10:6443"}
OPEN_SITE: dict[str, Any] = {**SITE, "untaint_control_plane": True}
EVERYTHING: dict[str, Any] = {
    "cluster_name": "edge",
    "control_plane_endpoint": "api.example.org:6443",
    "pod_subnet": "10.32.0.0/16,fd00:32::/56",
    "service_subnet": "10.33.0.0/16,fd00:33::/112",
    "dns_domain": "edge.local",
    "image_repository": "registry.example.org/kubernetes",
    "advertise_address": "192.0.2.10",
    "bind_port": 7443,
    "node_name": "n1",
    "cri_socket": "unix:///run/containerd/containerd.sock",
    "api_server_cert_sans": ["api.example.org", "192.0.2.10"],
    "api_server_extra_args": {"profiling": False},
    "controller_manager_extra_args": {"node-cidr-mask-size-ipv4": 24},
    "scheduler_extra_args": {"v": "2"},
    "etcd_extra_args": {"quota-backend-bytes": "8589934592"},
    "kubelet_extra_args": {"node-ip": "192.0.2.10"},
    "cluster_config": {"certificatesDir": "/etc/kubernetes/pki", "dns": {"imageTag": "v1.11.1"}},
    "node_config": {
        "nodeRegistration": {"imagePullPolicy": "Never"},
        "patches": {"directory": "/etc/kubernetes/patches"},
    },
    "kubelet_config": {"rotateCertificates": True},
    "kube_proxy_config": {"conntrack": {"min": 262144}, "metricsBindAddress": "0.0.0.0:10249"},
    "skip_phases": ["addon/coredns"],
    "ignore_preflight_errors": ["NumCPU"],
    "untaint_control_plane": True,
    "token_ttl": "1h30m",
    "swap": "limited",
    "cgroup_driver": "systemd",
    "arp_load_balancer": "metallb",
    "ipvs_scheduler": "wrr",
    "ipvs_exclude_cidrs": ["192.0.2.0/24", "2001:db8::/32"],
    "ipvs_strict_arp": True,
    "ipvs_sync_period": "1m0s",
    "ipvs_min_sync_period": "2s",
    "ipvs_tcp_timeout": "15m0s",
    "ipvs_tcp_fin_timeout": "2m0s",
    "ipvs_udp_timeout": "5m0s",
}
JOIN = {
    "api_server_endpoint": "kube-apiserver:6443",
    "token": "abcdef.0123456789abcdef",
    "ca_cert_hash": "sha256:" + "0" * 64,
    "certificate_key": "",
}
JOIN_CONTROL_PLANE = {**JOIN, "certificate_key": "0" * 64}


class Case(NamedTuple):
    """Input of the documents, and with ``refused`` a part of kubeadm's error."""

    settings: dict[str, Any]
    join: dict[str, str] | None = None
    control_plane: bool = False
    older_format: bool = False
    refused: str = ""

    def documents(self, version: str = VERSION) -> list[dict[str, Any]]:
        """Return the role's documents for a kubeadm of a version.

        The cluster has kubeadm's version, also with documents of the older format.
        """
        built = kubeadm_config(
            self.settings,
            OLDER_FORMAT if self.older_format else version,
            join=self.join,
            control_plane=self.control_plane,
        )
        return [{**document, **_version(document, version)} for document in built]


def _version(document: dict[str, Any], version: str) -> dict[str, str]:
    return {"kubernetesVersion": version} if document["kind"] == "ClusterConfiguration" else {}


# Effects of single settings on the documents.
_VALUES: dict[str, dict[str, Any]] = {
    "IPv6": {"pod_subnet": "fd00:32::/56", "service_subnet": "fd00:33::/112", "advertise_address": "2001:db8::1"},
    "both families, IPv6 first": {
        "pod_subnet": "fd00:32::/56,10.32.0.0/16",
        "service_subnet": "fd00:33::/112,10.33.0.0/16",
    },
    "an endpoint without a port": {"control_plane_endpoint": "api.example.org"},
    "swap tolerated": {"swap": "tolerate"},
    "swap limited": {"swap": "limited"},
    "cgroupfs": {"cgroup_driver": "cgroupfs"},
    "no taint": {"untaint_control_plane": True},
    "an external etcd": {
        "cluster_config": {
            "etcd": {
                "external": {"endpoints": ["https://192.0.2.20:2379"], "caFile": "", "certFile": "", "keyFile": ""}
            }
        }
    },
    "volumes of the API server": {
        "cluster_config": {
            "apiServer": {"extraVolumes": [{"name": "audit", "hostPath": "/var/log/a", "mountPath": "/var/log/a"}]}
        }
    },
    "fields of the kubelet": {
        "kubelet_config": {"serverTLSBootstrap": True, "featureGates": {"KubeletTracing": True}, "maxPods": 200}
    },
    "fields of kube-proxy": {
        "kube_proxy_config": {
            "nodePortAddresses": ["primary"],
            "detectLocalMode": "NodeCIDR",
            "ipvs": {"strictARP": True},
        }
    },
    "MetalLB": {"arp_load_balancer": "metallb", "ipvs_strict_arp": True},
}
# Settings that the older format lacks.
_NEWER: dict[str, dict[str, Any]] = {
    "an argument twice": {"kubelet_extra_args": {"node-labels": ["a=1", "b=2"]}, "api_server_extra_args": {"v": 2}},
    "timeouts": {
        "node_config": {"timeouts": {"kubernetesAPICall": "30s"}, "nodeRegistration": {"imagePullSerial": False}}
    },
}
# Settings that the role accepts and kubeadm refuses.
_REFUSED: dict[str, Case] = {
    "an unknown field of the node": Case(
        {"node_config": {"nodeRegistration": {"taint": []}}}, refused='unknown field "nodeRegistration.taint"'
    ),
    "timeouts of the older format": Case(_NEWER["timeouts"], older_format=True, refused="unknown field"),
    "an unknown field of the cluster": Case({"cluster_config": {"aipServer": {}}}, refused='unknown field "aipServer"'),
    "an unknown field of the kubelet": Case({"kubelet_config": {"maxPod": 5}}, refused='unknown field "maxPod"'),
    "an unknown field of kube-proxy": Case(
        {"kube_proxy_config": {"ipvs": {"schedular": "rr"}}}, refused='unknown field "ipvs.schedular"'
    ),
    "a wrong type": Case(
        {"kubelet_config": {"maxPods": "many"}}, refused="cannot unmarshal string into Go struct field"
    ),
    "a domain that is none": Case({"dns_domain": "Cluster_Local"}, refused="networking.dnsDomain"),
    "too many Services": Case(
        {"service_subnet": "10.0.0.0/8", "pod_subnet": "192.168.0.0/16"}, refused="networking.serviceSubnet"
    ),
    "a name that no node can have": Case({"node_name": "n_1"}, refused="name"),
    "a name that no certificate can have": Case(
        {"api_server_cert_sans": ["api example"]}, refused="apiServer.certSANs"
    ),
    "an endpoint that is a URL": Case(
        {"control_plane_endpoint": "https://api:6443"},
        refused="must be a valid IP address or a valid RFC-1123 DNS subdomain",
    ),
    "too few pods": Case({"pod_subnet": "10.244.0.0/25"}, refused="networking.podSubnet"),
}

_WHOLE: dict[str, dict[str, Any]] = {"defaults": {}, "everything": EVERYTHING, "site": SITE, "open site": OPEN_SITE}


def _cases() -> dict[str, Case]:
    cases = {}
    for older, suffix in ((False, ""), (True, ", v1beta3")):
        for proxy in ("kube-proxy", "agent"):
            for name, settings in _WHOLE.items():
                cases[f"{name}, {proxy}{suffix}"] = Case({**settings, "proxy": proxy}, older_format=older)
        for name, settings in _WHOLE.items():
            cases[f"{name}, join{suffix}"] = Case(settings, join=JOIN, older_format=older)
            if settings:
                cases[f"{name}, join of a control plane{suffix}"] = Case(settings, JOIN_CONTROL_PLANE, True, older)
        cases.update({f"{name}{suffix}": Case(settings, older_format=older) for name, settings in _VALUES.items()})
    cases["site, agent on a node with a name"] = Case({**SITE, "proxy": "agent", "node_name": "one"})
    cases["an address, agent"] = Case({"proxy": "agent", "advertise_address": "192.0.2.11"})
    cases.update({name: Case(settings) for name, settings in _NEWER.items()})
    return {**cases, **_REFUSED}


CASES: dict[str, Case] = _cases()
