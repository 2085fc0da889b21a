# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the node, as a CNI plugin makes them, and their servers: TCP, UDP and SCTP in both families, until killed.

The pods are namespaces on the bridge ``cni0`` with hairpin ports; the namespace ``host`` is the node's own.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from support.processes.namespace import sh
from support.traffic.conversation import Servers, Target

PODS = {"p1": 11, "p2": 12}
PORT = 8080
ADDRESSES = ("10.244.3.{}", "fd00:244:3::{}")
MAC = "02:6b:6e:03:{:02x}:{:02x}"  # the same after a reboot, and so the link-local addresses
# A CNI plugin for both families forwards both; bridged replies must pass IPVS, too.
SYSCTLS = ("net/ipv6/conf/all/forwarding", "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables")


def make_pods() -> None:
    """Make bridge, namespaces and routes."""
    sh("modprobe", "-a", "br_netfilter", "sctp")
    for name in SYSCTLS:
        Path("/proc/sys", name).write_text("1")
    sh("ip", "netns", "attach", "host", "1")
    lines = [f"link add cni0 address {MAC.format(1, 0)} type bridge", "link set cni0 up"]
    lines += [f"addr add {address.format(1)}/{length} dev cni0 {more}" for address, length, more in _families()]
    _batch("host", lines)
    for name, number in PODS.items():
        sh("ip", "netns", "add", name)
        ends = MAC.format(number, 1), MAC.format(number, 2)
        lines = [f"link add to-{name} address {ends[0]} type veth peer name eth0 address {ends[1]} netns {name}"]
        lines += [f"link set to-{name} master cni0 up", f"link set to-{name} type bridge_slave hairpin on"]
        _batch("host", lines)
        lines = ["link set lo up", "link set eth0 up"]
        for address, length, more in _families():
            lines += [f"addr add {address.format(number)}/{length} dev eth0 {more}"]
            lines += [f"route add default via {address.format(1)}"]
        _batch(name, lines)


def _families() -> list[tuple[str, int, str]]:
    """Return address, prefix length and options for each family."""
    return [(ADDRESSES[0], 24, ""), (ADDRESSES[1], 64, "nodad")]


def _batch(namespace: str, lines: list[str]) -> None:
    sh("ip", "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")


def main() -> None:
    """Make the pods and serve."""
    make_pods()
    servers = Servers()
    for name, number in PODS.items():
        for address in ADDRESSES:
            for protocol in ("tcp", "udp", "sctp"):
                servers.add(name, name, Target(address.format(number), PORT, protocol))
    _tell_systemd("READY=1")
    signal.pause()


def _tell_systemd(state: str) -> None:
    """Do as sd_notify(3)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.sendto(state.encode(), os.environ["NOTIFY_SOCKET"])


if __name__ == "__main__":
    main()
