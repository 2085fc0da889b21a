# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual servers of one Service, with their real servers, set members, rules and addresses.

A contribution is a set of *claims*, one for each virtual server, with every item that exists because of it. A
contribution also has members that several Services may share. :mod:`.vip_allocator` decides which Service holds a
virtual server that two Services claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..errors import InputError
from ..kubernetes.objects import READY, SERVING, EndpointSlice, Service, ServicePort
from ..model.ipset import MemberKey
from ..model.ipvs import PERSISTENT, PROTOCOLS, SCHED1, SCHED2, VirtualServer, VirtualServerKey
from ..model.link import AddressKey, RouteKey
from ..model.net import EVERYTHING, family
from . import sets
from .address_policy import AddressPolicy
from .context import Context, in_any
from .endpoints import Candidate, Target, candidates, choose, targets
from .node_addresses import DUMMY, LOOPBACK
from .rules import LOCALHOST, OUT_FILTER
from .service_size import too_large

Name = tuple[str, str]
ChainRule = tuple[str, str]  # chain, rule
AddressPort = tuple[str, int]  # address, port
_WHOLE = 1 << 31


class Origin(IntEnum):
    """Class of a claim: the kind of its address.

    The lower one ranks first (see :mod:`.vip_allocator`).
    """

    CLUSTER_IP = 0
    NODE_PORT = 1
    LOAD_BALANCER = 2
    EXTERNAL_IP = 3


FIELDS = {
    Origin.CLUSTER_IP: "spec.clusterIPs",
    Origin.NODE_PORT: "spec.ports.nodePort",
    Origin.LOAD_BALANCER: "status.loadBalancer.ingress",
    Origin.EXTERNAL_IP: "spec.externalIPs",
}
_NO_ENDPOINTS: frozenset[AddressPort] = frozenset()


class ServiceVip(NamedTuple):
    """A virtual server with its real servers, set members and rules (each with its chain).

    ``serving`` has address and port of all endpoints that may answer its UDP flows, whatever policies, hints and
    readiness say. ``address`` is the address on kube-ipvs0 or the local route that attracts its traffic; None if
    neither is needed. ``position`` is the index of the Service's port, ``origin`` the kind of the address.
    """

    server: VirtualServer
    targets: tuple[Target, ...]
    serving: frozenset[AddressPort]
    members: tuple[MemberKey, ...]
    address: AddressKey | RouteKey | None
    rules: tuple[ChainRule, ...]
    position: int
    origin: Origin


class Contribution(NamedTuple):
    """Items of one Service on the node.

    ``local_ready`` counts the distinct addresses of ready endpoints on this node, for each family of the Service.
    ``no_local`` has (family, "internal" or "external") for a policy Local with endpoints elsewhere only. ``refused``
    has one sentence for each address that is not served, or for the whole Service if it is too large.
    """

    claims: dict[VirtualServerKey, ServiceVip]
    members: tuple[MemberKey, ...]
    health_check_port: int
    local_ready: dict[int, int]
    no_local: frozenset[tuple[int, str]]
    refused: tuple[str, ...] = ()


NOTHING = Contribution({}, (), 0, {}, frozenset())


def contribution(service: Service, slices: Sequence[EndpointSlice], contexts: Iterable[Context]) -> Contribution:
    """Compute the items of a Service on the node.

    Args:
        service: the Service.
        slices: its EndpointSlices, in a fixed order.
        contexts: each family's view of the node.
    """
    contexts = list(contexts)
    reason = too_large(service, slices, contexts)
    if reason:
        return NOTHING._replace(refused=(reason,))
    refused: list[str] = []
    claims: dict[VirtualServerKey, ServiceVip] = {}
    members: dict[MemberKey, None] = {}
    local_ready: dict[int, int] = {}
    no_local: set[tuple[int, str]] = set()
    for context in contexts:
        cluster_ip = next((ip for ip in service.cluster_ips if family(ip) == context.family), "")
        if not cluster_ip:
            continue
        builder = _Family(service, cluster_ip, context, claims, members, no_local)
        refused.extend(builder.refused)
        ready: set[str] = set()
        for port in service.ports:
            endpoints = candidates(slices, context.family, port.name, port.protocol, context.node)
            ready.update(
                item.endpoint.address
                for item in endpoints.values()
                if item.endpoint.flags & READY and _here(item, context)
            )
            builder.add(port, endpoints)
        local_ready[context.family] = len(ready)
    checks = service.health_check_port
    return Contribution(claims, tuple(members), checks, local_ready, frozenset(no_local), tuple(refused))


def conflict(name: Name, key: VirtualServerKey, claim: ServiceVip, holder: Name, held: ServiceVip) -> str:
    """Return a sentence about a claim that fails: the Service, the claimed field, and the Service that holds it."""
    is_node_port = claim.origin is Origin.NODE_PORT
    what = "a node port" if is_node_port else "an address and port"
    value = f"{key.protocol} {key.port}" if is_node_port else str(key)
    expected = f"{what} that no other Service holds (Service {holder[0]}/{holder[1]} does, by {_field(held)})"
    return str(InputError(f"Service {name[0]}/{name[1]}", _field(claim), value, expected))


def _field(claim: ServiceVip) -> str:
    return f"spec.ports[{claim.position}].nodePort" if claim.origin is Origin.NODE_PORT else FIELDS[claim.origin]


def _here(item: Candidate, context: Context) -> bool:
    return bool(context.node) and item.endpoint.node == context.node


class _Family:
    """Collects the claims of one Service in one family."""

    def __init__(
        self,
        service: Service,
        cluster_ip: str,
        context: Context,
        claims: dict[VirtualServerKey, ServiceVip],
        members: dict[MemberKey, None],
        no_local: set[tuple[int, str]],
    ) -> None:
        fam = context.family
        self.service = service
        self.context = context
        self.claims = claims
        self.members = members
        self.no_local = no_local
        self.cluster_ip = cluster_ip
        self.refused: list[str] = []
        self.external_ips = self._allowed(Origin.EXTERNAL_IP, service.external_ips, context.external)
        bind = context.config.bind_load_balancer_ips
        # an address that is neither bound nor the node's belongs to the load balancer alone, as with ipMode Proxy: a
        # virtual server would catch the node's own packets, and the sets would have forwarded traffic masqueraded
        balancer_ips = self._allowed(Origin.LOAD_BALANCER, service.load_balancer_ips, context.balancer)
        self.balancer_ips = [ip for ip in balancer_ips if bind or ip in context.own]
        ranges = tuple(net for net in service.source_ranges if family(net) == fam)
        self.ranges = () if EVERYTHING[fam] in ranges else ranges
        self.node_inside = in_any(self.ranges, context.node_ip)
        self.server = _server(service, context)
        self.serving = _NO_ENDPOINTS  # of the port that is being added

    def _allowed(self, origin: Origin, addresses: Iterable[str], policy: AddressPolicy) -> list[str]:
        """Return the addresses of this family that are served; the others are named in ``refused``."""
        allowed = []
        for ip in addresses:
            if family(ip) != self.context.family:
                continue
            expected = policy.refusal(ip)
            if expected:
                subject = f"Service {self.service.namespace}/{self.service.name}"
                self.refused.append(str(InputError(subject, FIELDS[origin], ip, expected)))
            else:
                allowed.append(ip)
        return allowed

    def add(self, port: ServicePort, endpoints: dict[tuple[str, int], Candidate]) -> None:
        """Add one port: its cluster IP, external IPs, load balancer addresses and node port, in kube-proxy's order."""
        service, context = self.service, self.context
        fam = context.family
        name = sets.set_name(fam, sets.LOOP_BACK)
        for (ip, number), item in endpoints.items():
            if _here(item, context):
                self.members[MemberKey(name, f"{ip},{port.protocol}:{number},{ip}")] = None
        self.serving = _serving(endpoints.values()) if port.protocol == "udp" else _NO_ENDPOINTS
        accessible = bool(port.node_port or self.external_ips or self.balancer_ips)
        choice = choose(
            endpoints.values(),
            accessible or not service.internal_local,
            service.internal_local or (service.external_local and accessible),
            context.node,
            context.zone,
        )
        fall_back = context.config.local_fallback == "cluster"
        internal = _targets(targets(choice, service.internal_local, fall_back))
        external = internal
        if service.external_local is not service.internal_local:
            external = _targets(targets(choice, service.external_local, fall_back))
        outside = bool(self.external_ips or self.balancer_ips or (port.node_port and context.node_port_ips))
        if choice.any and not choice.local and (service.internal_local or (service.external_local and outside)):
            policies = {"internal": service.internal_local, "external": service.external_local}
            self.no_local.update((fam, policy) for policy, local in policies.items() if local)
        entry = f"{self.cluster_ip},{port.protocol}:{port.port}"
        self._claim(port, self.cluster_ip, internal, [(sets.CLUSTER_IP, entry)], (), Origin.CLUSTER_IP)
        for ip in self.external_ips:
            wanted = sets.EXTERNAL_IP_LOCAL if service.external_local else sets.EXTERNAL_IP
            entry = f"{ip},{port.protocol}:{port.port}"
            self._claim(port, ip, external, [(wanted, entry)], (), Origin.EXTERNAL_IP)
        for ip in self.balancer_ips:
            entries, rules = self._balancer(port, ip)
            self._claim(port, ip, external, entries, rules, Origin.LOAD_BALANCER)
        if not port.node_port:
            self._health_check()
        elif context.node_port_ips:
            localhost = tuple(self._localhost(port, external))
            for ip in context.node_port_ips:
                node_port = port._replace(port=port.node_port)
                entries = list(self._node_port(port, ip))
                self._claim(node_port, ip, external, entries, localhost, Origin.NODE_PORT)
                localhost = ()
            self._health_check()

    def _health_check(self) -> None:
        number = self.service.health_check_port
        if number:
            name = sets.set_name(self.context.family, sets.HEALTH_CHECK_NODE_PORT)
            self.members[MemberKey(name, str(number))] = None

    def _balancer(self, port: ServicePort, ip: str) -> tuple[list[tuple[str, str]], tuple[ChainRule, ...]]:
        """Return a load balancer address's members, and its rule of OUT-FILTER if any."""
        entry = f"{ip},{port.protocol}:{port.port}"
        entries = [(sets.LOAD_BALANCER, entry)]
        if self.service.external_local:
            entries.append((sets.LOAD_BALANCER_LOCAL, entry))
        if not self.ranges:
            return entries, ()
        entries.append((sets.LOAD_BALANCER_FW, entry))
        full = f"/{self.context.prefix}"
        for net in self.ranges:
            # ipset prints a network of one address without its length
            shown = net[: -len(full)] if net.endswith(full) else net
            entries.append((sets.LOAD_BALANCER_SOURCE_CIDR, f"{entry},{shown}"))
        if self.node_inside:
            entries.append((sets.LOAD_BALANCER_SOURCE_IP, f"{entry},{ip}"))
            return entries, ()
        match = f"-m ipvs --vproto {PROTOCOLS[port.protocol]} --vaddr {ip} --vport {port.port}"
        return entries, ((OUT_FILTER, f"-s {ip}{full} {match} -j DROP"),)

    def _node_port(self, port: ServicePort, ip: str) -> Iterator[tuple[str, str]]:
        entry = f"{ip},sctp:{port.node_port}" if port.protocol == "sctp" else str(port.node_port)
        yield sets.NODE_PORT[port.protocol], entry
        if self.service.external_local:
            yield sets.NODE_PORT_LOCAL[port.protocol], entry

    def _localhost(self, port: ServicePort, endpoints: tuple[Target, ...]) -> Iterator[ChainRule]:
        """Yield the rules that send connections to 127.0.0.1 to the endpoints with equal probability."""
        if self.context.family != 4 or not self.context.config.localhost_node_ports:
            return
        match = f"-p {port.protocol} -m {port.protocol} --dport {port.node_port}"
        for left, (ip, number, _weight) in zip(range(len(endpoints), 0, -1), endpoints):
            # the kernel counts in parts of 2**31, and iptables prints those
            share = (
                f" -m statistic --mode random --probability {round(_WHOLE / left) / _WHOLE:.11f}" if left > 1 else ""
            )
            yield LOCALHOST, f"{match}{share} -j DNAT --to-destination {ip}:{number}"

    def _claim(
        self,
        port: ServicePort,
        ip: str,
        targets: tuple[Target, ...],
        entries: list[tuple[str, str]],
        rules: tuple[ChainRule, ...],
        origin: Origin,
    ) -> None:
        fam = self.context.family
        bound = self._is_bound(ip, origin)
        if bound:
            entries = [*entries, (sets.IPVS_IPS, ip)]
        if not targets and self.context.config.no_endpoints == "reject":
            entries = [*entries, (sets.NO_ENDPOINTS, f"{ip},{port.protocol}:{port.port}")]
        key = VirtualServerKey(port.protocol, ip, port.port, fam)
        members = tuple([MemberKey(sets.set_name(fam, name), entry) for name, entry in entries])
        address = self._binding(ip) if bound else None
        earlier = self.claims.get(key)
        if earlier is not None:
            # one address in two roles: the members of both, and the real servers of the later one
            members = tuple(dict.fromkeys(earlier.members + members))
            address = address or earlier.address
            rules = rules or earlier.rules
            origin = min(earlier.origin, origin)
        server = self.server
        if (
            server.scheduler == "mh"
            and self.service.scheduler_flags < 0
            and any(not weight for _ip, _port, weight in targets)
        ):
            server = server._replace(flags=server.flags | SCHED1)  # or the kernel refuses its share
        self.claims[key] = ServiceVip(server, targets, self.serving, members, address, rules, port.position, origin)

    def _is_bound(self, ip: str, origin: Origin) -> bool:
        """Tell whether the agent must bind an address to the node. The node's own addresses need no binding."""
        return origin is Origin.CLUSTER_IP or (origin is not Origin.NODE_PORT and ip not in self.context.own)

    def _binding(self, ip: str) -> AddressKey | RouteKey | None:
        context = self.context
        if context.config.vip_binding == "addresses":
            return AddressKey(DUMMY, ip, context.prefix)
        return None if in_any(context.service_cidrs, ip) else RouteKey(LOOPBACK, f"{ip}/{context.prefix}")


def _server(service: Service, context: Context) -> VirtualServer:
    scheduler = service.scheduler or context.config.scheduler
    flags = service.scheduler_flags
    if flags < 0:
        flags = SCHED2 if scheduler == "mh" else 0
    if service.affinity:
        flags |= PERSISTENT
    return VirtualServer(scheduler, flags, service.affinity, context.prefix)


def _targets(chosen: list[Candidate]) -> tuple[Target, ...]:
    return tuple([(item.endpoint.address, item.port, item.weight) for item in chosen])


def _serving(endpoints: Iterable[Candidate]) -> frozenset[AddressPort]:
    return frozenset([(item.endpoint.address, item.port) for item in endpoints if item.endpoint.flags & SERVING])
