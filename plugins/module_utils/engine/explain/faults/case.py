# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection to judge: the node's state, the predicted path, and the path that the desired state would give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...desired.cluster import Cluster
from ...desired.nft_state import nft_state
from ...desired.service_vips import Name, ServiceVip
from ...kubernetes.objects import EndpointSlice, Service, ServicePort
from ...model import State
from ...model.ipvs import RealServerKey, VirtualServerKey
from ..flow import Decision, Flow, Path
from ..predict import predict
from ..routes import LOCAL_TABLE, RouteEntry
from ..view import NodeView, Template, local_route, rules_of

SYNC = "run: kubenode status --sync"
_GOOD_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
}


class Fault(NamedTuple):
    """Cause of a connection that fails, or that does not go as wanted: a name, one sentence, and the remedy."""

    name: str
    sentence: str
    remedy: str
    kind: str = ""
    key: Any = None

    def __str__(self) -> str:
        """Return sentence and remedy."""
        return f"{self.sentence}; {self.remedy}"


class ServiceFacts(NamedTuple):
    """The Service of a connection, its port, EndpointSlices, and the claim on the virtual server, if it has one."""

    name: Name
    service: Service
    port: ServicePort
    slices: list[EndpointSlice]
    claim: ServiceVip | None

    def __str__(self) -> str:
        """Return ``Service NAMESPACE/NAME port PORT``."""
        return f"Service {self.name[0]}/{self.name[1]} port {self.port.name or self.port.port}"


class Case(NamedTuple):
    """All that the checks need.

    ``want`` is the desired state in the items of the node's rules back end, ``ideal`` the path with it; both are None
    without objects. ``objects`` are the Services as the API has them, ignored ones included. ``owners`` are the owners
    of virtual servers in the ledger, None without a ledger.
    """

    view: NodeView
    flow: Flow
    path: Path
    cluster: Cluster | None = None
    want: State | None = None
    ideal: Path | None = None
    facts: ServiceFacts | None = None
    objects: Mapping[Name, Mapping[str, Any]] = {}
    owners: Mapping[VirtualServerKey, str] | None = None

    @property
    def is_as_wanted(self) -> bool:
        """Tell whether the path is that of the desired state."""
        return self.ideal is not None and self.path.outcome() == self.ideal.outcome()

    def helps(self, view: NodeView) -> bool:
        """Tell whether the connection would go as wanted in another state of the node."""
        return self.ideal is not None and predict(view, self.flow).outcome() == self.ideal.outcome()


def case_of(
    view: NodeView,
    flow: Flow,
    cluster: Cluster | None,
    objects: Mapping[Name, Mapping[str, Any]],
    owners: Mapping[VirtualServerKey, str] | None,
    backend: str = "iptables",
) -> Case:
    """Return the case of a flow: predicts both paths. ``backend`` is the rules back end of the node."""
    path = predict(view, flow)
    if cluster is None:
        return Case(view, flow, path, owners=owners)
    state = cluster.state()
    state["member"] = _members_about(state, flow)
    want = nft_state(state) if backend == "nftables" else state
    ideal = predict(ideal_view(view, want), flow)
    return Case(view, flow, path, cluster, want, ideal, facts_of(cluster, flow, view), objects, owners)


def _members_about(state: State, flow: Flow) -> dict[Any, Any]:
    """Return the members that rules may find for a flow: those of its addresses, its port, and its real servers."""
    first = {flow.destination, flow.source, str(flow.port)}
    first.update(key.address for key in state.get("real_server", {}) if key.server == flow.key)
    return {key: value for key, value in state["member"].items() if key.member.partition(",")[0] in first}


def ideal_view(view: NodeView, want: State) -> NodeView:
    """Return the node with the desired items, good settings, and no rules of other programs."""
    bound = {route.network for route in view.host.routes if route.is_local}
    missing = [local_route(key.link, key.address) for key in want.get("address", {})]
    missing += [RouteEntry(key.network, "local", key.link, table=LOCAL_TABLE) for key in want.get("route", {})]
    routes = (*view.host.routes, *(route for route in missing if route.network not in bound))
    sysctls = {**view.host.sysctls, **_GOOD_SYSCTLS, **want.get("sysctl", {})}
    sysctls.update({name: "0" for name in sysctls if name.endswith(".rp_filter")})
    links = {name: link._replace(is_up=True) for name, link in view.host.links.items()}
    templates = _wanted_templates(view, want)
    host = view.host._replace(
        routes=routes, sysctls=sysctls, links=links, neighbours={}, templates=templates, limits={}, rules=()
    )
    return NodeView(want, rules_of(want), {}, host)


def _wanted_templates(view: NodeView, want: State) -> tuple[Template, ...]:
    """Return the templates to real servers that get connections by the desired state, too: persistence is no fault."""
    wanted = want.get("real_server", {})
    weights = {key: value.weight for key, value in wanted.items()}
    return tuple(
        template
        for template in view.host.templates
        if weights.get(RealServerKey(template.server, template.address, template.port), 0) > 0
    )


def facts_of(cluster: Cluster, flow: Flow, view: NodeView) -> ServiceFacts | None:
    """Return the Service of a flow: the holder of its virtual server, or the first that names address and port."""
    held = cluster.holder_of(flow.key)
    if held is not None:
        service = cluster.services()[held[0]]
        return ServiceFacts(held[0], service, service.ports[held[1].position], cluster.slices_of(held[0]), held[1])
    is_local = view.is_local(flow.destination)
    for name, service in cluster.services().items():
        addresses = (*service.cluster_ips, *service.external_ips, *service.load_balancer_ips)
        for port in service.ports:
            if port.protocol != flow.protocol:
                continue
            if (flow.destination in addresses and port.port == flow.port) or (is_local and port.node_port == flow.port):
                return ServiceFacts(name, service, port, cluster.slices_of(name), None)
    return None


def decisions(path: Path) -> Iterator[Decision]:
    """Yield all decisions of a path, those on the way to each target included, each once."""
    seen = set()
    for decision in (*path.decisions, *(each for target in path.targets for each in target.decisions)):
        if decision.text not in seen:
            seen.add(decision.text)
            yield decision


def is_ours(case: Case, decision: Decision) -> bool:
    """Tell whether a rule in a decision is one that the desired state has in this chain."""
    if case.want is None or decision.kind not in ("rule", "nft_rule"):
        return False
    key, _number, rule = decision.key
    if decision.kind == "nft_rule":
        chain = case.want.get("nft_chain", {}).get(key)
        return chain is not None and rule in chain.rules
    return rule in rules_of(case.want).get(key, ())
