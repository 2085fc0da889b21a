# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the role prepare on a prepared node, and of a task without changes, against the usual modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import Row
from .tasks import Task, time_tasks

if TYPE_CHECKING:
    from .node import Node

ROUNDS = 5
SERVICES, REAL_SERVERS = 200, 5

MODULES = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "nf_conntrack", "br_netfilter"]
SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.ipv4.vs.conntrack": "1",
    "net.ipv4.vs.expire_nodest_conn": "1",
    "net.ipv4.vs.expire_quiescent_template": "1",
    "net.ipv4.vs.conn_reuse_mode": "1",
    "net.ipv4.conf.all.arp_ignore": "1",
    "net.ipv4.conf.all.arp_announce": "2",
}

# The role's own owner: the next section runs the role on this node.
OURS: list[Task] = [
    {"name": "ours", "kubenode.ipvs.kernel_settings": {"owner": "prepare", "modules": MODULES, "sysctls": SYSCTLS}},
]
THEIRS: list[Task] = [
    {
        "name": "their modules",
        "community.general.modprobe": {"name": "{{ item }}", "state": "present", "persistent": "present"},
        "loop": MODULES,
    },
    {
        "name": "their sysctls",
        "ansible.posix.sysctl": {
            "name": "{{ item.key }}",
            "value": "{{ item.value }}",
            "sysctl_file": "/etc/sysctl.d/90-bench.conf",
        },
        "loop": "{{ sysctls | dict2items }}",
    },
]


def _services() -> list[dict[str, object]]:
    return [
        {
            "protocol": "tcp",
            "address": f"10.96.{index // 250}.{index % 250 + 1}",
            "port": 80,
            "real_servers": [
                {"address": f"10.244.{index % 250}.{real + 1}", "port": 8080} for real in range(REAL_SERVERS)
            ],
        }
        for index in range(SERVICES)
    ]


def measure(node: Node) -> list[Row]:
    """Return the rows; leave the modules and sysctls set."""
    seconds = time_tasks(node, (OURS + THEIRS) * (ROUNDS + 1), {"sysctls": SYSCTLS})
    theirs = [
        modules + sysctls for modules, sysctls in zip(seconds["their modules"], seconds["their sysctls"], strict=True)
    ]
    converge = {
        "name": "ipvs_services",
        "kubenode.ipvs.ipvs_services": {"owner": "bench", "services": "{{ services }}"},
    }
    remove = {"name": "remove", "kubenode.ipvs.ipvs_services": {"owner": "bench", "services": [], "purge": "owned"}}
    ping = {"name": "ping", "ansible.builtin.ping": {}}
    tasks = time_tasks(node, [converge, *[ping, converge] * (ROUNDS + 1), remove], {"services": _services()})
    return [
        Row(
            f"prepare: {len(MODULES)} kernel modules and {len(SYSCTLS)} sysctls on a node that has them",
            "`community.general.modprobe` and `ansible.posix.sysctl` in loops",
            seconds["ours"][1:],
            theirs[1:],
            bar=1 / 8,
        ),
        Row(
            f"an `ipvs_services` task that has nothing to do, {SERVICES} x {REAL_SERVERS}",
            "an `ansible.builtin.ping` task",
            tasks["ipvs_services"][2:],
            tasks["ping"][1:],
            bar=1.5,
        ),
    ]
