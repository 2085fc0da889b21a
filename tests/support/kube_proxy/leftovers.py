# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load kube-proxy's state into a kernel: as recorded in ipvs mode, and as its other modes write it.

The iptables and nftables modes are stand-ins for a kube-proxy that is not installed here: they write rules of the same
names and effect for one Service, and follow no changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubenode.engine.desired.rules import CHAINS

from ..processes.namespace import sh

_USE = Path(__file__).parents[3] / "molecule/migrate/files/iptables_mode.py"

# Rules of the kubelet and of another program in the same tables.
FOREIGN = {
    "mangle": (":KUBE-IPTABLES-HINT -", ":KUBE-KUBELET-CANARY -"),
    "nat": (
        ":KUBE-KUBELET-CANARY -",
        ":THEIRS -",
        "-A PREROUTING -p tcp -m tcp --dport 9 -j THEIRS",
        "-A THEIRS -j RETURN",
    ),
    "filter": (
        ":KUBE-FIREWALL -",
        "-A OUTPUT -j KUBE-FIREWALL",
        "-A KUBE-FIREWALL -d 127.0.0.0/8 -m mark --mark 0x8000 -j DROP",
    ),
}
_SERVICE, _EXTERNAL = "KUBE-SVC-ABCDEFGH2345672A", "KUBE-EXT-ABCDEFGH2345672A"
_NEW = "-m conntrack --ctstate NEW "
_JUMPS = {
    "nat": (
        ("PREROUTING", "", "kubernetes service portals", "KUBE-SERVICES"),
        ("OUTPUT", "", "kubernetes service portals", "KUBE-SERVICES"),
        ("POSTROUTING", "", "kubernetes postrouting rules", "KUBE-POSTROUTING"),
    ),
    "filter": (
        ("INPUT", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
        ("INPUT", "", "kubernetes health check service ports", "KUBE-NODEPORTS"),
        ("INPUT", _NEW, "kubernetes externally-visible service portals", "KUBE-EXTERNAL-SERVICES"),
        ("FORWARD", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
        ("FORWARD", "", "kubernetes forwarding rules", "KUBE-FORWARD"),
        ("FORWARD", _NEW, "kubernetes service portals", "KUBE-SERVICES"),
        ("FORWARD", _NEW, "kubernetes externally-visible service portals", "KUBE-EXTERNAL-SERVICES"),
        ("OUTPUT", _NEW, "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
        ("OUTPUT", _NEW, "kubernetes service portals", "KUBE-SERVICES"),
    ),
}
_CHAINS = {
    "nat": (
        "KUBE-SERVICES",
        "KUBE-POSTROUTING",
        "KUBE-MARK-MASQ",
        "KUBE-NODEPORTS",
        "KUBE-PROXY-CANARY",
        _SERVICE,
        _EXTERNAL,
    ),
    "filter": (
        "KUBE-SERVICES",
        "KUBE-EXTERNAL-SERVICES",
        "KUBE-FORWARD",
        "KUBE-NODEPORTS",
        "KUBE-PROXY-FIREWALL",
        "KUBE-PROXY-CANARY",
    ),
    "mangle": ("KUBE-PROXY-CANARY",),
}
_RULES = {
    "nat": (
        "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
        "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
        "-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0",
        (
            '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE'
            " --random-fully"
        ),
    ),
    "filter": (
        "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
        '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
    ),
    "mangle": (),
}

_NFTABLES_MODE = """
table ip kube-proxy {{
  chain service {{
    ip saddr != {cluster_cidr} meta mark set meta mark or 0x4000
    meta l4proto tcp dnat to {endpoint}
  }}
  chain services {{
    ip daddr {vip} tcp dport {port} goto service
    ip daddr {node} tcp dport {node_port} goto service
  }}
  chain nat-prerouting {{ type nat hook prerouting priority -100; jump services; }}
  chain nat-output {{ type nat hook output priority -100; jump services; }}
  chain nat-postrouting {{ type nat hook postrouting priority 100; meta mark & 0x4000 != 0 masquerade; }}
}}
"""


def load(state: dict[str, Any]) -> None:
    """Load a recorded state of the ipvs mode into this namespace, without the node's own addresses."""
    sh("ipset", "restore", text=state["ipset"])
    sh("iptables-restore", text=state["v4"])
    sh("ip6tables-restore", text=state["v6"])
    sh("ipvsadm", "-R", text=state["ipvs"])
    sh("ip", "link", "add", "kube-ipvs0", "type", "dummy")
    bound = [item for link in json.loads(state["addr"]) for item in link["addr_info"]]
    lines = [f"addr add {item['local']}/{item['prefixlen']} dev kube-ipvs0" for item in bound]
    sh("ip", "-batch", "-", text="\n".join(lines) + "\n")


def load_foreign() -> None:
    """Replace the content of the tables by FOREIGN."""
    text = "".join(f"*{table}\n" + "\n".join(lines) + "\nCOMMIT\n" for table, lines in FOREIGN.items())
    sh("iptables-restore", text=text)


def use_iptables_mode(made: dict[str, Any], directory: Path) -> None:
    """Write the rules and jumps of kube-proxy's iptables mode, as kube-proxy does."""
    (directory / "made.json").write_text(json.dumps(made))
    sh(sys.executable, str(_USE), str(directory / "made.json"))


def start_nftables_mode(vip: str, port: int, node: str, node_port: int, endpoint: str, cluster_cidr: str) -> None:
    """Stand in for the start of kube-proxy in nftables mode, with one Service of type NodePort and one endpoint.

    As its source says, it first removes the items of the ipvs mode: jumps and chains of both families, all virtual
    servers of every owner, kube-ipvs0, and the sets with IPv4 names. Then it writes its table.
    """
    for tool in ("iptables", "ip6tables"):
        for table in ("nat", "filter"):
            rules = sh(f"{tool}-save", "-t", table).splitlines()
            chains = [line[1:].split()[0] for line in rules if line.startswith(":KUBE-")]
            chains = [chain for chain in chains if chain in CHAINS[table]]
            jumps = [line for line in rules if line.split()[-1] in chains and not line.startswith("-A KUBE-")]
            lines = [f"*{table}", *(f":{chain} -" for chain in chains)]
            lines += [f"-D{line[2:]}" for line in jumps] + [f"-X {chain}" for chain in chains]
            sh(f"{tool}-restore", "--noflush", text="\n".join([*lines, "COMMIT"]) + "\n")
    sh("ipvsadm", "-C")
    sh("ip", "link", "del", "kube-ipvs0")
    for name in sh("ipset", "list", "-n").split():
        if name.startswith("KUBE-") and not name.startswith("KUBE-6-"):
            sh("ipset", "destroy", name)
    sh("nft", "-f", "-", text=_NFTABLES_MODE.format(**locals()))


def iptables_mode(vip: str, port: int, node_port: int, endpoints: Sequence[str], cluster_cidr: str) -> dict[str, Any]:
    """Return the state of kube-proxy's iptables mode for one Service of type NodePort.

    ``rules`` is text for iptables-restore; ``jumps`` are pairs (table, jump), in order.
    """
    parts = [f"KUBE-SEP-{letter * 16}" for letter in "ABCDEFGH"[: len(endpoints)]]
    rules = {
        **_RULES,
        "nat": (
            *_service(vip, port, node_port, dict(zip(parts, endpoints, strict=True)), cluster_cidr),
            *_RULES["nat"],
        ),
    }
    lines: list[str] = []
    jumps: list[tuple[str, str]] = []
    for table, names in {**_CHAINS, "nat": (*_CHAINS["nat"], *parts)}.items():
        lines += [f"*{table}", *(f":{chain} -" for chain in names), *rules[table], "COMMIT"]
        for chain, match, comment, to in _JUMPS.get(table, ()):
            jumps.append((table, f'-A {chain} {match}-m comment --comment "{comment}" -j {to}'))
    return {"rules": "\n".join(lines) + "\n", "jumps": jumps}


def _service(vip: str, port: int, node_port: int, parts: dict[str, str], cluster_cidr: str) -> list[str]:
    name = '-m comment --comment "ns1/web:p"'
    lines = [
        f"-A KUBE-SERVICES -d {vip}/32 -p tcp {name} -m tcp --dport {port} -j {_SERVICE}",
        (
            '-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports" -m addrtype --dst-type LOCAL -j'
            " KUBE-NODEPORTS"
        ),
        f"-A KUBE-NODEPORTS -p tcp {name} -m tcp --dport {node_port} -j {_EXTERNAL}",
        f"-A {_EXTERNAL} {name} -j KUBE-MARK-MASQ",
        f"-A {_EXTERNAL} -j {_SERVICE}",
        f"-A {_SERVICE} ! -s {cluster_cidr} -d {vip}/32 -p tcp {name} -m tcp --dport {port} -j KUBE-MARK-MASQ",
    ]
    for left, (part, endpoint) in zip(range(len(parts), 0, -1), parts.items(), strict=True):
        chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
        lines.append(f"-A {_SERVICE} {name}{chance} -j {part}")
        lines.append(f"-A {part} -s {endpoint.rpartition(':')[0]}/32 {name} -j KUBE-MARK-MASQ")
        lines.append(f"-A {part} -p tcp {name} -m tcp -j DNAT --to-destination {endpoint}")
    return lines
