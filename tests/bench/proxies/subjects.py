# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Service proxies that are compared, with their configurations.

They are the agent with each back end for its rules, and kube-proxy in its three modes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..objects import NODE

KUBENODE = ["/usr/bin/python3", "-IS", "/root/bench/agent/bin/kubenode"]  # as the unit starts it
KUBE_PROXY = "/root/bench/kube-proxy"
DIRECTORY = "/root/bench/work"
KUBECONFIG = f"{DIRECTORY}/kubeconfig"
PODS = "10.128.0.0/9"


class Subject(NamedTuple):
    """Service proxy in one configuration.

    ``view`` is the state that it makes, a name in ``onnode/kernel_views.py``. ``largest`` is the number of Services
    above which it is not measured, because it is too slow for that. ``rules`` is the agent's back end for them.
    """

    name: str
    view: str
    mode: str
    sync: str = ""
    largest: int = 1_000_000
    rules: str = ""

    @property
    def is_agent(self) -> bool:
        """True for the agent, false for kube-proxy."""
        return not self.mode

    @property
    def file(self) -> str:
        """Path of its configuration on the node."""
        return f"{DIRECTORY}/{self.mode or 'agent'}{self.sync}{self.rules}.json"

    @property
    def command(self) -> list[str]:
        """Its command on the node."""
        if self.is_agent:
            return [*KUBENODE, "run", "--config", f"{IPVS.file}:{self.file}", "--node", NODE]
        return [KUBE_PROXY, "--config", self.file]

    def configuration(self) -> dict[str, Any]:
        """Return its configuration; the agent also reads that of kube-proxy's ipvs mode."""
        if self.is_agent:
            return {
                "apiVersion": "kubenode.ipvs/v1alpha1",
                "kind": "AgentConfiguration",
                "source": {"kubernetes": {"kubeconfig": KUBECONFIG}},
                "rules": {"backend": self.rules},
            }
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": self.mode,
            "clusterCIDR": PODS,
            "hostnameOverride": NODE,
            "clientConnection": {"kubeconfig": KUBECONFIG},
            "conntrack": {"maxPerCore": 0, "min": 0},
            **({self.mode: {"minSyncPeriod": self.sync}} if self.sync else {}),
        }


AGENT = Subject("kubenode-agent", "ipvs", "", rules="iptables")
AGENT_NFTABLES = Subject("kubenode-agent, rules in nftables", "ipvs with nftables", "", rules="nftables")
NFTABLES = Subject("nftables, `minSyncPeriod: 1ms`", "nftables", "nftables", "1ms", largest=5000)
NFTABLES_DEFAULT = Subject("nftables, `minSyncPeriod` 1 s (default)", "nftables", "nftables", largest=5000)
IPTABLES = Subject("iptables", "iptables", "iptables", largest=1002)
IPVS = Subject("ipvs", "ipvs", "ipvs", largest=1002)
# Each peer is beside the agent whose rules are in the same tables of the kernel.
PEERS = {NFTABLES: AGENT_NFTABLES, NFTABLES_DEFAULT: AGENT_NFTABLES, IPTABLES: AGENT, IPVS: AGENT}
AGENTS = (AGENT, AGENT_NFTABLES)
