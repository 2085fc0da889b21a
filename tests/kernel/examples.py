# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation's examples, by page: what each needs, and what its tasks do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.agent.bundles import bundle
from support.agent.command import program
from support.clusters import objects

# Effects of a task on the node. Any other text must be part of the task's output. ``PROVES`` is text that a run after
# the change still prints.
CHANGES, STAYS, READS, PROVES = "changes", "is there already", "", "have it prove itself"
MODULES = (
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_wrr",
    "ip_vs_wlc",
    "ip_vs_sh",
    "ip_vs_lc",
    "nf_conntrack",
    "ip_set",
    "xt_set",
    "xt_ipvs",
)
MODULES += ("xt_physdev", "xt_statistic", "xt_LOG", "xt_multiport", "br_netfilter", "zram")


@dataclass(frozen=True)
class Example:
    """The tasks of one page or module, with the files, commands and variables that they need.

    ``tasks`` says what each task does, by its name or number. ``files`` are on the controller before the tasks run.
    The commands in ``before`` and the modules in ``given`` have run on the node. ``variables`` and the results of the
    modules in ``asked`` are defined. ``after`` runs when everything that the owners of the tasks have is removed. With
    ``nft``, the tasks need nf_tables for IP, which the user-mode kernel of Debian does not have.
    """

    tasks: dict[str, str]
    files: dict[str, str | bytes] = field(default_factory=dict)
    before: list[list[str]] = field(default_factory=list)
    given: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    after: list[list[str]] = field(default_factory=list)
    nft: bool = False


def commands(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


SERVICE = [
    objects.service("web", ["10.96.0.10"], [objects.port(80, "p")]),
    objects.piece("web", [objects.endpoint("198.51.100.1")], [objects.port(8080, "p")]),
]
SHOP = [
    objects.service("web", ["10.96.0.10"], [objects.port(80, "http")], namespace="shop"),
    objects.piece("web", [objects.endpoint("198.51.100.1")], [objects.port(8080, "http")], namespace="shop"),
]
AGENT = "/opt/kubenode/current"
MANIFESTS: dict[str, str | bytes] = {"files/manifests/web.json": json.dumps(SERVICE)}
LIST = json.dumps({"apiVersion": "v1", "kind": "List", "items": SERVICE})
ETH0 = commands("ip link add eth0 type dummy\nip link set eth0 up multicast on")
NO_ETH0 = commands("ip link del eth0")
TRUSTED, NO_TRUSTED = commands("ipset create trusted hash:net"), commands("ipset destroy trusted")
TIMEOUTS = commands("ipvsadm --set 900 120 300")
WEB = {
    "protocol": "tcp",
    "address": "192.0.2.80",
    "port": 80,
    "real_servers": [{"address": "198.51.100.9", "port": 80}],
}

EXAMPLES: dict[str, Example] = {
    "plugins/modules/agent_install.py": Example(
        {
            "Install the agent": PROVES,
            "Record that the release works": CHANGES,
            "Or roll back to the release that worked before": STAYS,
        },
        {"files/kubenode-agent.tar.gz": bundle("import sys\n")},
        commands("mount -t tmpfs memory /usr/local/bin"),
        variables={"agent_config": {"source": {"files": {"path": "/etc/kubenode/manifests"}}}},
        after=commands("rm -r /opt/kubenode /etc/kubenode\numount /usr/local/bin"),
    ),
    "plugins/modules/flow_info.py": Example(
        {
            "Explain a connection from a pod, and one from outside": READS,
            "Show the faults and their remedies": "10.96.0.10:53",
            "Explain a connection of the node itself to a Service": READS,
            "Fail unless it arrives": READS,
        },
        {
            "bin/agent": f"#!/bin/sh\nmkdir -p {AGENT}/bin\ncat >{AGENT}/bin/kubenode <<'END'\n{program()}END\n",
            "bin/manifests": (
                "#!/bin/sh\nmkdir -p /etc/kubenode/manifests\n"
                f"echo '{json.dumps(SHOP)}' >/etc/kubenode/manifests/shop.json\n"
            ),
        },
        commands(
            "agent\nmanifests\nip link add eth0 type dummy\nip address add 192.0.2.1/24 dev eth0\n"
            "ip link set eth0 up\nip route add 10.244.1.0/24 dev eth0\nip route add 198.51.100.0/24 via 192.0.2.9\n"
            f"python3 -IS {AGENT}/bin/kubenode apply"
        ),
        after=commands(
            f"python3 -IS {AGENT}/bin/kubenode cleanup\nip link del eth0\nrm -r /opt/kubenode /etc/kubenode"
        ),
    ),
    "plugins/modules/ipsets.py": Example(
        {
            "Have a set of networks with exactly these members": CHANGES,
            "Add one address that expires after five minutes, leave the other members alone": CHANGES,
            "Have exactly these sets of the owner edge": CHANGES,
            "Have the members that a file on the controller lists": CHANGES,
            "Look up a packet in two sets, in this order": CHANGES,
            "Remove a set": CHANGES,
        },
        {"files/listed.txt": "# from somewhere\n192.0.2.0/24\n198.51.100.0/24\n"},
    ),
    "plugins/modules/ipsets_info.py": Example(
        {
            "Read two sets": READS,
            "Read all sets as kubenode.ipvs.ipsets takes them": READS,
            "Restore this state": STAYS,
        },
        before=[*TRUSTED, *commands("ipset create blocked hash:ip")],
        after=[*NO_TRUSTED, *commands("ipset destroy blocked")],
    ),
    "plugins/modules/iptables_chains.py": Example(
        {
            "Let only trusted networks reach the node port range": CHANGES,
            "Write rules as fields, and log and drop all other packets": CHANGES,
            "Masquerade packets to the back ends, in both families": CHANGES,
            "Remove a chain and the jumps into it": CHANGES,
        },
        before=TRUSTED,
        after=NO_TRUSTED,
    ),
    "plugins/modules/iptables_chains_info.py": Example(
        {
            "Read the rules of the table nat": READS,
            "Read all chains as kubenode.ipvs.iptables_chains takes them": READS,
            "Restore this state": STAYS,
        },
        given=[("iptables_chains", {"chains": [{"name": "MINE", "rules": ["-j DROP"], "families": ["ipv4", "ipv6"]}]})],
    ),
    "plugins/modules/ipvs_services.py": Example(
        {
            "Balance a web service over two real servers": CHANGES,
            "Stop new connections to one real server, leave the others as they are": CHANGES,
            "Leave the weights of existing real servers to a health checker": CHANGES,
            "Have exactly these virtual servers of the owner edge": CHANGES,
            "Replace a real server, and drain the old one for at most ten minutes": CHANGES,
            "Forget idle connections after an hour, and synchronise connections with another balancer": CHANGES,
            "Remove a virtual server": CHANGES,
        },
        before=[*ETH0, *TIMEOUTS],
        after=[*NO_ETH0, *TIMEOUTS],
    ),
    "plugins/modules/ipvs_services_info.py": Example(
        {
            "Read the table": READS,
            "Stop if a real server has connections": READS,
            "Read it as kubenode.ipvs.ipvs_services takes it": READS,
            "Restore this table, for example on another node": STAYS,
        },
        given=[("ipvs_services", {"services": [WEB]})],
    ),
    "plugins/modules/kernel_modules.py": Example(
        {"Load the kernel modules of IPVS": CHANGES, "Remove all modules of this owner": CHANGES},
    ),
    "plugins/modules/kernel_modules_info.py": Example(
        {
            "Read the state of the modules that IPVS needs": READS,
            "Fail if the kernel has no IPVS": READS,
            "Read all loaded modules with their owners": READS,
            "Load the modules of the owner ansible again": STAYS,
        },
        given=[("kernel_modules", {"modules": ["ip_vs_sed"]})],
    ),
    "plugins/modules/kernel_settings.py": Example(
        {"Load the kernel modules of IPVS": CHANGES},
        before=commands("sysctl -w net.ipv4.ip_forward=0 net.ipv4.vs.conntrack=0"),
    ),
    "plugins/modules/nft_tables.py": Example(
        {
            "Let only trusted networks reach the node ports": CHANGES,
            "Have the tables that files on the controller hold, unless they cut the controller off": CHANGES,
            "Have exactly this table of mine, and no other of mine": CHANGES,
            "Remove a table": CHANGES,
        },
        {
            "files/edge.nft": "chain input { type filter hook input priority 0\nct state invalid drop\n}\n",
            "templates/mangling.nft.j2": "chain {{ 'marked' }} { meta mark set 1\n}\n",
        },
        nft=True,
    ),
    "plugins/modules/nft_tables_info.py": Example(
        {
            "Read a table": READS,
            "Read all tables as kubenode.ipvs.nft_tables takes them": READS,
            "Have the same again": STAYS,
        },
        given=[("nft_tables", {"tables": [{"name": "edge", "content": "chain c { accept\n}"}]})],
        nft=True,
    ),
    "plugins/modules/node_check.py": Example(
        {"Check the node": READS, "Fail on nodes that are not fit for IPVS": READS}
    ),
    # uml-pytest runs where both are installed, because its file system is this machine's. Molecule's scenarios install
    # packages.
    "plugins/modules/packages.py": Example(
        {"Install from the distribution's repositories": STAYS, "Install without any network": STAYS},
        before=commands("dpkg-query --status ipset ipvsadm"),
    ),
    "plugins/modules/service_proxy.py": Example(
        {
            "Serve the manifests in a directory on the controller": CHANGES,
            "Serve a Service without a cluster": CHANGES,
            "Remove the service proxy": CHANGES,
        },
        MANIFESTS,
    ),
    "plugins/modules/swap.py": Example(
        {"Turn swap off, now and at every boot": CHANGES, "Restore swap": CHANGES},
        {
            "bin/swap": (
                "#!/bin/sh\necho 4M >/sys/block/zram0/disksize\nmkswap /dev/zram0\necho /dev/zram0 none swap sw 0 0"
                " >>/etc/fstab\n"
            )
        },
        commands("swap\nswapon /dev/zram0"),
        after=commands("swapoff /dev/zram0\nsed -i /zram0/d /etc/fstab"),
    ),
    "plugins/modules/sysctls.py": Example(
        {
            "Set the kernel parameters of IPVS": CHANGES,
            "Set bounds instead of values": CHANGES,
            "Filter by reverse path, and undo the change if it cuts off the controller": CHANGES,
            "Restore the original value": CHANGES,
            "Restore all parameters of this owner": CHANGES,
        },
        before=commands(
            "ip link add eth0.100 type dummy\nsysctl -w net.ipv4.ip_forward=0 net.ipv4.conf.all.rp_filter=0"
        ),
        after=commands("ip link del eth0.100"),
    ),
    "plugins/modules/sysctls_info.py": Example(
        {
            "Read the parameters of IPVS": READS,
            "Show them as kubenode.ipvs.sysctls takes them": "net.ipv4.vs.conntrack",
            "Read the parameters that the ledger lists": READS,
            "Restore this state": STAYS,
        },
        given=[("sysctls", {"sysctls": {"net.ipv4.vs.conntrack": 1}})],
    ),
    "plugins/modules/virtual_addresses.py": Example(
        {
            "Add the addresses of two virtual servers": CHANGES,
            "Add one more address, leave the others as they are": CHANGES,
            "Remove the link with its addresses": CHANGES,
        },
    ),
    "plugins/modules/virtual_addresses_info.py": Example(
        {
            "Read the proxy's addresses": READS,
            "Read them as kubenode.ipvs.virtual_addresses takes them": READS,
            "Restore this state": STAYS,
        },
        before=commands("ip link add kube-ipvs0 type dummy\nip address add 192.0.2.80/32 dev kube-ipvs0"),
        after=commands("ip link del kube-ipvs0"),
    ),
    "plugins/filter/fleet_report.py": Example({"Show the report": "node1"}, asked={"found": "node_check"}),
    "plugins/filter/keep_off.py": Example({"Show what keeps kube-proxy off nodes that the agent serves": "NotIn"}),
    "plugins/filter/kubeadm_config.py": Example({"Write what kubeadm init would read": "kind: KubeProxyConfiguration"}),
    "plugins/filter/kubeadm_plan.py": Example({"Show the decided proxy": "agent"}),
    "plugins/filter/kubeconfig_cluster.py": Example({"Show the API server of a kubeconfig": "https://192.0.2.10:6443"}),
    "plugins/filter/kubectl_access.py": Example(
        {"Show where kubectl runs in an inventory of Kubespray": "/usr/local/bin/kubectl"}
    ),
    "plugins/filter/kubespray_proxy_config.py": Example(
        {"Show the configuration for two of Kubespray's variables": "wrr"}
    ),
    "plugins/filter/to_ipset.py": Example({"Show a set as ipset would read it": "add trusted 192.0.2.0/24"}),
    "plugins/filter/to_iptables.py": Example({"Show a chain as iptables-restore would read it": "-I INPUT -j EDGE"}),
    "plugins/filter/to_ipvsadm.py": Example({"Show virtual servers as ipvsadm would": "-A -t 192.0.2.10:80 -s rr"}),
    "plugins/lookup/objects.py": Example(
        {"Name the Services in a directory": "['web']", "Converge a node to the objects of a cluster": CHANGES},
        {**MANIFESTS, "bin/kubectl": f"#!/bin/sh\necho '{LIST}'\n"},
    ),
    "README.md #1": Example({"One virtual server, and none of ours beside it": CHANGES}),
    "docs/how-to/converge.md #1": Example(
        {
            "Load kernel modules": CHANGES,
            "Set kernel parameters": CHANGES,
            "Converge sets": CHANGES,
            "Converge chains": CHANGES,
            "Converge virtual servers": CHANGES,
            "Converge addresses": CHANGES,
        },
        before=commands("sysctl -w net.ipv4.ip_forward=0"),
    ),
    "docs/how-to/converge.md #2": Example({"#1": CHANGES}, given=[("ipvs_services", {"services": [WEB]})]),
    "docs/how-to/converge.md #3": Example({"#1": CHANGES}, before=[*ETH0, *TIMEOUTS], after=[*NO_ETH0, *TIMEOUTS]),
    "docs/how-to/converge.md #4": Example({"#1": CHANGES}),
    "docs/how-to/converge.md #5": Example({"#1": CHANGES}, before=TRUSTED, after=NO_TRUSTED),
    "docs/how-to/converge.md #6": Example({"#1": CHANGES}, nft=True),
    "docs/how-to/converge.md #7": Example({"#1": CHANGES}, {"files/blocked.txt": "192.0.2.0/24\n"}),
    "docs/how-to/service-proxy.md #1": Example({"Balance as the manifests say": CHANGES}, MANIFESTS),
}
