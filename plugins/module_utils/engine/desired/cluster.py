# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state of a node, kept up to date as the cluster's objects change.

An event marks its Service. The next query recomputes the marked Services and changes the union by their differences, so
the cost depends on the change and not on the cluster. The result depends on the objects alone, never on the order of
the events.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Mapping

from ..kubernetes.objects import EndpointSlice, Service
from ..model import State
from ..model.ipvs import VirtualServerKey
from .context import Context, context, known, node_problems
from .local_endpoints import HealthCheck, LocalEndpoints
from .node_facts import NodeFacts
from .object_store import API_SERVERS, ObjectName, ObjectStore
from .service_vips import NOTHING, AddressPort, Contribution, Name, Origin, ServiceVip, contribution
from .settings import Config
from .static_state import StaticState
from .union import Item, Union, shared_items
from .vip_allocator import NEVER, Age, VipAllocator, VipHolders

_MANY = 500
_MOST_REASON = 300  # characters
_SLICE = 1000  # virtual and real servers in a slice: some milliseconds on a slow node


class Cluster(ObjectStore):
    """Services, EndpointSlices and Nodes, and the state of one node.

    Args:
        config: the configuration.
        facts: the node.
    """

    def __init__(self, config: Config, facts: NodeFacts) -> None:
        super().__init__(facts, self._use_facts)
        self.config = config
        self.health_check_errors: Mapping[ObjectName, tuple[str, ...]] = {}  # by Service
        self._api_servers: frozenset[str] = frozenset()
        self._union = Union()
        self._contributions: dict[Name, Contribution] = {}
        self._ages: dict[Name, Age] = {}
        self._allocator = VipAllocator(self._union, self._contributions, self._ages)
        self._refused: dict[Name, tuple[str, ...]] = {}
        self._settling: Generator[int, None, None] | None = None
        self._local = LocalEndpoints(self._contributions, self._ages)
        self._contexts: list[Context] = []
        self._layout = StaticState(config)
        self._use_facts()

    # the node

    def set_facts(self, facts: NodeFacts) -> None:
        """Use new facts about the node; recompute every Service that they concern."""
        if facts != self._given_facts:
            self._given_facts = facts
            self._use_facts()

    def use_api_servers(self, addresses: Iterable[str]) -> None:
        """Set the addresses of the agent's API servers, so that no Service gets them.

        The endpoints of Service default/kubernetes count as API servers, too.
        """
        servers = frozenset(addresses)
        if servers != self._api_servers:
            self._api_servers = servers
            self._use_facts()

    def _use_facts(self) -> None:
        facts = known(self.config, self._given_facts, self.node)
        pieces = self._slices.get(API_SERVERS, {}).values()
        endpoints = {item.address for piece in pieces for item in piece.endpoints}
        servers = tuple(sorted({*facts.api_servers, *self._api_servers, *endpoints}))
        self.facts = facts._replace(api_servers=servers)
        contexts = [context(fam, self.config, self.facts) for fam in (4, 6)]
        if contexts != self._contexts:
            self._contexts = contexts
            self._dirty.update(self._services)
        self._layout.use(self.facts)

    # queries

    @property
    def eligible(self) -> bool:
        """Tell whether this node may receive new traffic: neither marked for removal, nor its Node object deleted."""
        return not self._left if self.node is None else self.node.eligible

    @property
    def problems(self) -> dict[ObjectName, tuple[str, ...]]:
        """Problems of objects, by (kind, "namespace/name")."""
        self._settle()
        problems = dict(self._broken)
        for name, texts in (*self._refused.items(), *self._allocator.conflicts()):
            subject = ("Service", f"{name[0]}/{name[1]}")
            problems[subject] = (*problems.get(subject, ()), *texts)
        for subject, texts in self.health_check_errors.items():
            problems[subject] = (*problems.get(subject, ()), *texts)
        of_node = tuple(node_problems(self.config, self.facts))
        if of_node:
            subject = ("Node", self.facts.name)
            problems[subject] = (*problems.get(subject, ()), *of_node)
        return problems

    def state(self) -> State:
        """Return the whole desired state; the caller may change the dictionaries."""
        self._settle()
        state = self._layout.state()
        for kind, items in self._union.items.items():
            state.setdefault(kind, {}).update(items)
        return state

    def take(self) -> State:
        """Return the items changed since the last call, per kind: the new value, or None for unwanted ones."""
        self._settle()
        self._allocator.advance()
        changes = self._layout.take()
        for kind, items in self._union.take().items():
            if items:
                changes.setdefault(kind, {}).update(items)
        return changes

    def take_flows(self, also: Iterable[VirtualServerKey] = ()) -> dict[VirtualServerKey, frozenset[AddressPort]]:
        """Return the endpoints that may answer UDP flows, by virtual server.

        It covers the virtual servers whose serving endpoints changed since the last call, and those in ``also``.

        Virtual servers without such endpoints are left out.
        """
        self._settle()
        serving_of = {}
        for key in {*self._union.take_served(), *also}:
            holder = self._allocator.get(key)
            if holder is not None and self._contributions[holder].claims[key].serving:
                serving_of[key] = self._contributions[holder].claims[key].serving
        return serving_of

    def resume(self, saved_holders: VipHolders) -> None:
        """Rank the claims of these holders first, each in its class.

        The holders are those that :meth:`take_holders` gave before a restart.
        """
        self._allocator.resume(saved_holders)

    def take_holders(self) -> dict[VirtualServerKey, Name | None]:
        """Return the changed holders of external IPs and load balancer addresses since the last call.

        The value is None for a virtual server that no longer has a holder.
        """
        self._settle()
        return self._allocator.take_holders()

    def contested(self) -> Mapping[Origin, int]:
        """Count the virtual servers that a Service claims and another one holds, by class of the claim."""
        self._settle()
        return self._allocator.contested()

    def losers(self, most: int) -> Mapping[Name, int]:
        """Return up to ``most`` Services that do not get what they claim, with their numbers of virtual servers."""
        self._settle()
        return self._allocator.losers(most)

    def refused(self) -> int:
        """Count the addresses that may not be served and the Services that are too large."""
        self._settle()
        return sum(map(len, self._refused.values()))

    def health_checks(self) -> Mapping[int, HealthCheck]:
        """Return the health check node ports to answer on, by number: the same mapping as long as none changes."""
        self._settle()
        return self._local.checks()

    def port_of(self, key: VirtualServerKey) -> str:
        """Return the Service port of a virtual server as ``namespace/name:port``, "" for none.

        A port without a name is given by its number.
        """
        self._settle()
        found = self.peek_port(key)
        return "" if found is None else f"{found[0]}/{found[1]}:{found[2]}"

    def peek_port(self, key: VirtualServerKey) -> tuple[str, str, str] | None:
        """Return namespace, name and port of the Service of a virtual server as last worked out; None for none.

        It changes nothing, so another thread may call it while this cluster changes.
        """
        name = self._allocator.get(key)
        if name is None:
            return None
        try:
            port = self._services[name].ports[self._contributions[name].claims[key].position]
        except (KeyError, IndexError):
            return None  # changed, and not worked out yet
        return name[0], name[1], port.name or str(port.port)

    def servers_of(self, name: Name) -> Iterable[VirtualServerKey]:
        """Return the virtual servers that a Service claims, as last worked out."""
        return self._contributions.get(name, NOTHING).claims

    def holder_of(self, key: VirtualServerKey) -> tuple[Name, ServiceVip] | None:
        """Return the Service that holds a virtual server, with its claim; None for none."""
        self._settle()
        name = self._allocator.get(key)
        return None if name is None else (name, self._contributions[name].claims[key])

    def context_of(self, fam: int) -> Context:
        """Return one family's view of the node."""
        return next(item for item in self._contexts if item.family == fam)

    def whose(self, items: Iterable[Item]) -> dict[Item, str]:
        """Return the Services that these items exist for: ``namespace/name``, with commas between several.

        Items that no Service wants are left out. Members and addresses need a search of all claims.
        """
        self._settle()
        services: dict[Item, set[Name]] = {}
        shared: set[Item] = set()
        for kind, key in items:
            holder = self._allocator.get({"virtual_server": key, "real_server": getattr(key, "server", None)}.get(kind))
            if holder is not None:
                services[kind, key] = {holder}
            elif kind in ("member", "address", "route"):
                shared.add((kind, key))
        for name, part in self._contributions.items() if shared else ():
            held = (claim for key, claim in part.claims.items() if self._allocator.get(key) == name)
            for item in shared.intersection(shared_items(held, part.members)):
                services.setdefault(item, set()).add(name)
        return {item: ",".join(sorted("/".join(name) for name in names)) for item, names in services.items()}

    def no_local_endpoints(self) -> Mapping[tuple[int, str], int]:
        """Count the Services with endpoints, but none on this node under a policy Local.

        The keys are (family, "internal" or "external").
        """
        self._settle()
        return self._local.no_local_endpoints()

    # computation

    def settling(self) -> Generator[int, None, None]:
        """Recompute the marked Services in slices, yielding how many are left; then :meth:`state` is cheap.

        Objects may change between two slices. A call of :meth:`state` recomputes the rest.
        """
        if self._settling is None:
            self._settling = self._work_out()
        running = self._settling
        while self._settling is running:
            try:
                left = next(running)
            except StopIteration:
                self._settling = None
                return
            yield left

    def _settle(self) -> None:
        """Recompute the marked Services, then the static state that depends on all of them."""
        # while a whole cluster is read in, nothing becomes garbage, and collections would double the time
        paused = len(self._dirty) >= _MANY and gc.isenabled()
        if paused:
            gc.disable()
        try:
            for _left in self.settling():
                pass
        finally:
            if paused:
                gc.enable()

    def _work_out(self) -> Generator[int, None, None]:
        spent = 0
        while self._dirty:
            for size in self._work_out_one(self._dirty.pop()):
                spent += size
                if spent >= _SLICE:
                    spent = 0
                    yield len(self._dirty)
        self._dirty = set()  # the table of one that was large stays large, and pop() searches it
        self._layout.follow(self._union)

    def _work_out_one(self, name: Name) -> Generator[int, None, None]:
        """Recompute one Service, yielding the size of each part."""
        service = self._services.get(name)
        new, age = NOTHING, NEVER
        if service is not None:
            new, age = self._contribution(service, self.slices_of(name)), (service.created, *name)
        if age != self._ages.get(name, age):
            yield from self._replace(name, NOTHING)  # re-created under its old name: its claims rank as new
        self._ages[name] = age
        yield from self._replace(name, new)
        if new.refused:
            self._refused[name] = new.refused
        else:
            self._refused.pop(name, None)
        if service is None:
            del self._ages[name]
        yield 1

    def _contribution(self, service: Service, slices: list[EndpointSlice]) -> Contribution:
        try:
            return contribution(service, slices, self._contexts)
        except Exception as error:  # a programming error must cost only the Service that triggers it
            reason = (
                f"Service {service.namespace}/{service.name}: cannot be worked out: {type(error).__name__}: {error}"
            )
            return NOTHING._replace(refused=(reason[:_MOST_REASON],))

    def _replace(self, name: Name, new: Contribution) -> Generator[int, None, None]:
        old = self._contributions.get(name, NOTHING)
        for key, claim in old.claims.items():
            if key not in new.claims:
                self._allocator.release(name, key, claim)
                yield 1 + len(claim.targets)
        for key, claim in new.claims.items():
            before = old.claims.get(key)
            if before is None:
                self._allocator.request(name, key, claim)
                yield 1 + len(claim.targets)
            elif before != claim:
                self._allocator.change(name, key, before, claim)
                yield 1 + len(claim.targets)
        self._union.replace_members(old.members, new.members)
        if not new.claims and new.health_check_port == 0 and not new.members:
            self._contributions.pop(name, None)
        else:
            self._contributions[name] = new
        self._local.follow(name, old, new)
