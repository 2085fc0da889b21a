# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network of a small cluster: a namespace for each machine and pod, in the layout of flannel's host-gw mode.

::

    client1  client2  balancer  node2 (routes to its pods r1, r2)
       |        |         |       |
    ---+--------+----+----+-------+---  the wire, 10.99.0.0/24 and fd00:99::/64
                   node1                the node under test
                     |
    ----+--------+---+----+-----------  its pod bridge, 10.244.1.0/24 and fd00:244:1::/64
       p1       p2       p3

Everything is in the kernel that runs the test, until :meth:`Network.close` or the end of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..processes.kernel import TOOLS
from ..processes.namespace import inside, sh
from ..waiting import eventually

_TENTATIVE = 0x40  # IFA_F_TENTATIVE


class Host(NamedTuple):
    """Machine or pod: its namespace, and its address in each family."""

    namespace: str
    ip: dict[int, str]


def _machine(namespace: str, number: int) -> Host:
    return Host(namespace, {4: f"10.99.0.{number}", 6: f"fd00:99::{number}"})


def _pod(node: int, number: int, namespace: str) -> Host:
    return Host(namespace, {4: f"10.244.{node}.{number}", 6: f"fd00:244:{node}::{number}"})


NODE = "node1"
CLUSTER_CIDRS = "10.244.0.0/16,fd00:244::/32"
GATEWAY = _pod(1, 1, NODE).ip  # client address of masqueraded traffic in a pod of the node
HOSTS = {
    NODE: _machine(NODE, 1),
    "node2": _machine("node2", 2),
    "balancer": _machine("balancer", 9),
    "client1": _machine("client1", 11),
    "client2": _machine("client2", 12),
    "p1": _pod(1, 11, "p1"),
    "p2": _pod(1, 12, "p2"),
    "p3": _pod(1, 13, "p3"),
    "r1": _pod(2, 11, "node2"),
    "r2": _pod(2, 12, "node2"),
}
LOCAL_PODS = ("p1", "p2", "p3")
REMOTE_PODS = ("r1", "r2")
MACHINES = (NODE, "node2", "balancer", "client1", "client2")

# Virtual addresses: the last part is a number that a test chooses.
CLUSTER_IP = {4: "10.96.0.{}", 6: "fd00:96::{}"}
EXTERNAL_IP = {4: "198.51.100.{}", 6: "2001:db8:51::{}"}
BALANCER_IP = {4: "203.0.113.{}", 6: "2001:db8:113::{}"}
# Addresses of load balancers that are machines of their own (ipMode Proxy), held by "balancer".
APPLIANCE_IP = {4: "192.0.2.{}", 6: "2001:db8:2::{}"}
_TO_NODE = {
    4: ("10.96.0.0/16", "198.51.100.0/24", "203.0.113.0/24"),
    6: ("fd00:96::/64", "2001:db8:51::/64", "2001:db8:113::/64"),
}
_TO_BALANCER = {4: "192.0.2.0/24", 6: "2001:db8:2::/64"}
_PREFIX = {4: 24, 6: 64}
_WIRE = "wire"


class Network:
    """Namespaces, made by the constructor."""

    def __init__(self) -> None:
        names = {_WIRE, *(host.namespace for host in HOSTS.values())}
        self._names = sorted(names)
        _batch(None, [f"netns add {name}" for name in self._names])
        for name in self._names:
            with inside(name):  # these addresses are unique: no duplicate address detection
                Path("/proc/sys/net/ipv6/conf/default/dad_transmits").write_text("0")
        self._join(_WIRE, [(name, "eth0") for name in MACHINES])
        self._join(NODE, [(name, "eth0") for name in LOCAL_PODS], bridge="cni0")
        # as CNI's hairpinMode: traffic of a pod to itself through a Service leaves by the port by which it came
        _batch(NODE, [f"link set to-{name} type bridge_slave hairpin on" for name in LOCAL_PODS])
        for family in (4, 6):
            self._route(family)
        for name in (NODE, "node2", "balancer"):
            with inside(name):
                sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        with inside(NODE):  # as the role prepare does: replies between pods of one bridge must pass IPVS too
            sh("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1", "net.bridge.bridge-nf-call-ip6tables=1")
            # an ICMP error for every packet: by default, the kernel sends one a second to the same client
            sh("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
            # a slow machine may take longer than 30 s between two datagrams of a flow
            sh("sysctl", "-qw", *(f"net.netfilter.nf_conntrack_udp_timeout{name}=3600" for name in ("", "_stream")))
            for tool in TOOLS:  # a table of iptables-legacy stays after its first use, empty
                sh(tool, "-t", "nat", "-S")
                sh(tool, "-t", "filter", "-S")
        eventually(self._settled)

    def close(self) -> None:
        """Remove the namespaces with their content."""
        _batch(None, [f"netns del {name}" for name in self._names])

    def _settled(self) -> bool:
        """Return true if each link has its link-local address: the kernel gives it up to a second after the carrier."""
        for name in self._names:
            with inside(name):
                devices = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
                rows = [line.split() for line in Path("/proc/thread-self/net/if_inet6").read_text().splitlines()]
            links = {line.partition(":")[0].strip() for line in devices} - {"lo"}
            if links - {
                device for address, _index, _prefix, _scope, _flags, device in rows if address.startswith("fe80")
            }:
                return False
            if any(int(flags, 16) & _TENTATIVE for _address, _index, _prefix, _scope, flags, _device in rows):
                return False
        return True

    def _join(self, namespace: str, members: Iterable[tuple[str, str]], bridge: str = "bridge") -> None:
        """Make a bridge in a namespace, with a port for the interface of each member."""
        lines = ["link set lo up", f"link add {bridge} type bridge", f"link set {bridge} up"]
        for name, link in members:
            lines += [
                f"link add to-{name} type veth peer name {link} netns {name}",
                f"link set to-{name} master {bridge} up",
            ]
        _batch(namespace, lines)
        for name, link in members:
            lines = ["link set lo up", f"link set {link} up"]
            lines += [
                f"addr add {HOSTS[name].ip[family]}/{_PREFIX[family]} dev {link}{_no_dad(family)}" for family in (4, 6)
            ]
            _batch(name, lines)

    def _route(self, family: int) -> None:
        default = "0.0.0.0/0" if family == 4 else "::/0"
        node, other = HOSTS[NODE].ip[family], HOSTS["node2"].ip[family]
        pods = {number: f"{_pod(number, 0, '').ip[family]}/{_PREFIX[family]}" for number in (1, 2)}
        for name in LOCAL_PODS:
            _batch(name, [f"route add {default} via {GATEWAY[family]}"])
        appliance = f"route add {_TO_BALANCER[family]} via {HOSTS['balancer'].ip[family]}"
        lines = [
            f"addr add {GATEWAY[family]}/{_PREFIX[family]} dev cni0{_no_dad(family)}",
            f"route add {pods[2]} via {other}",
        ]
        _batch(NODE, [*lines, appliance])
        host = 32 if family == 4 else 128
        lines = [f"addr add {HOSTS[name].ip[family]}/{host} dev lo{_no_dad(family)}" for name in REMOTE_PODS]
        _batch("node2", [*lines, f"route add {pods[1]} via {node}"])
        _batch("balancer", [f"addr add {APPLIANCE_IP[family].format(1)}/{host} dev lo{_no_dad(family)}"])
        for name in ("client1", "client2", "balancer"):
            lines = [f"route add {net} via {node}" for net in (*_TO_NODE[family], pods[1])]
            lines += [f"route add {pods[2]} via {other}"]
            _batch(name, lines if name == "balancer" else [*lines, appliance])


def _no_dad(family: int) -> str:
    return " nodad" if family == 6 else ""


def _batch(namespace: str | None, lines: Iterable[str]) -> None:
    words = ("ip", *(("-n", namespace) if namespace else ()), "-batch", "-")
    sh(*words, text="\n".join(lines) + "\n")
