# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of settings, routes, links and connections, and a second proxy."""

from __future__ import annotations

from ..cluster import cluster_ip
from ..network import HOSTS, NODE
from .injected import BALANCER, CLIENT, GOOD, ONE, P1, STICKY, VIP, Injected, to

SYSTEM = (
    Injected(
        "strict reverse path filtering",
        "client1",
        f"{VIP}:80",
        ("reverse-path",),
        "net.ipv4.conf.eth0.rp_filter",
        ("sysctl -qw net.ipv4.conf.eth0.rp_filter=1", f"ip route add {CLIENT}/32 dev cni0"),
        ("sysctl -qw net.ipv4.conf.eth0.rp_filter=0", f"ip route del {CLIENT}/32 dev cni0"),
        words=("--in-interface", "eth0"),
    ),
    Injected(
        "net.ipv4.ip_forward off",
        "client1",
        f"{VIP}:80",
        ("ip-forward",),
        "net.ipv4.ip_forward is 0",
        ("sysctl -qw net.ipv4.ip_forward=0",),
        ("sysctl -qw net.ipv4.ip_forward=1",),
    ),
    Injected(
        "net.ipv6.conf.all.forwarding off",
        "client1",
        f"[{cluster_ip(GOOD, 6).address}]:80",
        ("ip-forward",),
        "net.ipv6.conf.all.forwarding is 0",
        ("sysctl -qw net.ipv6.conf.all.forwarding=0",),
        ("sysctl -qw net.ipv6.conf.all.forwarding=1",),
    ),
    Injected(
        "net.ipv4.vs.conntrack off",
        "client1",
        f"{VIP}:80",
        ("vs-conntrack",),
        "net.ipv4.vs.conntrack is 0",
        ("sysctl -qw net.ipv4.vs.conntrack=0",),
        ("sysctl -qw net.ipv4.vs.conntrack=1",),
    ),
    Injected(
        "br_netfilter off",
        "p3",
        to(ONE),
        ("bridge-netfilter",),
        "bridge-nf-call-iptables",
        ("sysctl -qw net.bridge.bridge-nf-call-iptables=0",),
        ("sysctl -qw net.bridge.bridge-nf-call-iptables=1",),
    ),
    Injected(
        "route_localnet off",
        NODE,
        "127.0.0.1:30120",
        ("route-localnet",),
        "route_localnet",
        ("sysctl -qw net.ipv4.conf.all.route_localnet=0",),
        ("sysctl -qw net.ipv4.conf.all.route_localnet=1",),
    ),
    Injected(
        "no route to the pods of another node",
        "p3",
        f"{VIP}:80",
        ("pod-route",),
        HOSTS["r1"].ip[4],
        ("ip route del 10.244.2.0/24",),
        (f"ip route add 10.244.2.0/24 via {HOSTS['node2'].ip[4]}",),
    ),
    Injected(
        "a blackhole route to a pod",
        "client1",
        f"{VIP}:80",
        ("pod-route",),
        "blackhole",
        (f"ip route add blackhole {P1}/32",),
        (f"ip route del blackhole {P1}/32",),
    ),
    Injected(
        "a pod that is gone from its link",
        "client1",
        f"{VIP}:80",
        ("pod-gone",),
        "FAILED",
        (f"ip neigh replace {P1} dev cni0 nud failed",),
        (f"ip neigh del {P1} dev cni0",),
    ),
    Injected(
        "a smaller MTU of the pods' link, whose ICMP message a rule drops",
        "client1",
        f"{VIP}:80",
        ("mtu",),
        f"packets of {CLIENT} above 1400 bytes are lost",
        ("ip link set cni0 mtu 1400", "iptables -I OUTPUT -p icmp -j DROP"),
        ("ip link set cni0 mtu 1500", "iptables -D OUTPUT -p icmp -j DROP"),
    ),
    Injected(
        "a smaller MTU of the client's link, whose ICMP message a rule drops",
        "client1",
        f"{VIP}:80",
        ("mtu",),
        f"packets of {P1} above 1400 bytes are lost",
        ("ip link set eth0 mtu 1400", "iptables -I OUTPUT -d 10.244.0.0/16 -p icmp -j DROP"),
        ("ip link set eth0 mtu 1500", "iptables -D OUTPUT -d 10.244.0.0/16 -p icmp -j DROP"),
    ),
    Injected(
        "strict ARP off",
        "client1",
        f"{BALANCER}:80",
        ("strict-arp",),
        "arp_ignore is 0",
        ("sysctl -qw net.ipv4.conf.all.arp_ignore=0",),
        ("sysctl -qw net.ipv4.conf.all.arp_ignore=1",),
    ),
    Injected(
        "expire_quiescent_template off",
        "client1",
        f"{VIP}:80",
        ("ipvs-sysctl",),
        "expire_quiescent_template",
        ("sysctl -qw net.ipv4.vs.expire_quiescent_template=0",),
        ("sysctl -qw net.ipv4.vs.expire_quiescent_template=1",),
    ),
)
_PROXY = "/tmp/kube-proxy"
PROXIES = (
    Injected(
        "the table of connection tracking full",
        "client1",
        f"{VIP}:80",
        ("conntrack-full",),
        "of 1 entries",
        (
            f"bash -c 'echo >/dev/udp/{HOSTS['node2'].ip[4]}/9'",
            "root sysctl -qw net.netfilter.nf_conntrack_max=1",
        ),
        ("root sysctl -qw net.netfilter.nf_conntrack_max=65536",),
    ),
    Injected(
        "kube-proxy runs, too",
        "client1",
        f"{VIP}:80",
        ("two-proxies",),
        "kube-proxy",
        (f"cp /bin/sleep {_PROXY}", f"sh -c '{_PROXY} 600 >/dev/null 2>&1 & echo $! >{_PROXY}.pid'"),
        (f"sh -c 'kill $(cat {_PROXY}.pid)'",),
    ),
)
PINNED = Injected(
    "persistence keeps a client with a draining pod", "client1", to(STICKY), ("persistence",), "persistence keeps"
)
