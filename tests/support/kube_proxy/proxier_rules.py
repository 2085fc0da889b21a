# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of kube-proxy's proxier, in the spelling of ``iptables-save``: the set and the target of each rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]
LOCAL = "-m addrtype --dst-type LOCAL"
OUTSIDE = "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL"
LB = "Kubernetes service load balancer ip + port"
COMMENTS = {
    "LOOP-BACK": "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
    "CLUSTER-IP": "Kubernetes service cluster ip + port for masquerade purpose",
    "EXTERNAL-IP": "Kubernetes service external ip + port for masquerade and filter purpose",
    "EXTERNAL-IP-LOCAL": "Kubernetes service external ip + port with externalTrafficPolicy=local",
    "LOAD-BALANCER": "Kubernetes service lb portal",
    "LOAD-BALANCER-LOCAL": f"{LB} with externalTrafficPolicy=local",
    "LOAD-BALANCER-FW": f"{LB} for load balancer with sourceRange",
    "LOAD-BALANCER-SOURCE-CIDR": f"{LB} + source cidr for packet filter purpose",
    "LOAD-BALANCER-SOURCE-IP": f"{LB} + source IP for packet filter purpose",
    "NODE-PORT-TCP": "Kubernetes nodeport TCP port for masquerade purpose",
    "NODE-PORT-LOCAL-TCP": "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
    "NODE-PORT-UDP": "Kubernetes nodeport UDP port for masquerade purpose",
    "NODE-PORT-LOCAL-UDP": "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
    "NODE-PORT-SCTP-HASH": "Kubernetes nodeport SCTP port for masquerade purpose with type \\'hash ip:port\\'",
    "NODE-PORT-LOCAL-SCTP-HASH": (
        "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type \\'hash ip:port\\'"
    ),
    "HEALTH-CHECK-NODE-PORT": "Kubernetes health check node port",
    "IPVS-IPS": "Addresses on the ipvs interface",
}
PORT_SETS = (("tcp", "TCP", "dst"), ("udp", "UDP", "dst"), ("sctp", "SCTP-HASH", "dst,dst"))
NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132}


class Rules:
    """Rules of one family for sets with these members."""

    def __init__(self, family: int, config: Object, node: Object, sets: dict[str, set[str]]) -> None:
        self._family, self._config, self._node = family, config, node
        self._filled = {name for name, members in sets.items() if members}
        self._mark = hex(1 << config.get("iptables", {}).get("masqueradeBit", 14))

    def nat(self) -> dict[str, list[str]]:
        """Return the chains of the table nat."""
        balancer = self._if_filled("LOAD-BALANCER-LOCAL", f"{self._match('LOAD-BALANCER-LOCAL')} -j RETURN")
        return {
            "nat KUBE-SERVICES": self._services(),
            "nat KUBE-POSTROUTING": self._postrouting(),
            "nat KUBE-NODE-PORT": self._node_ports(),
            "nat KUBE-LOAD-BALANCER": [*balancer, "-j KUBE-MARK-MASQ"],
            "nat KUBE-MARK-MASQ": [f"-j MARK --set-xmark {self._mark}/{self._mark}"],
        }

    def filter(self, no_node_access: Iterable[tuple[str, str, int]]) -> dict[str, list[str]]:
        """Return the chains of the table filter, which deny the node some virtual servers (protocol, IP, port)."""
        match, mark = self._match, self._mark
        refuse = "icmp-port-unreachable" if self._family == 4 else "icmp6-port-unreachable"
        full = 32 if self._family == 4 else 128
        health = "HEALTH-CHECK-NODE-PORT"
        return {
            "filter KUBE-FORWARD": [
                f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark}/{mark} -j ACCEPT',
                (
                    '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate'
                    " RELATED,ESTABLISHED -j ACCEPT"
                ),
            ],
            "filter KUBE-NODE-PORT": [f"{match(health, 'dst')} -j ACCEPT"],
            "filter KUBE-PROXY-FIREWALL": self._if_filled(
                "LOAD-BALANCER-FW", f"{match('LOAD-BALANCER-FW')} -j KUBE-SOURCE-RANGES-FIREWALL"
            ),
            "filter KUBE-SOURCE-RANGES-FIREWALL": [*self._source_ranges(), "-j DROP"],
            "filter KUBE-IPVS-FILTER": [
                *(
                    f"{match(name, comment=False)} -j RETURN"
                    for name in ("LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL")
                ),
                f"{match(health, 'dst', comment=False)} -j RETURN",
                (
                    f"-m conntrack --ctstate NEW {match('IPVS-IPS', 'dst', comment=False)} -j REJECT --reject-with"
                    f" {refuse}"
                ),
            ],
            "filter KUBE-IPVS-OUT-FILTER": [
                f"-s {ip}/{full} -m ipvs --vproto {NUMBERS[protocol]} --vaddr {ip} --vport {port} -j DROP"
                for protocol, ip, port in no_node_access
            ],
        }

    def _match(self, name: str, flags: str = "dst,dst", comment: bool = True) -> str:
        real = f"KUBE-{name}" if self._family == 4 else f"KUBE-6-{name}"[:31]
        note = f'-m comment --comment "{COMMENTS[name]}" ' if comment else ""
        return f"{note}-m set --match-set {real} {flags}"

    def _if_filled(self, name: str, *rules: str) -> list[str]:
        return list(rules) if name in self._filled else []

    def _not_local(self) -> str:
        mode, detect = self._config.get("detectLocalMode") or "ClusterCIDR", self._config.get("detectLocal", {})
        if mode == "BridgeInterface":
            return f"! -i {detect['bridgeInterface']}"
        if mode == "InterfaceNamePrefix":
            return f"! -i {detect['interfaceNamePrefix']}+"
        cidrs = self._node["spec"]["podCIDRs"] if mode == "NodeCIDR" else self._config.get("clusterCIDR", "").split(",")
        mine = [cidr for cidr in cidrs if cidr and (":" in cidr) is (self._family == 6)]
        return f"! -s {mine[0]}" if mine else ""

    def _services(self) -> list[str]:
        match = self._match
        rules = [f"-s {'127.0.0.0/8' if self._family == 4 else '::1/128'} -j RETURN"]
        rules += self._if_filled("LOAD-BALANCER", f"{match('LOAD-BALANCER')} -j KUBE-LOAD-BALANCER")
        everything, detector = self._config.get("iptables", {}).get("masqueradeAll"), self._not_local()
        flags = "dst,dst" if everything or detector else "src,dst"
        start = f"{detector} " if detector and not everything else ""
        rules += self._if_filled("CLUSTER-IP", f"{start}{match('CLUSTER-IP', flags)} -j KUBE-MARK-MASQ")
        rules += self._if_filled("EXTERNAL-IP", f"{match('EXTERNAL-IP')} -j KUBE-MARK-MASQ")
        for name in ("EXTERNAL-IP", "EXTERNAL-IP-LOCAL"):
            rules += self._if_filled(name, f"{match(name)} {OUTSIDE} -j ACCEPT", f"{match(name)} {LOCAL} -j ACCEPT")
        rules.append(f"{LOCAL} -j KUBE-NODE-PORT")
        for name in ("CLUSTER-IP", "LOAD-BALANCER"):
            rules += self._if_filled(name, f"{match(name, comment=False)} -j ACCEPT")
        return rules

    def _node_ports(self) -> list[str]:
        rules = []
        for protocol, suffix, flags in PORT_SETS:
            for name, target in ((f"NODE-PORT-LOCAL-{suffix}", "RETURN"), (f"NODE-PORT-{suffix}", "KUBE-MARK-MASQ")):
                rules += self._if_filled(name, f"-p {protocol} {self._match(name, flags)} -j {target}")
        return rules

    def _postrouting(self) -> list[str]:
        return [
            *self._if_filled("LOOP-BACK", f"{self._match('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE"),
            f"-m mark ! --mark {self._mark}/{self._mark} -j RETURN",
            f"-j MARK --set-xmark {self._mark}/0x0",
            '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
        ]

    def _source_ranges(self) -> list[str]:
        rules = []
        for name in ("LOAD-BALANCER-SOURCE-CIDR", "LOAD-BALANCER-SOURCE-IP"):
            rules += self._if_filled(name, f"{self._match(name, 'dst,dst,src')} -j RETURN")
        return rules
