# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of one full pass of kube-proxy 1.36's mode ipvs (``syncProxyRules``), in the order of its steps.

It converts objects to tables, one family at a time, without the engine and without optimization. Tests compare the
engine with it.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

from .proxier_rules import COMMENTS, Rules
from .sloppy import parse_cidr, parse_ip

Object = dict[str, Any]
Network = IPv4Network | IPv6Network
Server = tuple[str, str, int]  # protocol, address, port


class ServicePort(NamedTuple):
    """Port of a Service in one family; ``cluster`` and ``local`` are its endpoints by traffic policy."""

    name: str
    spec: Object
    protocol: str
    number: int
    external_ips: list[str]
    balancer_ips: list[str]
    external_local: bool
    internal_local: bool
    cluster: list[tuple[str, int]]
    local: list[tuple[str, int]]
    any_endpoint: bool

    def entry(self, ip: str) -> str:
        """Return the member for a set of addresses and ports."""
        return f"{ip},{self.protocol}:{self.number}"


class Pass:
    """One pass of the proxier of one family; the attributes are its result."""

    def __init__(self, family: int, objects: list[Object], config: Object, node: Object, addresses: list[str]) -> None:
        self.servers: dict[Server, tuple[str, int, int]] = {}  # scheduler, flags, timeout
        self.reals: set[tuple[Server, str, int]] = set()
        self.sets: dict[str, set[str]] = {name: set() for name in COMMENTS}
        self.bound: set[str] = set()
        self.no_local: dict[str, set[str]] = {"internal": set(), "external": set()}  # names of Services
        self._family, self._config = family, config
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
        rules = Rules(family, config, node, self.sets)
        self.rules = {**rules.nat(), **rules.filter(self._no_node_access)}

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
        """Return the addresses of this family, as text of the parsed address (MapIPsByIPFamily)."""
        return [ip for ip in (parse_ip(text) for text in texts) if ip and self._mine(ip)]

    def _has_ip(self, service: Object) -> bool:
        spec = service["spec"]
        return (
            spec["type"] != "ExternalName" and spec["clusterIP"] not in ("", "None") and bool(self._cluster_ip(service))
        )

    def _cluster_ip(self, service: Object) -> str:
        """Return the parsed cluster IP of this family (GetClusterIPByFamily)."""
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
        chosen: dict[tuple[str, int], Object] = {}
        for item in slices:
            for listed in item["ports"] or []:
                if not listed.get("port") or (listed["name"], listed["protocol"]) != (port["name"], port["protocol"]):
                    continue
                for endpoint in item["endpoints"] or []:
                    ip = parse_ip(endpoint["addresses"][0]) if endpoint["addresses"] else ""
                    if ip and self._mine(ip):
                        key = (ip, listed["port"])
                        earlier = chosen.get(key)
                        # of two terminating endpoints, kube-proxy takes the later one in the random order of a Go map:
                        # here, the local one
                        both_end = earlier is not None and _is(earlier, "terminating") and self._here(endpoint)
                        if earlier is None or not _is(endpoint, "terminating") or both_end:
                            chosen[key] = endpoint
        return chosen

    def _here(self, endpoint: Object) -> bool:
        return endpoint.get("nodeName") == self._name

    def _fits(self, hints: str, value: str, ready: list[Object]) -> bool:
        given = [[hint["name"] for hint in (endpoint.get("hints") or {}).get(hints) or []] for endpoint in ready]
        return all(given) and any(value in names for names in given)

    def _cluster_endpoints(self, endpoints: dict[tuple[str, int], Object]) -> list[tuple[str, int]]:
        ready = [endpoint for endpoint in endpoints.values() if _is(endpoint, "ready")]
        chosen = {key for key, endpoint in endpoints.items() if _is(endpoint, "ready")}
        for hints, value in (("forNodes", self._name), ("forZones", self._zone)):
            if value and self._fits(hints, value, ready):
                names = {key: [hint["name"] for hint in endpoints[key]["hints"][hints]] for key in chosen}
                return [key for key in chosen if value in names[key]]
        return sorted(chosen) or [key for key, endpoint in endpoints.items() if _last_resort(endpoint)]

    def _local_endpoints(self, endpoints: dict[tuple[str, int], Object]) -> list[tuple[str, int]]:
        here = {key: endpoint for key, endpoint in endpoints.items() if self._here(endpoint)}
        ready = [key for key, endpoint in here.items() if _is(endpoint, "ready")]
        return ready or [key for key, endpoint in here.items() if _last_resort(endpoint)]

    # one service port

    def _service_port(self, service: Object, port: Object, endpoints: dict[tuple[str, int], Object]) -> ServicePort:
        spec = service["spec"]
        external_ips = self._parsed(spec.get("externalIPs") or [])
        ingress = service["status"]["loadBalancer"].get("ingress") or []
        balancer_ips = self._parsed(
            [item["ip"] for item in ingress if item.get("ip") and item.get("ipMode") != "Proxy"]
        )
        outside = spec["type"] in ("NodePort", "LoadBalancer") or bool(spec.get("externalIPs"))
        external_local = outside and spec.get("externalTrafficPolicy") == "Local"
        internal_local = spec.get("internalTrafficPolicy") == "Local"

        accessible = bool(port.get("nodePort", 0) or external_ips or balancer_ips)
        uses_cluster = accessible or not internal_local
        uses_local = internal_local or (external_local and accessible)
        cluster = self._cluster_endpoints(endpoints) if uses_cluster else []
        local = self._local_endpoints(endpoints) if uses_local else []
        anywhere = [endpoint for endpoint in endpoints.values() if _is(endpoint, "ready") or _last_resort(endpoint)]
        return ServicePort(
            name=service["metadata"]["name"],
            spec=spec,
            protocol=port["protocol"].lower(),
            number=port["port"],
            external_ips=external_ips,
            balancer_ips=balancer_ips,
            external_local=external_local,
            internal_local=internal_local,
            cluster=cluster,
            local=local,
            any_endpoint=bool(cluster or local or (not uses_cluster and anywhere)),
        )

    def _port(self, service: Object, given: Object, slices: list[Object]) -> None:
        endpoints = self._endpoints(given, slices)
        port = self._service_port(service, given, endpoints)
        for (ip, at), endpoint in endpoints.items():
            if self._here(endpoint):
                self.sets["LOOP-BACK"].add(f"{ip},{port.protocol}:{at},{ip}")
        cluster_ip = self._cluster_ip(service)
        self.sets["CLUSTER-IP"].add(port.entry(cluster_ip))
        self._serve(port, cluster_ip, port.number, port.internal_local)
        self.bound.add(cluster_ip)
        for ip in port.external_ips:
            self.sets["EXTERNAL-IP-LOCAL" if port.external_local else "EXTERNAL-IP"].add(port.entry(ip))
            self._serve(port, ip, port.number, port.external_local)
            self._bind(ip)
        ranges = self._source_ranges(port.spec)
        for ip in port.balancer_ips:
            self._load_balancer(port, ip, ranges)
            self._serve(port, ip, port.number, port.external_local)
            self._bind(ip)
        if given.get("nodePort", 0):
            if not self._node_port_ips:
                return
            self._node_port(port, given["nodePort"])
        if port.spec["type"] == "LoadBalancer" and port.external_local and port.spec.get("healthCheckNodePort"):
            self.sets["HEALTH-CHECK-NODE-PORT"].add(str(port.spec["healthCheckNodePort"]))

    def _serve(self, port: ServicePort, ip: str, at: int, only_local: bool) -> None:
        """Add the virtual server of this address and port, with its real servers."""
        scheduler = self._config.get("ipvs", {}).get("scheduler") or "rr"
        flags, timeout = (0x10 if scheduler == "mh" else 0), 0
        if port.spec.get("sessionAffinity") == "ClientIP":
            flags, timeout = flags | 1, port.spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        key = (port.protocol, ip, at)
        self.servers[key] = (scheduler, flags, timeout)
        self.reals.update((key, *target) for target in (port.local if only_local and port.local else port.cluster))
        if only_local and not port.local and port.any_endpoint:
            for policy, given in (("internal", port.internal_local), ("external", port.external_local)):
                if given:
                    self.no_local[policy].add(port.name)

    def _source_ranges(self, spec: Object) -> list[Network]:
        """Return the networks that may use a load balancer's address; an empty list allows all."""
        texts = [net for net in map(parse_cidr, spec.get("loadBalancerSourceRanges") or []) if net and self._mine(net)]
        networks = [ip_network(net, strict=False) for net in texts]
        return [] if any(net.prefixlen == 0 for net in networks) else networks

    def _load_balancer(self, port: ServicePort, ip: str, ranges: list[Network]) -> None:
        entry = port.entry(ip)
        self.sets["LOAD-BALANCER"].add(entry)
        if port.external_local:
            self.sets["LOAD-BALANCER-LOCAL"].add(entry)
        if ranges:
            self.sets["LOAD-BALANCER-FW"].add(entry)
            for net in ranges:
                shown = str(net.network_address) if net.prefixlen == net.max_prefixlen else str(net)
                self.sets["LOAD-BALANCER-SOURCE-CIDR"].add(f"{entry},{shown}")
            if any(ip_address(self._node_ip) in net for net in ranges):
                self.sets["LOAD-BALANCER-SOURCE-IP"].add(f"{entry},{ip}")
            else:
                self._no_node_access.append((port.protocol, ip, port.number))

    def _node_port(self, port: ServicePort, number: int) -> None:
        sctp = port.protocol == "sctp"
        entries = [f"{ip},sctp:{number}" for ip in self._node_port_ips] if sctp else [str(number)]
        suffix = "SCTP-HASH" if sctp else port.protocol.upper()
        self.sets[f"NODE-PORT-{suffix}"].update(entries)
        if port.external_local:
            self.sets[f"NODE-PORT-LOCAL-{suffix}"].update(entries)
        for ip in self._node_port_ips:
            self._serve(port, ip, number, port.external_local)

    def _bind(self, ip: str) -> None:
        if ip not in self._on_links:
            self.bound.add(ip)


def _selected(item: Object, label: str) -> bool:
    """Tell whether the watch's label selector ``!service.kubernetes.io/LABEL`` matches."""
    return f"service.kubernetes.io/{label}" not in (item["metadata"].get("labels") or {})


def _is(endpoint: Object, condition: str) -> bool:
    """Return a condition; a missing one is true, except terminating."""
    given = (endpoint.get("conditions") or {}).get(condition)
    return bool(given) if given is not None else condition != "terminating"


def _last_resort(endpoint: Object) -> bool:
    return _is(endpoint, "serving") and _is(endpoint, "terminating")
