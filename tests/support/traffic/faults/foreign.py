# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults by other programs: rules, virtual servers."""

from __future__ import annotations

from ..network import HOSTS
from .injected import CLIENT, NO_NFT, P1, VIP, Injected, chain, nft

_MARKED = f"-d {VIP} -p tcp --dport 80 -j MARK --set-xmark 0x7/0xff"
FOREIGN = (
    chain("a rule drops in INPUT", "filter INPUT", "-p tcp --dport 80 -j DROP"),
    chain("a rule refuses in INPUT", "filter INPUT", f"-s {CLIENT} -j REJECT"),
    chain("a rule drops new connections", "filter INPUT", "-m conntrack --ctstate NEW -i eth0 -j DROP"),
    chain("a rule drops several ports", "filter INPUT", "-p tcp -m multiport --dports 22,80 -j DROP"),
    chain("a rule drops what the pods answer", "filter FORWARD", f"-s {P1} -j DROP"),
    chain("a rule drops on the way to the pod", "filter OUTPUT", f"-d {P1} -j DROP"),
    chain("a rule drops in table raw", "raw PREROUTING", f"-d {VIP} -j DROP"),
    chain("a rule drops in table mangle", "mangle INPUT", f"-d {VIP} -j DROP"),
    chain(
        "a rule redirects to another address",
        "nat PREROUTING",
        f"-d {VIP} -p tcp --dport 80 -j DNAT --to-destination 10.99.0.12:8888",
    ),
    chain(
        "a rule redirects to a port of the node",
        "nat PREROUTING",
        f"-d {VIP} -p tcp --dport 80 -j REDIRECT --to-ports 2222",
    ),
    chain("a rule prevents masquerading", "nat POSTROUTING", "-j ACCEPT", back_ends=("iptables",)),
    chain("a rule gives another source", "nat POSTROUTING", f"-d {P1} -j SNAT --to-source 10.99.0.200"),
    chain("a rule excludes from connection tracking", "raw PREROUTING", f"-d {VIP} -j CT --notrack"),
    chain("a rule in the agent's chain", "nat KUBE-SERVICES", f"-d {VIP} -j RETURN", back_ends=("iptables",)),
    Injected(
        "a rule drops members of a set",
        "client1",
        f"{VIP}:80",
        ("foreign-rule",),
        "match-set bad src",
        (
            "ipset create bad hash:net",
            f"ipset add bad {CLIENT}/30",
            "iptables -I INPUT -m set --match-set bad src -j DROP",
        ),
        ("iptables -D INPUT -m set --match-set bad src -j DROP", "ipset destroy bad"),
    ),
    Injected(
        "policy DROP of INPUT",
        "client1",
        f"{VIP}:80",
        ("foreign-policy",),
        "the chain's policy is DROP",
        ("iptables -P INPUT DROP",),
        ("iptables -P INPUT ACCEPT",),
    ),
    Injected(
        "a virtual server of a firewall mark",
        "p3",
        f"{VIP}:80",
        ("server-other",),
        "fwmark 7",
        (
            "ipvsadm -A -f 7 -s rr",
            f"ipvsadm -a -f 7 -r {HOSTS['client2'].ip[4]} -m",
            f"iptables -t mangle -I PREROUTING {_MARKED}",
        ),
        (f"iptables -t mangle -D PREROUTING {_MARKED}", "ipvsadm -D -f 7"),
    ),
    Injected(
        "a rule of nftables drops",
        "client1",
        f"{VIP}:80",
        ("foreign-rule",),
        "rule 1 of chain inet fw input",
        nft("input", "tcp dport 80 drop"),
        NO_NFT,
    ),
    Injected(
        "a rule of nftables drops an address",
        "client1",
        f"{VIP}:80",
        ("foreign-rule",),
        "chain inet fw input",
        nft("input", f"ip saddr {CLIENT} reject"),
        NO_NFT,
    ),
    Injected(
        "policy drop of nftables",
        "client1",
        f"{VIP}:80",
        ("foreign-policy",),
        "policy is drop",
        (
            "nft add table inet fw; add chain inet fw input { type filter hook input priority 0; policy drop; };"
            " add rule inet fw input ct state established,related accept",
        ),
        NO_NFT,
    ),
    Injected(
        "a rule of nftables redirects",
        "client1",
        f"{VIP}:80",
        ("foreign-rule",),
        "chain inet fw prerouting",
        nft("prerouting", f"ip daddr {VIP} tcp dport 80 dnat ip to 10.99.0.12:8888", -110, "nat"),
        NO_NFT,
    ),
    Injected(
        "a rule of nftables drops what the pods answer",
        "client1",
        f"{VIP}:80",
        ("foreign-rule",),
        "chain inet fw forward",
        nft("forward", f"ip saddr {P1} drop"),
        NO_NFT,
    ),
)
