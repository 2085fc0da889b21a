# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubespray's variables about kube-proxy: each has its field, in the field's type, or a reason to have none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.kubespray_proxy_config import FIELDS, NETWORKS, FilterModule

convert = FilterModule().filters()["kubespray_proxy_config"]
PAGE = Path(__file__).parents[4] / "docs/how-to/kubespray.md"
# All names of Kubespray's defaults for kube-proxy (2.31), and those of its cluster-wide defaults that kube-proxy's
# configuration uses.
KUBESPRAY = """
kube_override_hostname kube_pods_subnet kube_pods_subnet_ipv6 kube_proxy_bind_address
kube_proxy_client_accept_content_types kube_proxy_client_burst kube_proxy_client_content_type
kube_proxy_client_kubeconfig kube_proxy_client_qps kube_proxy_config_sync_period kube_proxy_conntrack_max_per_core
kube_proxy_conntrack_min kube_proxy_conntrack_tcp_close_wait_timeout kube_proxy_conntrack_tcp_established_timeout
kube_proxy_enable_profiling kube_proxy_exclude_cidrs kube_proxy_healthz_bind_address kube_proxy_masquerade_all
kube_proxy_masquerade_bit kube_proxy_metrics_bind_address kube_proxy_min_sync_period kube_proxy_mode
kube_proxy_nodeport_addresses kube_proxy_oom_score_adj kube_proxy_port_range kube_proxy_remove kube_proxy_scheduler
kube_proxy_strict_arp kube_proxy_sync_period kube_proxy_tcp_fin_timeout kube_proxy_tcp_timeout kube_proxy_udp_timeout
kube_service_addresses
""".split()


def test_page_has_every_variable_with_its_field() -> None:
    rows = dict(re.findall(r"^\| `(kube_\w+)`(?:, `\w+`)* \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE))
    assert sorted(rows) == sorted(KUBESPRAY)
    assert {name: rows[name] for name in FIELDS} == {name: f"`{field}`" for name, field in FIELDS.items()}
    assert {rows[name] for name, _switches, _default in NETWORKS} == {"`clusterCIDR`"}
    assert {name for name, field in rows.items() if field.startswith("none: ")} == {
        "kube_proxy_client_kubeconfig",
        "kube_proxy_mode",
        "kube_proxy_remove",
        "kube_service_addresses",
    }


def test_variables_become_fields() -> None:
    assert convert(
        {
            "kube_proxy_mode": "ipvs",
            "kube_proxy_scheduler": "wrr",
            "kube_proxy_strict_arp": True,
            "kube_proxy_exclude_cidrs": ["192.0.2.0/24"],
            "kube_proxy_nodeport_addresses": ["10.0.0.0/8"],
            "kube_proxy_conntrack_min": 131072,
            "kube_pods_subnet": "10.233.64.0/18",
            "kube_proxy_port_range": "",
            "bin_dir": "/usr/local/bin",
        }
    ) == {
        "ipvs": {"scheduler": "wrr", "strictARP": True, "excludeCIDRs": ["192.0.2.0/24"]},
        "nodePortAddresses": ["10.0.0.0/8"],
        "conntrack": {"min": 131072},
        "clusterCIDR": "10.233.64.0/18",
    }


@pytest.mark.parametrize(
    ("given", "networks"),
    [
        ({}, "10.233.64.0/18"),
        ({"ipv6_stack": True}, "10.233.64.0/18,fd85:ee78:d8a6:8607::1:0000/112"),
        ({"ipv6_stack": "true", "ipv4_stack": "false"}, "fd85:ee78:d8a6:8607::1:0000/112"),
        ({"enable_dual_stack_networks": True}, "10.233.64.0/18,fd85:ee78:d8a6:8607::1:0000/112"),
        ({"ipv6_stack": False, "enable_dual_stack_networks": True}, "10.233.64.0/18"),
    ],
)
def test_pod_networks_follow_the_families(given: dict[str, Any], networks: str) -> None:
    pods = {"kube_pods_subnet": "10.233.64.0/18", "kube_pods_subnet_ipv6": "fd85:ee78:d8a6:8607::1:0000/112"}
    assert convert({**pods, **given}) == {"clusterCIDR": networks}


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("[]", []),
        ("[10.0.0.0/8]", ["10.0.0.0/8"]),
        ("10.0.0.0/8, fd00::/8", ["10.0.0.0/8", "fd00::/8"]),
        ('["::/0"]', ["::/0"]),
    ],
)
def test_list_may_be_text(text: str, networks: list[str]) -> None:
    assert convert({"kube_proxy_nodeport_addresses": text}) == {"nodePortAddresses": networks}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("kube_proxy_strict_arp", "maybe", "true or false"),
        ("kube_proxy_conntrack_min", "many", "a number"),
        ("kube_proxy_exclude_cidrs", 7, "a list of networks"),
        ("ipv6_stack", "maybe", "true or false"),
    ],
)
def test_wrong_value_is_named(name: str, value: Any, expected: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"^kubespray_proxy_config: {name} is '{value}', expected {expected}$"):
        convert({name: value, "kube_pods_subnet_ipv6": "fd00::/64"})


def test_wrong_variables_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="got list, expected a dict of variables"):
        convert([])
