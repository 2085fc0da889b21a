# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Features that each kernel module serves, for messages about missing modules."""

from __future__ import annotations

NEEDS = {
    "ip_vs": "virtual servers",
    "nf_conntrack": "connection tracking",
    "nf_conntrack_ipv4": "connection tracking",
    "nf_conntrack_netlink": "the removal of stale UDP flows",
    "br_netfilter": "pods that share a bridge",
    "dummy": "virtual addresses on kube-ipvs0",
    "ip_set": "sets",
    "ip_set_hash_ip": "sets of addresses",
    "ip_set_hash_ipport": "sets of virtual servers",
    "ip_set_hash_ipportip": "hairpin traffic and source ranges",
    "ip_set_hash_ipportnet": "source ranges of load balancers",
    "ip_set_bitmap_port": "sets of node ports",
    "xt_set": "rules that match sets",
    "xt_comment": "comments of rules",
    "xt_mark": "marks for masquerading",
    "xt_addrtype": "rules for local addresses",
    "xt_conntrack": "rules that match connections",
    "xt_physdev": "external IPs",
    "xt_ipvs": "load balancers with source ranges",
    "xt_MASQUERADE": "masquerading",
    "ipt_MASQUERADE": "masquerading",
    "nft_compat": "xt_ matches of iptables-nft",
    "nf_tables": "tables of nftables",
    "nft_chain_nat": "masquerading by nftables",
    "nft_masq": "masquerading by nftables",
    "nft_nat": "node ports on 127.0.0.1 by nftables",
    "nft_numgen": "node ports on 127.0.0.1 by nftables",
    "nft_ct": "nftables rules that match connections",
    "nft_fib_ipv4": "nftables rules for local addresses",
    "nft_fib_ipv6": "nftables rules for local addresses",
    "nft_reject_ipv4": "refusals by nftables",
    "nft_reject_ipv6": "refusals by nftables",
    "iptable_filter": "rules of iptables-legacy",
    "iptable_nat": "rules of iptables-legacy",
    "ip6table_filter": "rules of ip6tables-legacy",
    "ip6table_nat": "rules of ip6tables-legacy",
}


def needed_for(name: str) -> str:
    """Return the feature that needs a module, or "" for a module that this project does not know."""
    if name in NEEDS:
        return NEEDS[name]
    if name.startswith("ip_vs_pe_"):
        return f"the persistence engine {name[len('ip_vs_pe_') :]}"
    if name.startswith("ip_vs_"):
        return f"the scheduler {name[len('ip_vs_') :]}"
    return "sets" if name.startswith("ip_set_") else ""
