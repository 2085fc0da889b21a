# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sysctls that a node balancing with IPVS needs: kube-proxy's, by their dotted names."""

from __future__ import annotations

import re

from .node_facts import NodeFacts
from .settings import Config

_ALWAYS = {
    "net.ipv4.vs.conntrack": "1",
    "net.ipv4.vs.expire_nodest_conn": "1",
    "net.ipv4.vs.expire_quiescent_template": "1",
    "net.ipv4.ip_forward": "1",
}
_STRICT_ARP = {"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}
# The sysctl works from 4.1 on. From 5.9 on, the kernel's default is right.
_REUSE_MODE_SINCE, _REUSE_MODE_UNTIL = (4, 1), (5, 9)
_MOST_CONNECTIONS = 1 << 20
_BUCKETS_IN_A_PAGE = 512  # the kernel rounds their number up to whole pages
_TIMEOUTS = ("tcp_timeout_established", "tcp_timeout_close_wait", "udp_timeout", "udp_timeout_stream")
# Every sysctl that a service proxy sets with some configuration on some node.
MANAGED = frozenset(
    (
        *_ALWAYS,
        *_STRICT_ARP,
        "net.ipv4.vs.conn_reuse_mode",
        "net.ipv4.conf.all.route_localnet",
        "net.netfilter.nf_conntrack_max",
        "net.netfilter.nf_conntrack_buckets",
        "net.netfilter.nf_conntrack_tcp_be_liberal",
        *(f"net.netfilter.nf_conntrack_{name}" for name in _TIMEOUTS),
    )
)


def sysctls(config: Config, facts: NodeFacts) -> dict[str, str]:
    """Return the wanted sysctls.

    ``conn_reuse_mode`` needs the kernel version in the facts, ``nf_conntrack_max`` the number of CPUs.
    """
    values = dict(_ALWAYS)
    if config.strict_arp:
        values.update(_STRICT_ARP)
    release = re.match(r"(\d+)\.(\d+)", facts.kernel)
    if release and _REUSE_MODE_SINCE <= (int(release[1]), int(release[2])) < _REUSE_MODE_UNTIL:
        values["net.ipv4.vs.conn_reuse_mode"] = "0"
    if config.localhost_node_ports:
        values["net.ipv4.conf.all.route_localnet"] = "1"
    if config.conntrack_max_per_core and facts.cpus:
        most = min(max(config.conntrack_max_per_core * facts.cpus, config.conntrack_min), _MOST_CONNECTIONS)
        values["net.netfilter.nf_conntrack_max"] = str(most)
        if 0 < facts.conntrack_buckets < most // 4:  # a larger table may stay
            values["net.netfilter.nf_conntrack_buckets"] = str(-(-most // 4 // _BUCKETS_IN_A_PAGE) * _BUCKETS_IN_A_PAGE)
    if config.conntrack_tcp_be_liberal:
        values["net.netfilter.nf_conntrack_tcp_be_liberal"] = "1"
    configured = (
        config.conntrack_tcp_established_timeout,
        config.conntrack_tcp_close_wait_timeout,
        config.conntrack_udp_timeout,
        config.conntrack_udp_stream_timeout,
    )
    for name, seconds in zip(_TIMEOUTS, configured):
        if seconds:
            values[f"net.netfilter.nf_conntrack_{name}"] = str(int(seconds))
    return values
