# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of other programs beside the agent's: they stay byte for byte, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.agent.process import eventually
from support.processes.namespace import inside, sh
from support.traffic.cluster import Cluster, cluster_ip, node_port, service
from support.traffic.conversation import ask
from support.traffic.network import NODE

from kubenode.engine.kernel.netlink import (
    NETLINK_NETFILTER,
    NLM_F_CREATE,
    NetlinkSocket,
    attribute,
    attributes,
    message,
    string,
    string_attribute,
)
from kubenode.engine.kernel.nfnetlink.protocol import HEADER_BYTES, NFNL_SUBSYS_NFTABLES
from kubenode.engine.kernel.nftables.protocol import (
    FAMILIES,
    GETCHAIN,
    GETRULE,
    GETSET,
    GETSETELEM,
    GETTABLE,
    NEWCHAIN,
    NEWSET,
    NEWTABLE,
    U32,
)
from kubenode.engine.kernel.nftables.transaction import transact

WEB, PORT = 130, 30130

# As kube-proxy 1.36 (mode nftables), Calico (Felix' nftables dataplane) and Cilium write them, cut short.
KUBE_PROXY = """
table {family} kube-proxy {{
  comment "rules for kube-proxy"
  set cluster-ips {{ type {type}; comment "Active ClusterIPs"; }}
  set nodeport-ips {{ type {type}; elements = {{ {address} }}; }}
  map no-endpoint-services {{ type {type} . inet_proto . inet_service : verdict; }}
  map service-ips {{
    type {type} . inet_proto . inet_service : verdict
    elements = {{ {vip} . tcp . 80 : goto service-ABCDEFGH-default/web/tcp/p }}
  }}
  chain service-ABCDEFGH-default/web/tcp/p {{
    {ip} daddr {vip} tcp dport 80 {ip} saddr != {pods} jump mark-for-masquerade
    numgen random mod 1 vmap {{ 0 : goto endpoint-IJKLMNOP-default/web/tcp/p }}
  }}
  chain endpoint-IJKLMNOP-default/web/tcp/p {{ meta l4proto tcp dnat to {pod}:8080; }}
  chain mark-for-masquerade {{ meta mark set meta mark | 0x00008000; }}
  chain cluster-ips-check {{ {ip} daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"; }}
}}
"""
CALICO = """
table ip calico {
  map filter-cali-fw { type ifname : verdict; }
  set cali40all-hosts-net { type ipv4_addr; flags interval; elements = { 192.0.2.0-192.0.2.9 }; }
  set timeouts { type ipv4_addr; flags dynamic,timeout; size 100; }
  counter denied { packets 0 bytes 0 }
  quota month { over 10 mbytes }
  chain filter-FORWARD {
    type filter hook forward priority filter; policy accept;
    meta mark set meta mark & 0xfff1ffff
    ct state vmap { invalid : drop, established : accept }
    limit rate 5/second burst 10 packets counter name denied log prefix "calico-packet: " continue
    iifname vmap @filter-cali-fw
  }
  chain nat-cali-PREROUTING { tcp dport 9099 update @timeouts { ip saddr timeout 1m } redirect to :9098; }
}
table inet cilium {
  chain output { type filter hook output priority raw; meta mark & 0x00000f00 == 0x00000200 notrack return; }
}
"""
TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"), ("ip", "calico"), ("inet", "cilium"), ("ip", "newer"))


def newer() -> None:
    """Make a table as no program here writes it: a set of an unknown type, and notes of an unknown kind on all."""
    notes = b"\x7f\x02??"
    table = string_attribute(1, "newer")
    numbers = [(4, 0x3F), (5, 7), (10, 1)]  # type of the key, its length, number in the transaction
    described = b"".join(attribute(kind, U32.pack(number)) for kind, number in numbers)
    batch = [
        (NEWTABLE, table + attribute(6, notes)),
        (NEWSET, table + string_attribute(2, "unknown") + described + attribute(13, notes)),
        (NEWCHAIN, table + string_attribute(3, "unknown") + attribute(12, notes)),
    ]
    header = bytes((FAMILIES["ip"], 0, 0, 0))
    kinds = [(NFNL_SUBSYS_NFTABLES << 8 | kind, payload) for kind, payload in batch]
    assert transact([message(kind, NLM_F_CREATE, header + payload) for kind, payload in kinds]) == []


def foreign() -> dict[tuple[str, str], list[bytes]]:
    """Return all that the kernel tells of the other programs' tables, byte for byte."""
    found: dict[tuple[str, str], list[bytes]] = {}
    with inside(NODE), NetlinkSocket(NETLINK_NETFILTER) as kernel:
        for family, name in TABLES:
            header = bytes(({**FAMILIES, "inet": 1}[family], 0, 0, 0))
            table = string_attribute(1, name)

            def dump(command: int, payload: bytes = b"", header: bytes = header, table: bytes = table) -> list[bytes]:
                entries = kernel.dump(message(NFNL_SUBSYS_NFTABLES << 8 | command, 0, header + payload))
                return [entry[HEADER_BYTES:] for entry in entries if table in entry]

            sets = dump(GETSET, table)
            names = [string_attribute(2, string(attributes(entry)[2])) for entry in sets]
            elements = [entry for each in names for entry in dump(GETSETELEM, table + each)]
            found[family, name] = [*dump(GETTABLE), *dump(GETCHAIN), *dump(GETRULE, table), *sets, *elements]
    return found


def networks(family: str) -> dict[str, str]:
    """Return the words of KUBE_PROXY in a family."""
    start = {"ip": "192.0.2.", "ip6": "2001:db8::"}[family]
    pod = f"{start}3" if family == "ip" else f"[{start}3]"
    found = {"family": family, "ip": family, "address": f"{start}1", "vip": f"{start}2", "pod": pod}
    type_, pods = {"ip": ("ipv4_addr", "198.18.0.0/16"), "ip6": ("ipv6_addr", "2001:db8:1::/64")}[family]
    return {**found, "type": type_, "pods": pods}


@pytest.fixture(scope="module")
def cluster(nft_cluster: Cluster) -> Iterator[Cluster]:
    nft_cluster.write("web", service(WEB, ["r1"], node_port=PORT))
    with inside(NODE):
        for family in ("ip", "ip6"):
            sh("nft", "-f", "-", text=KUBE_PROXY.format(**networks(family)))
        sh("nft", "-f", "-", text=CALICO)
        newer()
    yield nft_cluster
    for family, name in TABLES:
        nft_cluster.run("nft", "delete", "table", family, name)


def test_foreign_tables_stay_byte_for_byte(cluster: Cluster, family: int) -> None:
    """Through a start, each switch, drift, the end of the agent and its cleanup."""
    before = foreign()
    assert all(before.values()), before
    cluster.start()
    assert ask("client1", node_port(PORT, family)).startswith("r1 sees ")
    assert foreign() == before
    for backend in ("iptables", "nftables"):
        cluster.reconfigure(rules={"backend": backend})
        assert foreign() == before
    cluster.run("nft", "delete table ip kubenode")
    with inside(NODE):
        eventually(lambda: cluster.agent.plan() == [])
    assert ask("client1", cluster_ip(WEB, family)).startswith("r1 sees ")
    assert foreign() == before
    assert cluster.agent.stop() == 0
    with inside(NODE):
        cluster.agent.command("cleanup", "--run-dir", str(cluster.agent.run))
    assert foreign() == before
