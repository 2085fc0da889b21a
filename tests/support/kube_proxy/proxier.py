# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One full pass of kube-proxy 1.36's mode ipvs (``syncProxyRules``), written to be read from top to bottom.

It converts objects to tables, one family at a time, without the engine and without regard to cost: a second opinion on
the meaning of objects. Chains and comments are in the spelling of ``iptables-save``.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

Object = dict[str, Any]
Server = tuple[str, str, int]  # protocol, address, port
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


class Pass:
    """One pass of the proxier of one family; the attributes are its outcome."""

    def __init__(self, family: int, objects: list[Object], config: Object, node: Object, addresses: list[str]) -> None:
        self.servers: dict[Server, tuple[str, int, int]] = {}  # scheduler, flags, timeout
        self.reals: set[tuple[Server, str, int]] = set()
        self.sets: dict[str, set[str]] = {name: set() for name in COMMENTS}
        self.bound: set[str] = set()
        self.rules: dict[str, list[str]] = {}
        self.no_local: dict[str, set[str]] = {"internal": set(), "external": set()}  # names of Services
        self._family, self._config, self._node = family, config, node
        self._name = node["metadata"]["name"]
        self._zone = (node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone", "")
        self._no_node_access: list[tuple[str, str, int]] = []
        node_ips = [item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP"]
        own = self._parsed(node_ips)
        self._node_ip = own[0] if own else ("127.0.0.1", "::1")[family == 6]
        usable = [ip for ip in self._parsed(addresses) if not ip_address(ip).is_loopback]
        self._on_links = {ip for ip in usable if not (family == 6 and ip_address(ip).is_link_local)}
        self._node_port_ips = self._chosen(config.get("nodePortAddresses") or [], usable)
        slices = [item for item in objects if item["kind"] == "EndpointSlice" and _selected(item, "headless")]
        for service in objects:
            if service["kind"] == "Service" and _selected(service, "service-proxy-name") and self._has_ip(service):
                mine = [item for item in slices if self._belongs(item, service)]
                for port in service["spec"]["ports"]:
                    self._port(service, port, sorted(mine, key=lambda item: str(item["metadata"]["name"])))
        self.sets["IPVS-IPS"] = set(self.bound)
        self._write_rules()

    def _mine(self, ip: str) -> bool:
        return (":" in ip) is (self._family == 6)

    def _chosen(self, selectors: list[str], usable: list[str]) -> list[str]:
        if selectors == ["primary"]:
            selectors = [f"{self._node_ip}/{128 if self._family == 6 else 32}"]
        networks = [ip_network(net, strict=False) for net in selectors if self._mine(net)]
        if not networks or any(net.prefixlen == 0 for net in networks):
            return [ip for ip in usable if ip in self._on_links]
        return [ip for ip in usable if any(ip_address(ip) in net for net in networks)]

    def _parsed(self, texts: list[str]) -> list[str]:
        """Those of this family, as text of the parsed address (MapIPsByIPFamily)."""
        return [ip for ip in (parse_ip(text) for text in texts) if ip and self._mine(ip)]

    def _has_ip(self, service: Object) -> bool:
        spec = service["spec"]
        return (
            spec["type"] != "ExternalName" and spec["clusterIP"] not in ("", "None") and bool(self._cluster_ip(service))
        )

    def _cluster_ip(self, service: Object) -> str:
        """GetClusterIPByFamily, and the parsed address."""
        families = service["spec"].get("ipFamilies") or []
        for index, text in enumerate(service["spec"]["clusterIPs"]):
            if families[index:] and families[index] == f"IPv{self._family}":
                return parse_ip(text)
        return "" if families else next(iter(self._parsed([service["spec"]["clusterIP"]])), "")

    def _belongs(self, item: Object, service: Object) -> bool:
        metadata = item["metadata"]
        same = metadata["namespace"] == service["metadata"]["namespace"] and item["addressType"] == f"IPv{self._family}"
        return same and (metadata.get("labels") or {}).get("kubernetes.io/service-name") == service["metadata"]["name"]

    # endpoints

    def _endpoints(self, port: Object, slices: list[Object]) -> dict[tuple[str, int], Object]:
        found: dict[tuple[str, int], Object] = {}
        for item in slices:
            for listed in item["ports"] or []:
                if not listed.get("port") or (listed["name"], listed["protocol"]) != (port["name"], port["protocol"]):
                    continue
                for endpoint in item["endpoints"] or []:
                    ip = parse_ip(endpoint["addresses"][0]) if endpoint["addresses"] else ""
                    if ip and self._mine(ip):
                        key = (ip, listed["port"])
                        earlier = found.get(key)
                        # of two that terminate, kube-proxy takes the later one in the order of a Go map, which is any:
                        # here, the local one
                        both_end = earlier is not None and _is(earlier, "terminating") and self._here(endpoint)
                        if earlier is None or not _is(endpoint, "terminating") or both_end:
                            found[key] = endpoint
        return found

    def _here(self, endpoint: Object) -> bool:
        return endpoint.get("nodeName") == self._name

    def _fits(self, hints: str, value: str, ready: list[Object]) -> bool:
        given = [[hint["name"] for hint in (endpoint.get("hints") or {}).get(hints) or []] for endpoint in ready]
        return all(given) and any(value in names for names in given)

    def _cluster_endpoints(self, found: dict[tuple[str, int], Object]) -> list[tuple[str, int]]:
        ready = [endpoint for endpoint in found.values() if _is(endpoint, "ready")]
        chosen = {key for key, endpoint in found.items() if _is(endpoint, "ready")}
        for hints, value in (("forNodes", self._name), ("forZones", self._zone)):
            if value and self._fits(hints, value, ready):
                names = {key: [hint["name"] for hint in found[key]["hints"][hints]] for key in chosen}
                return [key for key in chosen if value in names[key]]
        return sorted(chosen) or [key for key, endpoint in found.items() if _last_resort(endpoint)]

    def _local_endpoints(self, found: dict[tuple[str, int], Object]) -> list[tuple[str, int]]:
        here = {key: endpoint for key, endpoint in found.items() if self._here(endpoint)}
        ready = [key for key, endpoint in here.items() if _is(endpoint, "ready")]
        return ready or [key for key, endpoint in here.items() if _last_resort(endpoint)]

    # one service port

    def _port(self, service: Object, port: Object, slices: list[Object]) -> None:
        spec = service["spec"]
        protocol, number, node_port = port["protocol"].lower(), port["port"], port.get("nodePort", 0)
        external_ips = self._parsed(spec.get("externalIPs") or [])
        ingress = service["status"]["loadBalancer"].get("ingress") or []
        balancer_ips = self._parsed(
            [item["ip"] for item in ingress if item.get("ip") and item.get("ipMode") != "Proxy"]
        )
        ranges = [net for net in map(parse_cidr, spec.get("loadBalancerSourceRanges") or []) if net and self._mine(net)]
        if any(ip_network(net, strict=False).prefixlen == 0 for net in ranges):
            ranges = []
        outside = spec["type"] in ("NodePort", "LoadBalancer") or bool(spec.get("externalIPs"))
        external_local = outside and spec.get("externalTrafficPolicy") == "Local"
        internal_local = spec.get("internalTrafficPolicy") == "Local"

        found = self._endpoints(port, slices)
        accessible = bool(node_port or external_ips or balancer_ips)
        uses_cluster = accessible or not internal_local
        uses_local = internal_local or (external_local and accessible)
        cluster = self._cluster_endpoints(found) if uses_cluster else []
        local = self._local_endpoints(found) if uses_local else []
        anywhere = [endpoint for endpoint in found.values() if _is(endpoint, "ready") or _last_resort(endpoint)]
        any_endpoint = bool(cluster or local or (not uses_cluster and anywhere))

        def serve(ip: str, at: int, only_local: bool) -> None:
            scheduler = self._config.get("ipvs", {}).get("scheduler") or "rr"
            flags, timeout = (0x10 if scheduler == "mh" else 0), 0
            if spec.get("sessionAffinity") == "ClientIP":
                flags, timeout = flags | 1, spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
            key = (protocol, ip, at)
            self.servers[key] = (scheduler, flags, timeout)
            self.reals.update((key, *place) for place in (local if only_local and local else cluster))
            if only_local and not local and any_endpoint:
                for policy, given in (("internal", internal_local), ("external", external_local)):
                    if given:
                        self.no_local[policy].add(service["metadata"]["name"])

        for (ip, at), endpoint in found.items():
            if self._here(endpoint):
                self.sets["LOOP-BACK"].add(f"{ip},{protocol}:{at},{ip}")
        cluster_ip = self._cluster_ip(service)
        self.sets["CLUSTER-IP"].add(f"{cluster_ip},{protocol}:{number}")
        serve(cluster_ip, number, internal_local)
        self.bound.add(cluster_ip)
        for ip in external_ips:
            self.sets["EXTERNAL-IP-LOCAL" if external_local else "EXTERNAL-IP"].add(f"{ip},{protocol}:{number}")
            serve(ip, number, external_local)
            self._bind(ip)
        for ip in balancer_ips:
            entry = f"{ip},{protocol}:{number}"
            self.sets["LOAD-BALANCER"].add(entry)
            if external_local:
                self.sets["LOAD-BALANCER-LOCAL"].add(entry)
            if ranges:
                self.sets["LOAD-BALANCER-FW"].add(entry)
                networks = [ip_network(net, strict=False) for net in ranges]
                for net in networks:
                    shown = str(net.network_address) if net.prefixlen == net.max_prefixlen else str(net)
                    self.sets["LOAD-BALANCER-SOURCE-CIDR"].add(f"{entry},{shown}")
                if any(ip_address(self._node_ip) in net for net in networks):
                    self.sets["LOAD-BALANCER-SOURCE-IP"].add(f"{entry},{ip}")
                else:
                    self._no_node_access.append((protocol, ip, number))
            serve(ip, number, external_local)
            self._bind(ip)
        if node_port:
            if not self._node_port_ips:
                return
            entries = (
                [f"{ip},sctp:{node_port}" for ip in self._node_port_ips] if protocol == "sctp" else [str(node_port)]
            )
            suffix = "SCTP-HASH" if protocol == "sctp" else protocol.upper()
            self.sets[f"NODE-PORT-{suffix}"].update(entries)
            if external_local:
                self.sets[f"NODE-PORT-LOCAL-{suffix}"].update(entries)
            for ip in self._node_port_ips:
                serve(ip, node_port, external_local)
        if spec["type"] == "LoadBalancer" and external_local and spec.get("healthCheckNodePort"):
            self.sets["HEALTH-CHECK-NODE-PORT"].add(str(spec["healthCheckNodePort"]))

    def _bind(self, ip: str) -> None:
        if ip not in self._on_links:
            self.bound.add(ip)

    # rules

    def _match(self, name: str, flags: str = "dst,dst", comment: bool = True) -> str:
        real = f"KUBE-{name}" if self._family == 4 else f"KUBE-6-{name}"[:31]
        said = f'-m comment --comment "{COMMENTS[name]}" ' if comment else ""
        return f"{said}-m set --match-set {real} {flags}"

    def _not_local(self) -> str:
        mode, detect = self._config.get("detectLocalMode") or "ClusterCIDR", self._config.get("detectLocal", {})
        if mode == "BridgeInterface":
            return f"! -i {detect['bridgeInterface']}"
        if mode == "InterfaceNamePrefix":
            return f"! -i {detect['interfaceNamePrefix']}+"
        cidrs = self._node["spec"]["podCIDRs"] if mode == "NodeCIDR" else self._config.get("clusterCIDR", "").split(",")
        mine = [cidr for cidr in cidrs if cidr and self._mine(cidr)]
        return f"! -s {mine[0]}" if mine else ""

    def _write_rules(self) -> None:
        filled = {name for name, members in self.sets.items() if members}
        mark = hex(1 << self._config.get("iptables", {}).get("masqueradeBit", 14))
        match = self._match
        services = [f"-s {'127.0.0.0/8' if self._family == 4 else '::1/128'} -j RETURN"]
        if "LOAD-BALANCER" in filled:
            services.append(f"{match('LOAD-BALANCER')} -j KUBE-LOAD-BALANCER")
        if "CLUSTER-IP" in filled:
            everything, detector = self._config.get("iptables", {}).get("masqueradeAll"), self._not_local()
            flags = "dst,dst" if everything or detector else "src,dst"
            start = f"{detector} " if detector and not everything else ""
            services.append(f"{start}{match('CLUSTER-IP', flags)} -j KUBE-MARK-MASQ")
        if "EXTERNAL-IP" in filled:
            services.append(f"{match('EXTERNAL-IP')} -j KUBE-MARK-MASQ")
        for name in ("EXTERNAL-IP", "EXTERNAL-IP-LOCAL"):
            if name in filled:
                services += [f"{match(name)} {OUTSIDE} -j ACCEPT", f"{match(name)} {LOCAL} -j ACCEPT"]
        services.append(f"{LOCAL} -j KUBE-NODE-PORT")
        services += [
            f"{match(name, comment=False)} -j ACCEPT" for name in ("CLUSTER-IP", "LOAD-BALANCER") if name in filled
        ]
        balancer = [f"{match('LOAD-BALANCER-LOCAL')} -j RETURN"] if "LOAD-BALANCER-LOCAL" in filled else []
        node_port = []
        for protocol, suffix, flags in (("tcp", "TCP", "dst"), ("udp", "UDP", "dst"), ("sctp", "SCTP-HASH", "dst,dst")):
            for name, target in ((f"NODE-PORT-LOCAL-{suffix}", "RETURN"), (f"NODE-PORT-{suffix}", "KUBE-MARK-MASQ")):
                if name in filled:
                    node_port.append(f"-p {protocol} {match(name, flags)} -j {target}")
        post = [f"{match('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE"] if "LOOP-BACK" in filled else []
        post += [f"-m mark ! --mark {mark}/{mark} -j RETURN", f"-j MARK --set-xmark {mark}/0x0"]
        post.append('-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully')
        let_in = [
            f"{match(f'LOAD-BALANCER-SOURCE-{what}', 'dst,dst,src')} -j RETURN"
            for what in ("CIDR", "IP")
            if f"LOAD-BALANCER-SOURCE-{what}" in filled
        ]
        known = ("LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL")
        refuse = "icmp-port-unreachable" if self._family == 4 else "icmp6-port-unreachable"
        health = "HEALTH-CHECK-NODE-PORT"
        full = 32 if self._family == 4 else 128
        numbers = {"tcp": 6, "udp": 17, "sctp": 132}
        self.rules = {
            "nat KUBE-SERVICES": services,
            "nat KUBE-POSTROUTING": post,
            "nat KUBE-NODE-PORT": node_port,
            "nat KUBE-LOAD-BALANCER": [*balancer, "-j KUBE-MARK-MASQ"],
            "nat KUBE-MARK-MASQ": [f"-j MARK --set-xmark {mark}/{mark}"],
            "filter KUBE-FORWARD": [
                f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark}/{mark} -j ACCEPT',
                (
                    '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate'
                    " RELATED,ESTABLISHED -j ACCEPT"
                ),
            ],
            "filter KUBE-NODE-PORT": [f"{match(health, 'dst')} -j ACCEPT"],
            "filter KUBE-PROXY-FIREWALL": (
                [f"{match('LOAD-BALANCER-FW')} -j KUBE-SOURCE-RANGES-FIREWALL"] if "LOAD-BALANCER-FW" in filled else []
            ),
            "filter KUBE-SOURCE-RANGES-FIREWALL": [*let_in, "-j DROP"],
            "filter KUBE-IPVS-FILTER": [
                *(f"{match(name, comment=False)} -j RETURN" for name in known),
                f"{match(health, 'dst', comment=False)} -j RETURN",
                (
                    f"-m conntrack --ctstate NEW {match('IPVS-IPS', 'dst', comment=False)} -j REJECT --reject-with"
                    f" {refuse}"
                ),
            ],
            "filter KUBE-IPVS-OUT-FILTER": [
                f"-s {ip}/{full} -m ipvs --vproto {numbers[protocol]} --vaddr {ip} --vport {port} -j DROP"
                for protocol, ip, port in self._no_node_access
            ],
        }


def _selected(item: Object, label: str) -> bool:
    """The label selector of a watch: ``!service.kubernetes.io/LABEL``."""
    return f"service.kubernetes.io/{label}" not in (item["metadata"].get("labels") or {})


def parse_ip(text: str) -> str:
    """Return the address that ParseIPSloppy reads, as text; "" for none.

    Numbers are decimal whatever their zeros. An IPv4-mapped address is IPv4.
    """
    *groups, tail = text.split(":")
    numbers = ".".join(part.lstrip("0") or "0" for part in tail.split(".")) if ".." not in tail else ""
    last = numbers if "." in tail or not groups else tail.lstrip("0") or tail[:1]
    try:
        ip = ip_address(":".join([*(group.lstrip("0") or group[:1] for group in groups), last]))
    except ValueError:
        return ""
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def parse_cidr(text: str) -> str:
    """ParseCIDRSloppy of the text without blanks around it, as text of the network; "" for what is none."""
    base, slash, length = text.strip().partition("/")
    if not slash or not parse_ip(base):
        return ""
    bits = int(length) - (96 if ":" in base and ":" not in parse_ip(base) else 0)
    return str(ip_network(f"{parse_ip(base)}/{bits}", strict=False))


def _is(endpoint: Object, condition: str) -> bool:
    """A condition that is not given counts as true; but for terminating."""
    given = (endpoint.get("conditions") or {}).get(condition)
    return bool(given) if given is not None else condition != "terminating"


def _last_resort(endpoint: Object) -> bool:
    return _is(endpoint, "serving") and _is(endpoint, "terminating")
