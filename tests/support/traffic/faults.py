# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults to inject into node1, each with a flow that it breaks and the name that ``kubenode explain`` must give it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..clusters.objects import Object
from .cluster import cluster_ip, node_port, pod, service
from .network import APPLIANCE_IP, BALANCER_IP, GATEWAY, HOSTS, NODE

GOOD, NO_SLICE, NO_ENDPOINTS, NOT_READY, TERMINATING, PORT_NAME, INTERNAL, EXTERNAL = range(120, 128)
RANGES, WEIGHTLESS, REFUSED, BROKEN_SLICE, OTHER, PROXY, CONFLICT, LOOPBACK = range(128, 136)
FOUR, STICKY, MAGLEV, ITSELF, TAKEN, DEAF, ONE, TUNNEL = range(136, 144)
VIP = cluster_ip(GOOD, 4).address
BALANCER = BALANCER_IP[4].format(GOOD)
CLIENT, P1, P3 = HOSTS["client1"].ip[4], HOSTS["p1"].ip[4], HOSTS["p3"].ip[4]
NFT = (
    "add table inet fw; add chain inet fw {hook} {{ type {kind} hook {hook} priority {priority}; }};"
    " add rule inet fw {hook} {rule}"
)
NO_NFT = ("nft delete table inet fw",)
BOTH = ("iptables", "nftables")


class Injected(NamedTuple):
    """One fault: commands that make it and take it back, the flow, and the names that count as the culprit's.

    ``client`` is a host's name or words; ``words`` are further options. ``said`` must be in the sentence.
    """

    title: str
    client: str
    target: str
    names: tuple[str, ...]
    said: str = ""
    make: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    back_ends: tuple[str, ...] = BOTH
    words: tuple[str, ...] = ()


def fill() -> list[Object]:
    """Return the Services of the faults."""
    dying = {"ready": False, "serving": False, "terminating": True}
    only = [f"{HOSTS['client2'].ip[4]}/32", f"{HOSTS['client2'].ip[6]}/128"]
    things = [
        *service(GOOD, ["p1", "r1"], protocols=("tcp", "udp"), node_port=30120, external=True, balancer=True),
        *service(NO_SLICE, [])[:1],
        *service(NO_ENDPOINTS, []),
        *service(NOT_READY, [pod("p1", ready=False), pod("r1", ready=False, serving=False)]),
        *service(TERMINATING, [pod("p1", **dying)]),
        *renamed(service(PORT_NAME, ["p1"])),
        *service(INTERNAL, ["r1"], internalTrafficPolicy="Local"),
        *service(EXTERNAL, ["r1"], node_port=30127, externalTrafficPolicy="Local"),
        *service(RANGES, ["p1"], balancer=True, loadBalancerSourceRanges=only),
        *service(WEIGHTLESS, ["p1"], weights={"p1": "0"}),
        *service(REFUSED, ["p1"], externalTrafficPolicy="Lokal"),
        *service(BROKEN_SLICE, ["p1"], weights={"p1": "-1"}),
        *service(OTHER, ["p1"], labels={"service.kubernetes.io/service-proxy-name": "another"}),
        *service(PROXY, ["p1"], kind="LoadBalancer", ingress=[{"ip": APPLIANCE_IP[4].format(9), "ipMode": "Proxy"}]),
        *service(CONFLICT, ["p1"], externalIPs=[VIP]),
        *service(LOOPBACK, ["p1"], externalIPs=["127.0.0.2"]),
        *service(FOUR, ["p1"], node_port=30136),
        *service(STICKY, ["p1", "p2"], sessionAffinity="ClientIP"),
        *service(
            MAGLEV, ["p1", "p2"], weights={"p1": "0"},
            annotations={"kubenode.ipvs/scheduler": "mh", "kubenode.ipvs/scheduler-flags": "mh-port"},
        ),
        *service(ITSELF, ["p1"]),
        *service(TAKEN, ["p1"]),
        *service(DEAF, ["p1"]),
        *service(ONE, ["p1", "p2"]),
        *service(TUNNEL, ["p1"]),
    ]  # fmt: skip
    for thing in things:
        name, spec = thing["metadata"]["name"], thing.get("spec", {})
        if name == f"svc{FOUR}" and spec:
            spec["clusterIPs"] = spec["clusterIPs"][:1]
        if name == f"svc{TUNNEL}":
            spec["ports"][0]["port"] = 8080
        if name.startswith(f"svc{DEAF}-"):
            thing["ports"][0]["port"] = 9999
    return things


def renamed(things: list[Object]) -> list[Object]:
    """Give the ports of EndpointSlices another name."""
    for thing in things[1:]:
        thing["ports"][0]["name"] = "web"
    return things


def to(number: int, port: int = 80) -> str:
    return f"{cluster_ip(number, 4).address}:{port}"


def nft(hook: str, rule: str, priority: int = -10, kind: str = "filter") -> tuple[str, ...]:
    """Return the command that adds a rule of another program."""
    return (f"nft {NFT.format(hook=hook, rule=rule, priority=priority, kind=kind)}",)


def chain(title: str, words: str, rule: str, name: str = "foreign-rule", **more: Any) -> Injected:
    """Return a foreign rule of iptables: ``words`` are table and chain."""
    table, its_chain = words.split()
    client, target = more.pop("client", "client1"), more.pop("target", f"{VIP}:80")
    said = more.pop("said", f"rule 1 of chain {its_chain} of table {table}")
    make = (f"iptables -t {table} -I {its_chain} {rule}",)
    return Injected(title, client, target, (name,), said, make, (f"iptables -t {table} -D {its_chain} {rule}",), **more)


OBJECTS = (
    Injected("no EndpointSlice", "client1", to(NO_SLICE), ("no-slice",), "there is no EndpointSlice"),
    Injected("an EndpointSlice without endpoints", "p3", to(NO_ENDPOINTS), ("no-endpoints",), "lists none"),
    Injected("endpoints that are not ready", "client1", to(NOT_READY), ("not-ready",), "10.244.1.11 is not ready"),
    Injected("an endpoint that terminates", NODE, to(TERMINATING), ("not-ready",), "terminating and not serving"),
    Injected(
        "another port name in the EndpointSlice", "client1", to(PORT_NAME), ("port-name",), "p-tcp (it has tcp web)"
    ),
    Injected(
        "internalTrafficPolicy Local without a local endpoint",
        "p3",
        to(INTERNAL),
        ("policy-local",),
        "10.244.2.11 on node2",
    ),
    Injected(
        "externalTrafficPolicy Local without a local endpoint",
        "client1",
        f"{HOSTS[NODE].ip[4]}:30127",
        ("local-fallback",),
        "externalTrafficPolicy",
    ),
    Injected(
        "source ranges without the client", "client1", f"{BALANCER_IP[4].format(RANGES)}:80", ("source-range",), CLIENT
    ),
    Injected(
        "source ranges without the node",
        NODE,
        f"{BALANCER_IP[4].format(RANGES)}:80",
        ("source-range",),
        "the node itself",
    ),
    Injected("weight 0 of an EndpointSlice", "client1", to(WEIGHTLESS), ("weight-annotation",), "kubenode.ipvs/weight"),
    Injected(
        "a Service that the agent refuses",
        "client1",
        to(REFUSED),
        ("service-refused",),
        "spec.externalTrafficPolicy is 'Lokal'",
    ),
    Injected(
        "an EndpointSlice that the agent refuses",
        "client1",
        to(BROKEN_SLICE),
        ("slice-refused",),
        "kubenode.ipvs/weight",
    ),
    Injected("a Service of another proxy", "client1", to(OTHER), ("other-proxy",), "service-proxy-name=another"),
    Injected(
        "a load balancer address with ipMode Proxy",
        "client1",
        f"{APPLIANCE_IP[4].format(9)}:80",
        ("proxy-mode",),
        "ipMode Proxy",
    ),
    Injected("an external IP that the agent refuses", NODE, "127.0.0.2:80", ("service-refused",), "127.0.0.2"),
    Injected(
        "a Service without the family",
        "client1",
        f"[{HOSTS[NODE].ip[6]}]:30136",
        ("other-family",),
        "no cluster IP of IPv6",
    ),
    Injected("a port that the Service does not have", "client1", to(GOOD, 81), ("wrong-port",), "no port tcp 81"),
    Injected("an address that no Service has", "client1", "10.96.0.250:80", ("no-service",), "no Service has"),
    Injected(
        "nodePortAddresses without the address",
        "p3",
        f"{GATEWAY[4]}:30120",
        ("node-port-address",),
        "nodePortAddresses",
    ),
    Injected("a hashing scheduler without fallback", "client1", to(MAGLEV), ("no-fallback",), "no fallback"),
    Injected("a virtual server of another program", "client1", to(TAKEN), ("server-foreign",), "not in the ledger"),
    Injected(
        "a pod that does not listen",
        "p3",
        to(DEAF),
        ("pod-refuses",),
        "no process listens",
        words=("--probe", "--netns", "p3"),
    ),
    Injected(
        "a client without a route back",
        "192.168.77.7",
        f"{VIP}:80",
        ("client-route",),
        "192.168.77.7",
        words=("--in-interface", "eth0"),
    ),
)

_SERVER = f"-t {VIP}:80"
_REAL = f"{_SERVER} -r {P1}:8080"
KERNEL = (
    Injected(
        "virtual address missing",
        "client1",
        f"{VIP}:80",
        ("address-missing",),
        f"{VIP}/32",
        (f"ip addr del {VIP}/32 dev kube-ipvs0",),
    ),
    Injected(
        "link kube-ipvs0 missing",
        "client1",
        f"{VIP}:80",
        ("address-missing",),
        "kube-ipvs0",
        ("ip link del kube-ipvs0",),
    ),
    Injected("virtual server missing", "p3", f"{VIP}:80", ("server-missing",), VIP, (f"ipvsadm -D {_SERVER}",)),
    Injected("real server missing", "client1", f"{VIP}:80", ("real-server-missing",), P1, (f"ipvsadm -d {_REAL}",)),
    Injected(
        "all real servers missing",
        "client1",
        f"{VIP}:80",
        ("real-server-missing",),
        VIP,
        (f"ipvsadm -d {_REAL}", f"ipvsadm -d {_SERVER} -r {HOSTS['r1'].ip[4]}:8080"),
    ),
    Injected(
        "weight set to 0",
        "client1",
        f"{VIP}:80",
        ("weight-differs",),
        "weight 0 instead of 1",
        (f"ipvsadm -e {_REAL} -m -w 0",),
    ),
    Injected(
        "another forwarding method",
        "client1",
        to(TUNNEL, 8080),
        ("forward-differs",),
        "tunnel instead of masquerade",
        (f"ipvsadm -e -t {to(TUNNEL, 8080)} -r {P1}:8080 -i -w 1",),
    ),
    Injected(
        "a real server added by hand",
        "client1",
        f"{VIP}:80",
        ("real-server-foreign",),
        "10.244.1.99",
        (f"ipvsadm -a {_SERVER} -r 10.244.1.99:8080 -m",),
    ),
    Injected(
        "another scheduler",
        "client1",
        f"{VIP}:80",
        ("server-differs",),
        "scheduler wrr instead of rr",
        (f"ipvsadm -E {_SERVER} -s wrr",),
    ),
    Injected(
        "persistence added by hand",
        "client1",
        f"{VIP}:80",
        ("server-differs",),
        "timeout 300",
        (f"ipvsadm -E {_SERVER} -s rr -p 300",),
    ),
    Injected(
        "member of the cluster IP missing",
        "client1",
        f"{VIP}:80",
        ("member-missing",),
        "KUBE-CLUSTER-IP",
        (f"ipset del KUBE-CLUSTER-IP {VIP},tcp:80",),
        back_ends=("iptables",),
    ),
    Injected(
        "element of the cluster IP missing",
        "client1",
        f"{VIP}:80",
        ("member-missing",),
        "cluster-ip",
        (f"nft delete element ip kubenode cluster-ip {{ {VIP} . tcp . 80 }}",),
        back_ends=("nftables",),
    ),
    Injected(
        "member of the node port missing",
        "client1",
        f"{HOSTS[NODE].ip[4]}:30120",
        ("member-missing",),
        "30120",
        ("ipset del KUBE-NODE-PORT-TCP 30120",),
        back_ends=("iptables",),
    ),
    Injected(
        "element of the node port missing",
        "client1",
        f"{HOSTS[NODE].ip[4]}:30120",
        ("member-missing",),
        "30120",
        ("nft delete element ip kubenode node-port-tcp { 30120 }",),
        back_ends=("nftables",),
    ),
    Injected(
        "member of the load balancer missing",
        "client1",
        f"{BALANCER}:80",
        ("member-missing",),
        BALANCER,
        (f"ipset del KUBE-LOAD-BALANCER {BALANCER},tcp:80",),
        back_ends=("iptables",),
    ),
    Injected(
        "element of the load balancer missing",
        "client1",
        f"{BALANCER}:80",
        ("member-missing",),
        BALANCER,
        (f"nft delete element ip kubenode load-balancer {{ {BALANCER} . tcp . 80 }}",),
        back_ends=("nftables",),
    ),
    Injected(
        "member for a pod that reaches itself missing",
        "p1",
        to(ITSELF),
        ("member-missing",),
        "KUBE-LOOP-BACK",
        (f"ipset del KUBE-LOOP-BACK {P1},tcp:8080,{P1}",),
        back_ends=("iptables",),
    ),
    Injected(
        "element for a pod that reaches itself missing",
        "p1",
        to(ITSELF),
        ("member-missing",),
        "loop-back",
        (f"nft delete element ip kubenode loop-back {{ {P1} . tcp . 8080 . {P1} }}",),
        back_ends=("nftables",),
    ),
    Injected(
        "chain KUBE-MARK-MASQ empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "KUBE-MARK-MASQ",
        ("iptables -t nat -F KUBE-MARK-MASQ",),
        back_ends=("iptables",),
    ),
    Injected(
        "chain mark-masq empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "mark-masq",
        ("nft flush chain ip kubenode mark-masq",),
        back_ends=("nftables",),
    ),
    Injected(
        "chain KUBE-POSTROUTING empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "KUBE-POSTROUTING",
        ("iptables -t nat -F KUBE-POSTROUTING",),
        back_ends=("iptables",),
    ),
    Injected(
        "chain postrouting empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "postrouting",
        ("nft flush chain ip kubenode postrouting",),
        back_ends=("nftables",),
    ),
    Injected(
        "chain KUBE-SERVICES empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "KUBE-SERVICES",
        ("iptables -t nat -F KUBE-SERVICES",),
        back_ends=("iptables",),
    ),
    Injected(
        "rules of PREROUTING flushed",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "PREROUTING",
        ("iptables -t nat -F PREROUTING",),
        back_ends=("iptables",),
    ),
    Injected(
        "chain nat-prerouting empty",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "nat-prerouting",
        ("nft flush chain ip kubenode nat-prerouting",),
        back_ends=("nftables",),
    ),
    Injected(
        "rules of POSTROUTING flushed",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "POSTROUTING",
        ("iptables -t nat -F POSTROUTING",),
        back_ends=("iptables",),
    ),
    Injected(
        "the whole nat table flushed",
        "client1",
        f"{VIP}:80",
        ("rules-differ",),
        "table nat is missing",
        ("iptables -t nat -F", "iptables -t nat -X"),
        back_ends=("iptables",),
    ),
    Injected(
        "the table of nftables deleted",
        "client1",
        f"{VIP}:80",
        ("member-missing", "table-missing", "rules-differ"),
        "ip kubenode",
        ("nft delete table ip kubenode",),
        back_ends=("nftables",),
    ),
)
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
INJECTED = (*OBJECTS, *KERNEL, *FOREIGN, *SYSTEM, *PROXIES)


def node_target(port: int) -> str:
    found = node_port(port, 4)
    return f"{found.address}:{found.port}"
