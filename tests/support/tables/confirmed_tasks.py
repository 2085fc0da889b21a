# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks with ``confirm_timeout``: the state before them, and what they converge, by module."""

from __future__ import annotations

from typing import Any

from support.clusters import objects

SSH = {"protocol": "tcp", "address": "192.0.2.22", "port": 22}
WEB = {"protocol": "tcp", "address": "192.0.2.80", "port": 80}
QUIET = {"conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}


def proxied(name: str, ip: str, count: int) -> list[objects.Object]:
    """Return a Service with this many endpoints."""
    ends = [objects.endpoint(f"10.244.1.{number}", "n1") for number in range(1, count + 1)]
    ports = [objects.port(80, "p", node_port=30080)]
    return [objects.service(name, [ip], ports, kind="NodePort"), objects.piece(name, ends, [objects.port(8080, "p")])]


BRIDGE = {"family": "bridge"}  # the user-mode kernel of Debian has no nf_tables for IP
DROPS = "chain c { type filter hook forward priority 0\nether saddr 02:00:00:00:00:01 drop\n}"
PROXY: dict[str, Any] = {"node_name": "n1", "config": QUIET, "owner": "ansible"}
BEFORE: dict[str, dict[str, Any]] = {
    "sysctls": {"sysctls": {"net.ipv4.tcp_keepalive_time": 600}},
    "iptables_chains": {
        "chains": [
            {"name": "OLD", "rules": ["-s 192.0.2.1 -j DROP", "-s 192.0.2.9 -j DROP"], "jumps": [{"chain": "FORWARD"}]},
            {"name": "GOES", "table": "nat", "jumps": [{"chain": "OUTPUT", "position": "last"}]},
        ]
    },
    "virtual_addresses": {
        "links": [
            {"name": "vips", "addresses": ["192.0.2.80"]},
            {"name": "gone", "up": True, "addresses": ["192.0.2.90"]},
        ]
    },
    "ipvs_services": {
        "services": [
            {**WEB, "real_servers": [{"address": "198.51.100.1"}, {"address": "198.51.100.2", "weight": 3}]},
            {
                "fwmark": 7,
                "scheduler": "sh",
                "scheduler_flags": ["sh-port"],
                "persistence_timeout": 300,
                "netmask": 24,
                "real_servers": [
                    {"address": "198.51.100.3", "upper_threshold": 9, "lower_threshold": 2},
                    {
                        "address": "2001:db8::3",
                        "forwarding_method": "tunnel",
                        "tunnel_type": "gue",
                        "tunnel_port": 6080,
                    },
                ],
            },
        ],
        "timeouts": {"tcp": 800},
    },
    "ipsets": {
        "sets": [
            {"name": "changes", "type": "hash:ip", "maxelem": 500, "members": ["192.0.2.1", "192.0.2.2"]},
            {
                "name": "other",
                "type": "hash:ip",
                "comment": True,
                "members": ['192.0.2.1 comment "on call"', "192.0.2.2"],
            },
            {
                "name": "goes",
                "type": "hash:net",
                "timeout": 9000,
                "counters": True,
                "members": ["192.0.2.0/24", "10.0.0.0/8 nomatch"],
            },
            {"name": "list", "type": "list:set", "members": ["goes", "changes"]},
        ]
    },
    "nft_tables": {
        "tables": [
            {**BRIDGE, "name": "changes", "content": "set s { type mark; elements = { 1, 2 }\n}\n" + DROPS},
            {**BRIDGE, "name": "replaced", "content": "set s { type mark\n}\nchain c { meta mark @s drop\n}"},
            {**BRIDGE, "name": "goes", "content": "chain c { accept\n}"},
        ]
    },
    "service_proxy": {**PROXY, "objects": [*proxied("web", "10.96.0.10", 2), *proxied("old", "10.96.0.11", 1)[:1]]},
}
TASKS: dict[str, dict[str, Any]] = {
    "sysctls": {"sysctls": {"net.ipv4.ip_forward": 1}, "purge": "owned"},
    "iptables_chains": {
        "chains": [
            {"name": "NEW", "rules": ["-p tcp --dport 22 -j DROP"], "jumps": [{"chain": "INPUT"}]},
            {"name": "OLD", "rules": ["-s 192.0.2.2 -j DROP"]},
        ],
        "purge": "owned",
    },
    "virtual_addresses": {"links": [{"name": "vips", "up": True, "addresses": ["192.0.2.81"]}], "purge": "owned"},
    "ipvs_services": {
        "services": [
            SSH,
            {**WEB, "scheduler": "wrr", "real_servers": [{"address": "198.51.100.2"}, {"address": "198.51.100.4"}]},
        ],
        "timeouts": {"tcp": 700},
        "purge": "owned",
    },
    "ipsets": {
        "sets": [
            {"name": "dropped", "type": "hash:net", "members": ["0.0.0.0/1", "128.0.0.0/1"]},
            {"name": "changes", "type": "hash:ip", "maxelem": 600, "members": ["192.0.2.2", "192.0.2.3"]},
            {"name": "other", "type": "hash:net", "members": ["192.0.2.2", "192.0.2.128/25"]},
            {"name": "list", "type": "list:set", "members": ["changes"]},
        ],
        "purge": "owned",
    },
    "nft_tables": {
        "tables": [
            {**BRIDGE, "name": "changes", "content": "set s { type mark; elements = { 2, 3 }\n}\n" + DROPS},
            {**BRIDGE, "name": "replaced", "content": "set s { type ether_addr\n}\nchain c { ether saddr @s drop\n}"},
            {**BRIDGE, "name": "new", "content": DROPS},
        ],
        "purge": "owned",
    },
    "service_proxy": {**PROXY, "objects": [*proxied("web", "10.96.0.10", 1), *proxied("new", "10.96.0.12", 1)[:1]]},
}
