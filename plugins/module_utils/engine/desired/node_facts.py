# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about the node that the desired state is for."""

from __future__ import annotations

from typing import NamedTuple


class NodeFacts(NamedTuple):
    """Facts about one node; its Node object overrides zone, pod CIDRs and primary addresses.

    ``addresses`` are (link, address) of all links except kube-ipvs0, loopback included. ``node_ips`` has the primary
    address of each family. ``random_fully`` is true if iptables has ``--random-fully`` (1.6.2). ``kernel`` is the
    release, for example ``5.4.0-150``, ``cpus`` the number of processors, ``conntrack_buckets`` the size of connection
    tracking's hash table. Where these are "" or 0, the sysctls that depend on them stay. ``api_servers`` are the
    addresses of the agent's own API server.
    """

    name: str
    addresses: tuple[tuple[str, str], ...] = ()
    node_ips: tuple[str, ...] = ()
    zone: str = ""
    pod_cidrs: tuple[str, ...] = ()
    random_fully: bool = True
    kernel: str = ""
    cpus: int = 0
    conntrack_buckets: int = 0
    api_servers: tuple[str, ...] = ()
