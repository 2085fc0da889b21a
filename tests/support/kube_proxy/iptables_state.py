# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's iptables mode: the rules of ``syncProxyRules`` 1.36 for the Services of a cluster, as items."""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256
from typing import Any

from kubenode.engine.desired import sets
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.rules import jumps
from kubenode.engine.desired.service_vips import Origin, ServiceVip
from kubenode.engine.model import State
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.iptables import ChainKey, JumpKey, RulePosition
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.engine.model.net import family

_NEW = "-m conntrack --ctstate NEW "
_JUMPS = (
    ("filter", "INPUT", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
    ("filter", "INPUT", "", "kubernetes health check service ports", "KUBE-NODEPORTS"),
    ("filter", "FORWARD", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
    ("filter", "FORWARD", "", "kubernetes forwarding rules", "KUBE-FORWARD"),
    ("filter", "FORWARD", _NEW, "kubernetes service portals", "KUBE-SERVICES"),
    ("filter", "OUTPUT", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
    ("filter", "OUTPUT", _NEW, "kubernetes service portals", "KUBE-SERVICES"),
)


def iptables_state(cluster: Cluster) -> State:
    """Return the chains and jumps of both families."""
    state: State = {"chain": {}, "jump": {}}
    for fam in (4, 6):
        writer = _Writer(cluster, fam)
        writer.write()
        state["chain"].update({ChainKey(fam, *key): tuple(rules) for key, rules in writer.chains.items()})
        placed = [(key.table, key.chain, "", "", key.rule) for key in jumps(fam) if key.table == "nat"]
        placed += [(table, chain, match, comment, to) for table, chain, match, comment, to in _JUMPS]
        for order, (table, chain, match, comment, to) in enumerate(placed, 1):
            rule = f'{match}-m comment --comment "{comment}" -j {to}' if comment else to
            state["jump"][JumpKey(fam, table, chain, rule)] = RulePosition("prepended", order)
    return state


class _Writer:
    """Rules of one family."""

    def __init__(self, cluster: Cluster, fam: int) -> None:
        self.cluster = cluster
        self.family = fam
        self.prefix = 32 if fam == 4 else 128
        config = cluster.config
        cidr = next((net for net in config.cluster_cidrs if family(net) == fam), "")
        self.local, self.all = cidr, config.masquerade_all
        mark = f"{1 << config.masquerade_bit:#x}"
        snat = '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully'
        forward = f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark}/{mark} -j ACCEPT'
        self.chains: dict[tuple[str, str], list[str]] = {
            ("nat", "KUBE-SERVICES"): [],
            ("nat", "KUBE-NODEPORTS"): [],
            ("nat", "KUBE-MARK-MASQ"): [f"-j MARK --set-xmark {mark}/{mark}"],
            ("nat", "KUBE-POSTROUTING"): [
                f"-m mark ! --mark {mark}/{mark} -j RETURN",
                f"-j MARK --set-xmark {mark}/0x0",
                snat,
            ],
            ("filter", "KUBE-SERVICES"): [],
            ("filter", "KUBE-NODEPORTS"): [],
            ("filter", "KUBE-FORWARD"): [forward],
            ("filter", "KUBE-PROXY-FIREWALL"): [],
        }

    def write(self) -> None:
        """Add the rules of every virtual server that a Service claims."""
        self.cluster.state()
        for name, contribution in sorted(self.cluster._contributions.items()):
            for key, claim in sorted(contribution.claims.items()):
                if key.family == self.family and self.cluster._allocator.get(key) == name:
                    self._add(name, key, claim)
        self.chains["nat", "KUBE-SERVICES"].append("-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS")

    def _add(self, name: Any, key: VirtualServerKey, claim: ServiceVip) -> None:
        to = f"-d {key.address}/{self.prefix} -p {key.protocol} -m {key.protocol} --dport {key.port}"
        is_node_port = claim.origin is Origin.NODE_PORT
        if not claim.targets:
            if not is_node_port:
                self.chains["filter", "KUBE-SERVICES"].append(f"{to} -j REJECT")
            return
        service = self._chain("SVC", f"{name}{key}")
        marks = f"! -s {self.local} {to}" if self.local and not self.all else to if self.all else ""
        rules = [f"{marks} -j KUBE-MARK-MASQ"] if marks and claim.origin is Origin.CLUSTER_IP else []
        for left, (address, port, _weight) in zip(range(len(claim.targets), 0, -1), claim.targets, strict=False):
            part = self._chain("SEP", f"{name}{key}{address}{port}")
            there = f"[{address}]:{port}" if self.family == 6 else f"{address}:{port}"
            self.chains["nat", part] = [
                f"-s {address}/{self.prefix} -j KUBE-MARK-MASQ",
                f"-p {key.protocol} -m {key.protocol} -j DNAT --to-destination {there}",
            ]
            chance = f"-m statistic --mode random --probability {1 / left:.10f} " if left > 1 else ""
            rules.append(f"{chance}-j {part}")
        self.chains["nat", service] = rules
        if claim.origin is Origin.CLUSTER_IP:
            self.chains["nat", "KUBE-SERVICES"].append(f"{to} -j {service}")
            return
        outside = self._chain("EXT", f"{name}{key}")
        keeps = any(member.set.find("-LOCAL") > 0 for member in claim.members)
        pods = [f"-s {self.local} -j {service}"] if self.local else []
        own = ["-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ", f"-m addrtype --src-type LOCAL -j {service}"]
        self.chains["nat", outside] = (
            [*pods, *own, f"-j {service}"] if keeps else ["-j KUBE-MARK-MASQ", f"-j {service}"]
        )
        if is_node_port:
            self.chains["nat", "KUBE-NODEPORTS"].append(f"{to} -j {outside}")
            return
        nets = self._ranges(key, claim)
        if nets is None:
            self.chains["nat", "KUBE-SERVICES"].append(f"{to} -j {outside}")
            return
        firewall = self._chain("FW", f"{name}{key}")
        self.chains["nat", firewall] = [f"-s {net} -j {outside}" for net in nets]
        self.chains["nat", "KUBE-SERVICES"].append(f"{to} -j {firewall}")
        self.chains["filter", "KUBE-PROXY-FIREWALL"].append(f"{to} -j DROP")

    def _ranges(self, key: VirtualServerKey, claim: ServiceVip) -> list[str] | None:
        """Return the networks that may connect; None without source ranges."""
        entry = f"{key.address},{key.protocol}:{key.port}"
        members = set(claim.members)
        if MemberKey(sets.set_name(self.family, sets.LOAD_BALANCER_FW), entry) not in members:
            return None
        names = {
            sets.set_name(self.family, base) for base in (sets.LOAD_BALANCER_SOURCE_CIDR, sets.LOAD_BALANCER_SOURCE_IP)
        }
        networks = [member.member.split(",")[2] for member in members if member.set in names]
        return sorted(net if "/" in net else f"{net}/{self.prefix}" for net in networks)

    @staticmethod
    def _chain(kind: str, text: str) -> str:
        return f"KUBE-{kind}-{b32encode(sha256(text.encode()).digest()).decode()[:16]}"
