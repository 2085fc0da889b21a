# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that kube-proxy served: its network with a client and pods, and a recorded state in its kernel."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..agent.process import NODE
from ..processes.kernel import use_tables
from ..processes.namespace import fresh, sh
from ..traffic.conversation import Servers, Target
from . import leftovers, recorded

IPVS_MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_sh", "ip_vs_mh")
MODULES = (*IPVS_MODULES, "nf_conntrack", "ip_set", "xt_set", "xt_ipvs", "xt_physdev", "xt_statistic")
MODULES += ("dummy", "veth", "br_netfilter")
NODE_IP, CLIENT_IP = "10.99.0.11", "10.99.0.50"


class Configured(Protocol):
    """An agent whose configuration and objects a test writes."""

    def configure(self, kube_proxy: dict[str, Any]) -> None:
        """Write the configuration."""

    def write(self, name: str, objects: list[dict[str, Any]]) -> None:
        """Write objects."""


@contextmanager
def network() -> Iterator[None]:
    """Make node1 of this namespace, client1 on its wire, and pods behind another wire.

    pods receives the traffic to 10.244.0.0/16; a test adds the addresses that it needs.
    """
    fresh()
    names = (NODE, "client1", "pods")
    sh("ip", "netns", "attach", NODE, str(os.getpid()))
    for name in names[1:]:
        sh("ip", "netns", "add", name)
    for number, (link, name) in enumerate((("vec0", "client1"), ("cni0", "pods"))):
        sh(
            "ip",
            "link",
            "add",
            link,
            "address",
            f"02:00:00:00:00:0{number}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            name,
        )
        sh("ip", "link", "set", link, "up")
        sh("ip", "-n", name, "-batch", "-", text="link set lo up\nlink set eth0 up\n")
    sh("ip", "link", "set", "lo", "up")
    lines = f"addr add {NODE_IP}/24 dev vec0\nroute add 10.244.0.0/16 dev cni0\nroute add default via {CLIENT_IP}\n"
    sh("ip", "-batch", "-", text=lines)
    lines = f"addr add {CLIENT_IP}/24 dev eth0\nroute add 10.96.0.0/16 via {NODE_IP}\n"
    sh("ip", "-n", "client1", "-batch", "-", text=lines)
    # no node address in the pods' network: the node would serve node ports on it, and no recorded node does
    lines = "addr add 10.244.255.2/16 dev eth0\nneigh add 169.254.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent\n"
    sh("ip", "-n", "pods", "-batch", "-", text=f"{lines}route add default via 169.254.0.1 dev eth0 onlink\n")
    sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.vs.conntrack=1")
    use_tables("filter", "nat", "mangle")
    yield
    for name in names:
        sh("ip", "netns", "del", name)


def serve(servers: Servers, endpoints: list[str]) -> None:
    for endpoint in endpoints:
        address, _colon, port = endpoint.rpartition(":")
        sh("ip", "-n", "pods", "addr", "replace", f"{address}/16", "dev", "eth0")
        servers.add(endpoint, "pods", Target(address, int(port)))


def load_recording(path: Path, agent: Configured) -> dict[str, Any]:
    """Load a recording into the kernel; write its objects and configuration to the agent's files."""
    recording: dict[str, Any] = json.loads(path.read_text().replace('"n1"', f'"{NODE}"'))
    for link in json.loads(recording["state"]["node"]):
        for item in link["addr_info"] if link["ifname"] == "vec0" else ():
            if item["scope"] == "global":
                extra = ["nodad"] if item["family"] == "inet6" else []
                sh("ip", "addr", "replace", f"{item['local']}/{item['prefixlen']}", "dev", "vec0", *extra)
    leftovers.load(recording["state"])
    agent.configure({key: value for key, value in recording["config"].items() if key not in ("apiVersion", "kind")})
    agent.write("all.json", recording["objects"])
    return recording


def as_recorded(recording: dict[str, Any]) -> None:
    state = recording["state"]
    assert recorded.servers(sh("ipvsadm", "-Sn")) == recorded.servers(state["ipvs"])
    assert recorded.sets(sh("ipset", "save")) == recorded.sets(state["ipset"])
    assert recorded.rules(sh("iptables-save")) == recorded.rules(state["v4"])
    assert recorded.rules(sh("ip6tables-save")) == recorded.rules(state["v6"])
    assert recorded.addresses(sh("ip", "-j", "addr", "show", "dev", "kube-ipvs0")) == recorded.addresses(state["addr"])
