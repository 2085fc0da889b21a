# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a cluster and the state that a node must have because of them, kept up to date by small steps.

An event costs what the object is worth: it marks its Service, and the next question works out the marked Services anew and
changes the union by their differences. The result depends on the objects alone, never on the order of the events.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InputError
from ..model import State
from ..model.ipvs import VirtualServerKey
from ..model.objects import EndpointSlice, Node, Service
from ..model.objects_fields import identity
from ..model.objects_node import parse_node
from ..model.objects_service import parse_service
from ..model.objects_slice import parse_slice
from .config import Config
from .constant import Constant
from .context import Context, context, known, node_problems
from .contribution import NOTHING, Contribution, Name, Place, contribution
from .facts import NodeFacts
from .holders import NEVER, Age, Holders
from .local import HealthCheck, Local
from .union import Item, Union, shared_items

_MANY = 500
ObjectName = tuple[str, str]  # kind, "namespace/name" (a Node: "name")


class Cluster:
    """Services, EndpointSlices and Nodes, and the state of one node.

    Args:
        config: the configuration.
        facts: the node.
    """

    def __init__(self, config: Config, facts: NodeFacts) -> None:
        self.config = config
        self.node: Node | None = None  # the Node object of this node
        self._left = False  # there was one, and it was deleted
        self.unheard: Mapping[ObjectName, tuple[str, ...]] = {}  # what whoever answers health checks says about Services
        self._given_facts = facts
        self._services: dict[Name, Service] = {}
        self._slices: dict[Name, dict[str, EndpointSlice]] = {}  # by Service, then by name
        self._slice_service: dict[Name, Name] = {}
        self._broken: dict[ObjectName, tuple[str, ...]] = {}
        self._union = Union()
        self._contributions: dict[Name, Contribution] = {}
        self._dirty: set[Name] = set()
        self._ages: dict[Name, Age] = {}
        self._holders = Holders(self._union, self._contributions, self._ages)
        self._local = Local(self._contributions, self._ages)
        self._contexts: list[Context] = []
        self._layout = Constant(config)
        self._use_facts()

    # objects

    def put(self, obj: Mapping[str, Any]) -> None:
        """Add or replace an object; objects of other kinds are ignored.

        A broken object counts as absent, and ``problems`` says why.

        Raises:
            InputError: the object has no name, so that nobody could speak about it.
        """
        kind = obj.get("kind")
        if kind == "Service":
            self._put_service(obj)
        elif kind == "EndpointSlice":
            self._put_slice(obj)
        elif kind == "Node":
            self._put_node(obj)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object; one that is not there is removed already."""
        if kind == "Service":
            self._broken.pop((kind, f"{namespace}/{name}"), None)
            if self._services.pop((namespace, name), None) is not None:
                self._dirty.add((namespace, name))
        elif kind == "EndpointSlice":
            self._broken.pop((kind, f"{namespace}/{name}"), None)
            self._store_slice((namespace, name), None)
        elif kind == "Node" and name == self._given_facts.name:
            self._broken.pop((kind, name), None)
            self._left = self._left or self.node is not None
            self._set_node(None)

    def _put_service(self, obj: Mapping[str, Any]) -> None:
        name = identity("Service", obj)
        service: Service | None = None
        problems: list[str] = []
        try:
            service, problems = parse_service(obj)
        except InputError as error:
            problems = [str(error)]
        self._report(("Service", f"{name[0]}/{name[1]}"), problems)
        if service is None:
            if self._services.pop(name, None) is not None:
                self._dirty.add(name)
        elif self._services.get(name) != service:
            self._services[name] = service
            self._dirty.add(name)

    def _put_slice(self, obj: Mapping[str, Any]) -> None:
        name = identity("EndpointSlice", obj)
        piece: EndpointSlice | None = None
        problems: list[str] = []
        try:
            piece, problems = parse_slice(obj)
        except InputError as error:
            problems = [str(error)]
        self._report(("EndpointSlice", f"{name[0]}/{name[1]}"), problems)
        self._store_slice(name, piece)

    def _store_slice(self, name: Name, piece: EndpointSlice | None) -> None:
        service = self._slice_service.get(name)
        wanted = (piece.namespace, piece.service) if piece is not None else None
        if service is not None and service != wanted:
            del self._slice_service[name]
            slices = self._slices[service]
            del slices[name[1]]
            if not slices:
                del self._slices[service]
            self._dirty.add(service)
        if piece is not None and wanted is not None:
            slices = self._slices.setdefault(wanted, {})
            if slices.get(name[1]) != piece:
                slices[name[1]] = piece
                self._slice_service[name] = wanted
                self._dirty.add(wanted)

    def _put_node(self, obj: Mapping[str, Any]) -> None:
        name = identity("Node", obj)[1]
        if name != self._given_facts.name:
            return
        node: Node | None = None
        problems: list[str] = []
        try:
            node = parse_node(obj)
        except InputError as error:
            problems = [str(error)]
        self._report(("Node", name), problems)
        self._left = False
        self._set_node(node)

    def _set_node(self, node: Node | None) -> None:
        if node != self.node:
            self.node = node
            self._use_facts()

    def _report(self, name: ObjectName, problems: list[str]) -> None:
        if problems:
            self._broken[name] = tuple(problems)
        else:
            self._broken.pop(name, None)

    def set_facts(self, facts: NodeFacts) -> None:
        """Use new facts about the node; every Service is worked out anew if that matters to it."""
        if facts != self._given_facts:
            self._given_facts = facts
            self._use_facts()

    def _use_facts(self) -> None:
        self.facts = known(self.config, self._given_facts, self.node)
        contexts = [context(fam, self.config, self.facts) for fam in (4, 6)]
        if contexts != self._contexts:
            self._contexts = contexts
            self._dirty.update(self._services)
        self._layout.use(self.facts)

    # answers

    @property
    def eligible(self) -> bool:
        """Tell whether new traffic may be sent to this node: it is not about to be removed, nor was its Node object."""
        return not self._left if self.node is None else self.node.eligible

    @property
    def problems(self) -> dict[ObjectName, tuple[str, ...]]:
        """What is wrong with objects, by (kind, "namespace/name")."""
        self._settle()
        found = dict(self._broken)
        for name, texts in self._holders.conflicts():
            subject = ("Service", f"{name[0]}/{name[1]}")
            found[subject] = (*found.get(subject, ()), *texts)
        for subject, told in self.unheard.items():
            found[subject] = (*found.get(subject, ()), *told)
        told = tuple(node_problems(self.config, self.facts))
        if told:
            subject = ("Node", self.facts.name)
            found[subject] = (*found.get(subject, ()), *told)
        return found

    def state(self) -> State:
        """Return the whole desired state; the dictionaries are the caller's."""
        self._settle()
        found = self._layout.state()
        for kind, items in self._union.items.items():
            found.setdefault(kind, {}).update(items)
        return found

    def take(self) -> State:
        """Return what changed since the last time, per kind: the new value, or None for what is no longer wanted."""
        self._settle()
        changes = self._layout.take()
        for kind, items in self._union.take().items():
            if items:
                changes.setdefault(kind, {}).update(items)
        return changes

    def take_flows(self, also: Iterable[VirtualServerKey] = ()) -> dict[VirtualServerKey, frozenset[Place]]:
        """Return who may answer the UDP flows to virtual servers: of those where that changed since the last time, and ``also``.

        Those that nobody serves are left out.
        """
        self._settle()
        found = {}
        for key in {*self._union.take_served(), *also}:
            holder = self._holders.get(key)
            if holder is not None and self._contributions[holder].claims[key].serving:
                found[key] = self._contributions[holder].claims[key].serving
        return found

    def health_checks(self) -> Mapping[int, HealthCheck]:
        """Return the health check node ports to answer on, by number: the same mapping as long as none changes."""
        self._settle()
        return self._local.checks()

    def port_of(self, key: VirtualServerKey) -> str:
        """Return which port of which Service a virtual server is for: ``namespace/name:port``, its number if it has no name; "" for none."""
        self._settle()
        name = self._holders.get(key)
        if name is None:
            return ""
        port = self._services[name].ports[self._contributions[name].claims[key].position]
        return f"{name[0]}/{name[1]}:{port.name or port.port}"

    def whose(self, items: Iterable[Item]) -> dict[Item, str]:
        """Return which Services these items are there for: ``namespace/name``, with commas between several.

        What is there whatever the Services are, and what no Service wants any more, is left out. Members and addresses cost a look at everything.
        """
        self._settle()
        found: dict[Item, set[Name]] = {}
        shared: set[Item] = set()
        for kind, key in items:
            holder = self._holders.get({"virtual_server": key, "real_server": getattr(key, "server", None)}.get(kind))
            if holder is not None:
                found[kind, key] = {holder}
            elif kind in ("member", "address", "route"):
                shared.add((kind, key))
        for name, part in self._contributions.items() if shared else ():
            held = (claim for key, claim in part.claims.items() if self._holders.get(key) == name)
            for item in shared.intersection(shared_items(held, part.members)):
                found.setdefault(item, set()).add(name)
        return {item: ",".join(sorted("/".join(name) for name in names)) for item, names in found.items()}

    def no_local_endpoints(self) -> Mapping[tuple[int, str], int]:
        """Count the Services that have endpoints but, with a policy Local, none here, by (family, "internal" or "external")."""
        self._settle()
        return self._local.no_local_endpoints()

    # working it out

    def _settle(self) -> None:
        """Work out the marked Services anew, then what follows from all of them."""
        # nothing made here is garbage: while a whole cluster is read in, looking for some would double the time
        paused = len(self._dirty) >= _MANY and gc.isenabled()
        if paused:
            gc.disable()
        try:
            self._work_out()
        finally:
            if paused:
                gc.enable()

    def _work_out(self) -> None:
        for name in self._dirty:
            service = self._services.get(name)
            new, age = NOTHING, NEVER
            if service is not None:
                slices = self._slices.get(name, {})
                ordered = [slices[key] for key in sorted(slices)]
                new, age = contribution(service, ordered, self._contexts), (service.created, *name)
            if age != self._ages.get(name, age):
                self._replace(name, NOTHING)  # made anew under its old name: it lines up again
            self._ages[name] = age
            self._replace(name, new)
            if service is None:
                del self._ages[name]
        self._dirty.clear()
        self._layout.follow(self._union)

    def _replace(self, name: Name, new: Contribution) -> None:
        old = self._contributions.get(name, NOTHING)
        for key, claim in old.claims.items():
            if key not in new.claims:
                self._holders.release(name, key, claim)
        for key, claim in new.claims.items():
            before = old.claims.get(key)
            if before is None:
                self._holders.request(name, key, claim)
            elif before != claim and self._holders.get(key) == name:
                self._union.replace(key, before, claim)
        self._union.replace_members(old.members, new.members)
        if new is NOTHING:
            self._contributions.pop(name, None)
        else:
            self._contributions[name] = new
        self._local.follow(name, old, new)
